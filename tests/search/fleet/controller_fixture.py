"""Builders for the tests of the index controller, and a world that executes its effects in virtual time."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from argosy.base.clock import seeded_random
from argosy.ownership.model import Unit
from argosy.search.fleet.effects import (
    Admit,
    Build,
    CheckOrigin,
    DiscardIndex,
    Effect,
    Fetch,
    Forget,
    LoadIndex,
    Receive,
    Refuse,
    Release,
    Restore,
    Stop,
    UnloadIndex,
    VerifyIndex,
)
from argosy.search.fleet.events import (
    Event,
    IndexProvisioned,
    IndexStats,
    IndexVerified,
    OriginChecked,
    OriginCheckFailed,
    ProvisionFailed,
    ProvisionStopped,
    SourceFetched,
    SpecChanged,
    UnitGained,
    UnitLost,
)
from argosy.search.fleet.index_controller import VERIFICATIONS_MAX, IndexController
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch
from argosy.search.settings import SearchSettings

T = TypeVar("T")

MIB = 1 << 20
BUDGET_BYTES = 1000 * MIB


class MidpointRandom:
    """Implements `Random`: every draw is the middle of its range."""

    def random(self) -> float:
        return 0.5

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def randrange(self, start: int, stop: int) -> int:
        return (start + stop) // 2

    def choice(self, seq: Sequence[T]) -> T:
        return seq[len(seq) // 2]


def spec(name: str = "a", **changes: Any) -> RepoSpec:
    return RepoSpec(**{"name": name, "url": f"https://host/{name}", **changes})


def heads(version: str = "c1", name: str = "main") -> tuple[Branch, ...]:
    return (Branch(name, version),)


def stats(memory_bytes: int = MIB, version: str = "c1", **changes: Any) -> IndexStats:
    return IndexStats(memory_bytes, heads(version), **changes)


def of_kind(effects: Iterable[object], kind: type[T]) -> list[T]:
    return [effect for effect in effects if isinstance(effect, kind)]


def only(effects: Iterable[object], kind: type[T]) -> T:
    (found,) = of_kind(effects, kind)
    return found


class ControllerFixture:
    """A controller that handles one event at a time."""

    def __init__(self, *, budget_bytes: int = BUDGET_BYTES, **changes: Any) -> None:
        self.settings = SearchSettings(**changes)
        self.controller = IndexController(self.settings, budget_bytes, MidpointRandom())
        self.now = 0.0

    def handle(self, event: Event | None) -> list[Effect]:
        return self.controller.handle(event, self.now)

    def wait(self, seconds: float) -> list[Effect]:
        """Lets time pass as the driver does, without completing any effect."""
        until, effects = self.now + seconds, []
        for _ in range(10_000):
            deadline = self.controller.deadline()
            if deadline is None or deadline > until:
                self.now = until
                return effects
            self.now = max(self.now, deadline)
            effects += self.handle(None)
        raise AssertionError(f"the controller never becomes idle: deadline {self.controller.deadline()} at {self.now}")

    def gain(self, name: str = "a", replica: int = 0, sibling: str | None = None, **changes: Any) -> list[Effect]:
        return self.handle(UnitGained(Unit(name, replica), spec(name, **changes), sibling))

    def change(self, name: str = "a", **changes: Any) -> list[Effect]:
        return self.handle(SpecChanged(name, spec(name, **changes)))

    def complete_fetch(self, effects: Iterable[Effect]) -> Build:
        """The fetch among these effects succeeds; a build slot must be free."""
        return only(self.handle(SourceFetched(only(effects, Fetch).number)), Build)

    def complete_build(self, effects: Iterable[Effect], memory_bytes: int = MIB, version: str = "c1") -> list[Effect]:
        """The fetch among these effects and its build succeed."""
        return self.handle(IndexProvisioned(self.complete_fetch(effects).number, stats(memory_bytes, version)))

    def make_ready(self, name: str = "a", memory_bytes: int = MIB, version: str = "c1", **changes: Any) -> list[Effect]:
        """From gained to ready."""
        return self.complete_build(self.gain(name, **changes), memory_bytes, version)

    def check_origin(self, version: str) -> list[Effect]:
        """The next origin check finds this version."""
        order = only(self.wait(self.settings.refresh_s * 2), CheckOrigin)
        return self.handle(OriginChecked(order.number, heads(version)))


class World:
    """Executes the effects of a controller in virtual time and random order, and checks its rules at every step."""

    def __init__(self, seed: int, *, budget_bytes: int, failing: float = 0.0, **changes: Any) -> None:
        self.settings = SearchSettings(**changes)
        self.controller = IndexController(self.settings, budget_bytes, seeded_random(seed))
        self.now = 0.0
        self.sizes: dict[str, int] = {}
        self.versions: dict[str, str] = {}
        self.specs: dict[str, RepoSpec] = {}
        self.loaded: dict[str, int] = {}
        self.waiting: set[str] = set()  # gained and neither admitted nor refused
        self.released: list[str] = []
        self.seen: Counter[str] = Counter()
        self._random = seeded_random(f"world {seed}")
        self._failing = failing
        self._pending: list[tuple[float, int, Event]] = []
        self._count = 0
        self._fetching: dict[int, str] = {}
        self._building: dict[int, str] = {}
        self._made: dict[int, tuple[str, int]] = {}
        self._running: Counter[str] = Counter()

    def gain(self, name: str, replica: int = 0, sibling: str | None = None) -> None:
        """Ownership warms a unit only after it has dropped the former one."""
        lost = [entry for entry in self._pending if isinstance(entry[2], UnitLost) and entry[2].name == name]
        self._pending = [entry for entry in self._pending if entry not in lost]
        heapq.heapify(self._pending)
        for _, _, event in lost:
            self.handle(event)
        self.waiting.add(name)
        self.handle(UnitGained(Unit(name, replica), self.specs.get(name), sibling))

    def handle(self, event: Event | None) -> None:
        for effect in self.controller.handle(event, self.now):
            self.seen[type(effect).__name__] += 1
            self._execute(effect)
        self._check_rules()

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(100_000):
            pending = self._pending[0][0] if self._pending else None
            deadline = self.controller.deadline()
            times = [at for at in (pending, deadline) if at is not None]
            if not times or min(times) > until:
                self.now = until
                return
            self.now = max(self.now, min(times))
            if pending is not None and pending <= self.now:
                self._deliver(heapq.heappop(self._pending)[2])
            else:
                self.handle(None)
        raise AssertionError("the controller never becomes idle")

    def _deliver(self, event: Event) -> None:
        match event:
            case SourceFetched(number) if number not in self._fetching:
                return  # it was stopped before
            case IndexProvisioned(number) | ProvisionFailed(number):
                if self._fetching.pop(number, None) is None and self._building.pop(number, None) is None:
                    return
            case ProvisionStopped(number):
                self._fetching.pop(number, None)
                self._building.pop(number, None)
            case OriginChecked() | OriginCheckFailed():
                self._running["origin check"] -= 1
            case IndexVerified():
                self._running["verification"] -= 1
        self.handle(event)

    def _execute(self, effect: Effect) -> None:
        match effect:
            case CheckOrigin(number, wanted_spec):
                self._running["origin check"] += 1
                found = heads(self.versions.get(wanted_spec.name, "c0"))
                self._later(OriginCheckFailed(number, "away") if self._is_failing() else OriginChecked(number, found))
            case Fetch(number, wanted_spec):
                self._fetching[number] = wanted_spec.name
                self._later(ProvisionFailed(number, "gone") if self._is_failing() else SourceFetched(number))
            case Receive(number, wanted_spec) | Restore(number, wanted_spec):
                self._fetching[number] = wanted_spec.name
                self._finish(number, wanted_spec.name)
            case Build(number):
                name = self._building[number] = self._fetching.pop(number)
                self._finish(number, name)
            case Stop(number):
                self._later(ProvisionStopped(number))
            case LoadIndex(number, name):
                made_for, size = self._made.pop(number)
                assert made_for == name
                self.loaded[name] = size
            case DiscardIndex(number):
                del self._made[number]
            case UnloadIndex(name) | Forget(name):
                self.loaded.pop(name, None)
            case Admit(name):
                assert name in self.loaded
                self.waiting.discard(name)
            case Refuse(name):
                self.waiting.discard(name)
                self._later(UnitLost(name))
            case Release(name):
                self.released.append(name)
                self._later(UnitLost(name))
            case VerifyIndex(number):
                self._running["verification"] += 1
                self._later(IndexVerified(number, not self._is_failing()))

    def _finish(self, number: int, name: str) -> None:
        if self._is_failing():
            self._later(ProvisionFailed(number, "broken"))
            return
        self._made[number] = (name, self.sizes[name])
        self._later(IndexProvisioned(number, stats(self.sizes[name], self.versions.get(name, "c0"))))

    def _later(self, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._pending, (self.now + self._random.uniform(0.1, 5.0), self._count, event))

    def _is_failing(self) -> bool:
        return self._random.random() < self._failing

    def _check_rules(self) -> None:
        controller = self.controller
        assert len(self._fetching) <= self.settings.fetches_max
        assert len(self._building) <= self.settings.builds_max
        assert self._running["origin check"] <= self.settings.origin_checks_max
        assert self._running["verification"] <= VERIFICATIONS_MAX
        loaded = {name: repo.memory_bytes for name, repo in controller.repos.items() if repo.loaded}
        for repo in controller.repos.values():
            if repo.loaded and repo.job is None and not repo.is_leaving:
                assert repo.origin_check or repo.name in controller.origin_checks, (
                    "an idle index has its origin checked"
                )
            if repo.loaded and not repo.is_leaving:
                assert repo.verification or repo.name in controller.verifications, "an index is verified"
        assert loaded == self.loaded, "the controller and the loaded indexes agree"
        assert controller.memory.held_bytes == sum(loaded.values())
        staying = sum(size for name, size in loaded.items() if not controller.repos[name].is_leaving)
        if staying > controller.memory.budget_bytes * self.settings.high_watermark:
            evictable = [name for name in loaded if not controller.repos[name].is_leaving and not self._is_pinned(name)]
            assert evictable == [], "above the high watermark only pinned indexes stay"

    def _is_pinned(self, name: str) -> bool:
        repo = self.controller.repos[name]
        return repo.spec is not None and repo.spec.is_pinned
