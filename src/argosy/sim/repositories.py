"""Simulated repositories: their origins, and the catalog that lists them.

A repository is a commit number and the size of its index; there is no content. Fetching takes time in proportion to the
size. The catalog is shared by all nodes, and each node is notified of a change a moment later.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.ownership.model import UnitSpec
from argosy.search.documents import Content, Entry, Source
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch, Repository
from argosy.sim.link import Link
from argosy.sim.loop import OUTSIDE, WALL_AT_START, SimLoop

FETCH_AT_LEAST_S = 0.1  # of any fetch
LIST_REFS_S = (0.02, 0.2)  # to list the branches of an origin


@dataclass(frozen=True)
class SimSource:
    """A checkout: implements `Source` without content; only its commit and the size of its index matter."""

    repository: Repository
    index_bytes: int

    def entries(self) -> Sequence[Entry]:
        return ()

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        return iter(())


class Origins:
    """The origins of all repositories of a space."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._commits = dict.fromkeys(sizes, 1)

    def commit(self, name: str, index_bytes: int | None = None) -> None:
        """Add a commit; its index takes `index_bytes` from now on."""
        self._commits[name] += 1
        if index_bytes is not None:
            self._sizes[name] = index_bytes

    def index_bytes(self, name: str) -> int:
        return self._sizes[name]

    def heads(self, name: str) -> tuple[Branch, ...]:
        return (Branch("main", f"c{self._commits[name]}"),)

    def checkout(self, name: str) -> SimSource:
        return SimSource(Repository(name, branches=self.heads(name)), self._sizes[name])


class SimFetcher:
    """Implements `Fetcher`: takes time in proportion to the size, and sometimes fails."""

    def __init__(
        self,
        origins: Origins,
        *,
        clock: Clock,
        random: Random,
        bytes_per_s: float,
        failure_chance: Callable[[], float],
    ) -> None:
        self._origins = origins
        self._clock = clock
        self._random = random
        self._bytes_per_s = bytes_per_s
        self._failure_chance = failure_chance

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        await self._clock.sleep(self._random.uniform(*LIST_REFS_S))
        self._maybe_fail(spec.name)
        return self._origins.heads(spec.name)

    @asynccontextmanager
    async def fetch(self, spec: RepoSpec, progress: Callable[[float], None]) -> AsyncIterator[Source]:
        await self._clock.sleep(FETCH_AT_LEAST_S + self._origins.index_bytes(spec.name) / self._bytes_per_s)
        self._maybe_fail(spec.name)
        yield self._origins.checkout(spec.name)

    def _maybe_fail(self, name: str) -> None:
        if self._random.random() < self._failure_chance():
            raise Unavailable(f"the origin of {name!r} is unreachable")


# -- catalog ----------------------------------------------------------------------------------------------------------

NOTIFY_AFTER_S = 1.0  # changes within this time are notified together


class SimRepoCatalog:
    """The catalog, as the registry stores it."""

    def __init__(self, specs: Iterable[UnitSpec], loop: SimLoop) -> None:
        self.specs = {spec.name: _spec(spec) for spec in specs}
        self.readers: dict[str, CatalogReader] = {}  # by node
        self.bytes_max: Mapping[
            str, int
        ] = {}  # the size that may be recorded, after `SimSpace.heal` has shrunk the repositories
        self._loop = loop
        self._specs: list[UnitSpec] | None = None

    def units(self) -> list[UnitSpec]:
        if self._specs is None:
            self._specs = [
                UnitSpec(each.name, each.footprint_bytes, each.max_bids, each.replicas) for each in self.specs.values()
            ]
        return self._specs

    def change(self, name: str, **changes: object) -> None:
        changed = replace(self.specs[name], **changes)
        # A result that is recorded twice must not wake all nodes.
        if changed == self.specs[name]:
            return
        self.specs[name] = changed
        self._specs = None
        for reader in self.readers.values():
            reader.notify()

    def now_ms(self) -> int:
        return int((WALL_AT_START + self._loop.time()) * 1000)

    def announce(self, name: str) -> None:
        """A push notification: a repository has new commits."""
        self.change(name, pushed_at=self.now_ms())

    def read_by(self, node: str, link: Link) -> "CatalogReader":
        """The reader of a new process of a node replaces the previous one."""
        reader = self.readers[node] = CatalogReader(self, link, self._loop)
        return reader


class CatalogReader:
    """One node's view of the catalog: implements the ports of the search node and of ownership."""

    def __init__(self, shared: SimRepoCatalog, link: Link, loop: SimLoop) -> None:
        self.observers: list[Callable[[], None]] = []
        self._shared = shared
        self._link = link
        self._loop = loop
        self._is_scheduled = False

    @property
    def specs(self) -> Mapping[str, RepoSpec]:
        return self._shared.specs

    async def units(self) -> list[UnitSpec]:
        return self._shared.units()

    async def record_indexed(self, name: str, *, commit: str, footprint_bytes: int) -> None:
        self._check()
        noted = {"failures": 0, "last_error": None, "last_failed_at": None}
        at = self._shared.now_ms()
        size_bytes = min(footprint_bytes, self._shared.bytes_max.get(name, footprint_bytes))
        self._shared.change(name, last_commit=commit, footprint_bytes=size_bytes, last_indexed_at=at, **noted)

    async def record_failure(self, name: str, why: str) -> None:
        self._check()
        failures = self.specs[name].failures + 1
        self._shared.change(name, failures=failures, last_error=why, last_failed_at=self._shared.now_ms())

    def notify(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(NOTIFY_AFTER_S, self._notify_observers, context=OUTSIDE)

    def _notify_observers(self) -> None:
        self._is_scheduled = False
        for observer in list(self.observers):
            observer()

    def _check(self) -> None:
        # The registry is reached over the same link as the store.
        if not self._link.is_whole():
            raise Unavailable("the registry is unreachable")


def _spec(spec: UnitSpec) -> RepoSpec:
    return RepoSpec(
        spec.name,
        f"https://host/{spec.name}",
        footprint_bytes=spec.footprint_bytes,
        replicas=spec.replicas,
        max_bids=spec.max_bids,
    )
