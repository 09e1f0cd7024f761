"""The catalog of simulated repositories: one for all nodes, of whose changes each node hears a moment later."""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from argosy.base.errors import Unavailable
from argosy.ownership.model import UnitSpec
from argosy.search.fleet.model import RepoSpec
from argosy.sim.clocks import WALL_AT_START
from argosy.sim.link import Link
from argosy.sim.loop import OUTSIDE, SimLoop

NOTIFY_AFTER_S = 1.0  # changes within this time are heard together


class SimRepoCatalog:
    """What should be searchable, in the registry."""

    def __init__(self, specs: Iterable[UnitSpec], loop: SimLoop) -> None:
        self.specs = {spec.name: _spec(spec) for spec in specs}
        self.readers: dict[str, CatalogReader] = {}  # by node
        self.bytes_max: Mapping[str, int] = {}  # what the repositories take since they were cleaned up
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
        if changed == self.specs[name]:
            return
        self.specs[name] = changed
        self._specs = None
        for reader in self.readers.values():
            reader.notify()

    def now_ms(self) -> int:
        return int((WALL_AT_START + self._loop.time()) * 1000)

    def announce(self, name: str) -> None:
        """A host says that a repository has new commits."""
        self.change(name, pushed_at=self.now_ms())

    def read_by(self, node: str, link: Link) -> "CatalogReader":
        """A new run of a node takes the place of the last one."""
        reader = self.readers[node] = CatalogReader(self, link, self._loop)
        return reader


class CatalogReader:
    """The catalog as one node follows it: implements what a search node and what ownership read."""

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
        if not self._link.is_whole():
            raise Unavailable("the registry does not answer")


def _spec(spec: UnitSpec) -> RepoSpec:
    return RepoSpec(
        spec.name,
        f"https://host/{spec.name}",
        footprint_bytes=spec.footprint_bytes,
        replicas=spec.replicas,
        max_bids=spec.max_bids,
    )
