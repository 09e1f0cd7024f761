"""A local copy of the catalog, kept current by the registry's watch.

Each node and each gateway has one. A repository removed from the catalog disappears from results at once, and no search
waits for the registry (decision 0018). Changes carry their row, so following them costs no reads.

The conversions from a catalog row to the spec that nodes work by, and from a spec to the unit that ownership assigns,
are here and nowhere else.
"""

import asyncio
from collections.abc import Callable, Mapping

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import Gone, NotFound, Unavailable
from argosy.base.retry import Backoff
from argosy.ownership.model import UnitSpec
from argosy.registry import catalog
from argosy.registry.ports import Change, RegistryStore
from argosy.registry.rows import RepositoryRow
from argosy.registry.tables import REPOSITORIES
from argosy.search.fleet.model import RepoSpec

# A registry that restarts is back within seconds; processes of a fleet must not reconnect in step.
WATCH_BACKOFF = Backoff(first_s=0.1, ceiling_s=5.0)

log = logs.get("catalog")


class CatalogWatcher:
    """Implements `ownership.ports.UnitCatalog` from the local copy."""

    def __init__(self, registry: RegistryStore, *, clock: Clock | None = None, random: Random | None = None) -> None:
        self.observers: list[Callable[[], None]] = []  # called after every change
        self.version = 0  # grows with every change
        self._registry = registry
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._specs: dict[str, RepoSpec] = {}
        self._has_synced = asyncio.Event()

    @property
    def specs(self) -> Mapping[str, RepoSpec]:
        """By name."""
        return self._specs

    async def run(self) -> None:
        """Watches the registry until this task is cancelled."""
        failures = 0
        while True:
            try:
                # The revision is read before the list: a change in between is delivered twice, but none is lost.
                revision = await self._registry.revision()
                self._replace(await self._registry.run(catalog.everything()))
                # The connection works again, so the next failure starts with the short delay.
                failures = 0
                async for change in self._registry.watch(revision, rows_of=(REPOSITORIES,)):
                    self._apply(change)
            except Gone:
                continue  # the watch fell behind: list again
            except Unavailable as why:
                notice = f"registry unreachable: {why}; retrying"
                log.warning("registry unreachable", why=str(why), notice=notice)
            failures += 1
            await self._clock.sleep(WATCH_BACKOFF.delay(failures, self._random))

    async def wait_synced(self) -> None:
        """Returns once the catalog has been read for the first time."""
        await self._has_synced.wait()

    async def units(self) -> list[UnitSpec]:
        await self._has_synced.wait()
        return [unit_from_spec(spec) for spec in self._specs.values()]

    async def record_indexed(self, name: str, *, commit: str, footprint_bytes: int) -> None:
        """Records commit and memory, so that the next bids are exact. The repository may be removed by now."""
        try:
            await self._registry.run(catalog.record_indexed(name, commit_hash=commit, footprint_bytes=footprint_bytes))
        except NotFound:
            log.debug("indexed repository not in the catalog", repository=name)

    async def record_failure(self, name: str, why: str) -> None:
        try:
            await self._registry.run(catalog.record_index_failure(name, error=why))
        except NotFound:
            log.debug("failed repository not in the catalog", repository=name)

    def _apply(self, change: Change) -> None:
        if change.table != REPOSITORIES.name:
            # The watch delivers changes of all tables in order; rows are only included for those of `rows_of`.
            return
        (name,) = change.key
        # A row deleted after this change is delivered as None; the change of its deletion follows.
        if not change.is_deleted and change.row is not None:
            self._specs[name] = spec_from_row(change.row)
        elif self._specs.pop(name, None) is None:
            return
        self._notify()

    def _replace(self, rows: list[RepositoryRow]) -> None:
        self._specs = {row.repo_id: spec_from_row(row) for row in rows}
        self._has_synced.set()
        self._notify()

    def _notify(self) -> None:
        # Before the observers, which compare versions.
        self.version += 1
        for observer in self.observers:
            observer()


# -- row to spec to unit -----------------------------------------------------------------------------------------------


def spec_from_row(row: RepositoryRow) -> RepoSpec:
    return RepoSpec(
        name=row.repo_id,
        url=row.url,
        branches=row.branches,
        is_pinned=row.is_pinned,
        footprint_bytes=row.footprint_bytes,
        replicas=row.replicas,
        max_bids=row.max_bids,
        reindex_requested_at=row.reindex_requested_at,
        pushed_at=row.pushed_at,
        last_commit=row.last_commit,
        last_indexed_at=row.last_indexed_at,
        failures=row.failures,
        last_error=row.last_error,
        last_failed_at=row.last_failed_at,
    )


def unit_from_spec(spec: RepoSpec) -> UnitSpec:
    return UnitSpec(spec.name, footprint_of(spec), spec.max_bids, spec.replicas)


def footprint_of(spec: RepoSpec) -> int | None:
    """The memory of the last index; None, which any node may bid for, while a reindex is requested.

    A repository that fits on no node would otherwise stay unowned forever, even after it has shrunk.
    """
    is_requested = (spec.reindex_requested_at or 0) > (spec.last_indexed_at or 0)
    return None if is_requested else spec.footprint_bytes
