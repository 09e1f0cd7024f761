"""The catalog, followed: what should be searchable, as the registry has it now.

Nodes and front doors both keep one of these. A change anybody makes reaches them by the registry's watch, so that a
repository taken out of the catalog vanishes from answers at once, and a question never waits for the registry.
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

FOLLOW_BACKOFF = Backoff(first_s=0.1, ceiling_s=5.0)

log = logs.get("catalog")


class CatalogWatcher:
    """Implements `ownership.ports.UnitCatalog` from what it has been told so far."""

    def __init__(self, registry: RegistryStore, *, clock: Clock | None = None, random: Random | None = None) -> None:
        self.observers: list[Callable[[], None]] = []  # called after every change
        self.version = 0  # grows with every change
        self._registry = registry
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._specs: dict[str, RepoSpec] = {}
        self._is_current = asyncio.Event()

    @property
    def specs(self) -> Mapping[str, RepoSpec]:
        """By name."""
        return self._specs

    async def run(self) -> None:
        """Follows the registry until this task is cancelled."""
        failures = 0
        while True:
            try:
                revision = await self._registry.revision()
                self._replace(await self._registry.run(catalog.everything()))
                failures = 0
                async for change in self._registry.watch(revision):
                    await self._take(change)
            except Gone:
                continue  # fell behind: list again
            except Unavailable as why:
                notice = f"the catalog cannot be read ({why}); trying again"
                log.warning("registry away", why=str(why), notice=notice)
            failures += 1
            await self._clock.sleep(FOLLOW_BACKOFF.delay(failures, self._random))

    async def wait_synced(self) -> None:
        """Returns once the catalog has been read for the first time."""
        await self._is_current.wait()

    async def units(self) -> list[UnitSpec]:
        await self._is_current.wait()
        return [UnitSpec(spec.name, footprint_of(spec), spec.max_bids, spec.replicas) for spec in self._specs.values()]

    async def record_indexed(self, name: str, *, commit: str, footprint_bytes: int) -> None:
        """Remembers what a repository takes, so that the next bids for it are honest. It may be gone by now."""
        try:
            await self._registry.run(catalog.record_indexed(name, commit_hash=commit, footprint_bytes=footprint_bytes))
        except NotFound:
            log.debug("indexed and no longer wished for", repository=name)

    async def record_failure(self, name: str, why: str) -> None:
        try:
            await self._registry.run(catalog.record_index_failure(name, error=why))
        except NotFound:
            log.debug("failed and no longer wished for", repository=name)

    async def _take(self, change: Change) -> None:
        if change.table != REPOSITORIES.name:
            return
        (name,) = change.key
        row = None if change.is_deleted else await self._registry.run(catalog.read(name))
        if row is not None:
            self._specs[name] = spec_from_row(row)
        elif self._specs.pop(name, None) is None:
            return
        self._tell()

    def _replace(self, rows: list[RepositoryRow]) -> None:
        self._specs = {row.repo_id: spec_from_row(row) for row in rows}
        self._is_current.set()
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        for observer in self.observers:
            observer()


def footprint_of(spec: RepoSpec) -> int | None:
    """What a repository took, unless somebody asks to find it out anew: it may have shrunk since nobody has room."""
    is_asked = (spec.reindex_requested_at or 0) > (spec.last_indexed_at or 0)
    return None if is_asked else spec.footprint_bytes


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
