"""Builders that the tests of a node's controller share, and a world that carries its orders out in virtual time."""

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


class Dice:
    """Implements `Random` without chance: every draw lies in the middle of its range."""

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


class Bench:
    """A controller, told one thing at a time."""

    def __init__(self, *, budget_bytes: int = BUDGET_BYTES, **changes: Any) -> None:
        self.settings = SearchSettings(**changes)
        self.controller = IndexController(self.settings, budget_bytes, Dice())
        self.now = 0.0

    def tell(self, event: Event | None) -> list[Effect]:
        return self.controller.handle(event, self.now)

    def wait(self, seconds: float) -> list[Effect]:
        """Lets time pass as the driver does; nobody answers what is ordered meanwhile."""
        until, effects = self.now + seconds, []
        for _ in range(10_000):
            deadline = self.controller.deadline()
            if deadline is None or deadline > until:
                self.now = until
                return effects
            self.now = max(self.now, deadline)
            effects += self.tell(None)
        raise AssertionError(f"the controller never rests: deadline {self.controller.deadline()} at {self.now}")

    def gain(self, name: str = "a", replica: int = 0, sibling: str | None = None, **changes: Any) -> list[Effect]:
        return self.tell(UnitGained(Unit(name, replica), spec(name, **changes), sibling))

    def change(self, name: str = "a", **changes: Any) -> list[Effect]:
        return self.tell(SpecChanged(name, spec(name, **changes)))

    def fetched(self, effects: Iterable[Effect]) -> Build:
        """The fetch among these orders succeeds; there must be a place to build."""
        return only(self.tell(SourceFetched(only(effects, Fetch).number)), Build)

    def made(self, effects: Iterable[Effect], memory_bytes: int = MIB, version: str = "c1") -> list[Effect]:
        """The fetch among these orders and the build after it succeed."""
        return self.tell(IndexProvisioned(self.fetched(effects).number, stats(memory_bytes, version)))

    def keep(self, name: str = "a", memory_bytes: int = MIB, version: str = "c1", **changes: Any) -> list[Effect]:
        """From gained to ready."""
        return self.made(self.gain(name, **changes), memory_bytes, version)

    def look(self, version: str) -> list[Effect]:
        """The next look comes, and finds this."""
        order = only(self.wait(self.settings.refresh_s * 2), CheckOrigin)
        return self.tell(OriginChecked(order.number, heads(version)))


class World:
    """Carries out a controller's orders in virtual time, as chance has it, and watches the rules while it does."""

    def __init__(self, seed: int, *, budget_bytes: int, failing: float = 0.0, **changes: Any) -> None:
        self.settings = SearchSettings(**changes)
        self.controller = IndexController(self.settings, budget_bytes, seeded_random(seed))
        self.now = 0.0
        self.sizes: dict[str, int] = {}
        self.versions: dict[str, str] = {}
        self.specs: dict[str, RepoSpec] = {}
        self.shelf: dict[str, int] = {}
        self.waiting: set[str] = set()  # gained and neither admitted nor refused
        self.released: list[str] = []
        self.seen: Counter[str] = Counter()
        self._random = seeded_random(f"world {seed}")
        self._failing = failing
        self._coming: list[tuple[float, int, Event]] = []
        self._count = 0
        self._fetching: dict[int, str] = {}
        self._building: dict[int, str] = {}
        self._made: dict[int, tuple[str, int]] = {}
        self._errands: Counter[str] = Counter()

    def gain(self, name: str, replica: int = 0, sibling: str | None = None) -> None:
        """Ownership warms a unit only when it has dropped what was there before."""
        lost = [entry for entry in self._coming if isinstance(entry[2], UnitLost) and entry[2].name == name]
        self._coming = [entry for entry in self._coming if entry not in lost]
        heapq.heapify(self._coming)
        for _, _, event in lost:
            self.tell(event)
        self.waiting.add(name)
        self.tell(UnitGained(Unit(name, replica), self.specs.get(name), sibling))

    def tell(self, event: Event | None) -> None:
        for effect in self.controller.handle(event, self.now):
            self.seen[type(effect).__name__] += 1
            self._carry_out(effect)
        self._watch_rules()

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(100_000):
            coming = self._coming[0][0] if self._coming else None
            deadline = self.controller.deadline()
            times = [at for at in (coming, deadline) if at is not None]
            if not times or min(times) > until:
                self.now = until
                return
            self.now = max(self.now, min(times))
            if coming is not None and coming <= self.now:
                self._arrive(heapq.heappop(self._coming)[2])
            else:
                self.tell(None)
        raise AssertionError("the controller never rests")

    def _arrive(self, event: Event) -> None:
        match event:
            case SourceFetched(number) if number not in self._fetching:
                return  # it was stopped on the way
            case IndexProvisioned(number) | ProvisionFailed(number):
                if self._fetching.pop(number, None) is None and self._building.pop(number, None) is None:
                    return
            case ProvisionStopped(number):
                self._fetching.pop(number, None)
                self._building.pop(number, None)
            case OriginChecked() | OriginCheckFailed():
                self._errands["look"] -= 1
            case IndexVerified():
                self._errands["check"] -= 1
        self.tell(event)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case CheckOrigin(number, wanted):
                self._errands["look"] += 1
                found = heads(self.versions.get(wanted.name, "c0"))
                self._later(OriginCheckFailed(number, "away") if self._is_failing() else OriginChecked(number, found))
            case Fetch(number, wanted):
                self._fetching[number] = wanted.name
                self._later(ProvisionFailed(number, "gone") if self._is_failing() else SourceFetched(number))
            case Receive(number, wanted) | Restore(number, wanted):
                self._fetching[number] = wanted.name
                self._finish(number, wanted.name)
            case Build(number):
                name = self._building[number] = self._fetching.pop(number)
                self._finish(number, name)
            case Stop(number):
                self._later(ProvisionStopped(number))
            case LoadIndex(number, name):
                made_for, size = self._made.pop(number)
                assert made_for == name
                self.shelf[name] = size
            case DiscardIndex(number):
                del self._made[number]
            case UnloadIndex(name) | Forget(name):
                self.shelf.pop(name, None)
            case Admit(name):
                assert name in self.shelf
                self.waiting.discard(name)
            case Refuse(name):
                self.waiting.discard(name)
                self._later(UnitLost(name))
            case Release(name):
                self.released.append(name)
                self._later(UnitLost(name))
            case VerifyIndex(number):
                self._errands["check"] += 1
                self._later(IndexVerified(number, not self._is_failing()))

    def _finish(self, number: int, name: str) -> None:
        if self._is_failing():
            self._later(ProvisionFailed(number, "broken"))
            return
        self._made[number] = (name, self.sizes[name])
        self._later(IndexProvisioned(number, stats(self.sizes[name], self.versions.get(name, "c0"))))

    def _later(self, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._coming, (self.now + self._random.uniform(0.1, 5.0), self._count, event))

    def _is_failing(self) -> bool:
        return self._random.random() < self._failing

    def _watch_rules(self) -> None:
        controller = self.controller
        assert len(self._fetching) <= self.settings.fetches_max
        assert len(self._building) <= self.settings.builds_max
        assert self._errands["look"] <= self.settings.origin_checks_max
        assert self._errands["check"] <= VERIFICATIONS_MAX
        kept = {name: repo.memory_bytes for name, repo in controller.repos.items() if repo.loaded}
        for repo in controller.repos.values():
            if repo.loaded and repo.job is None and not repo.is_leaving:
                assert repo.origin_check or repo.name in controller.origin_checks, "an index at rest is looked after"
            if repo.loaded and not repo.is_leaving:
                assert repo.verification or repo.name in controller.verifications, "an index is checked"
        assert kept == self.shelf, "the controller and the shelf agree on what is there"
        assert controller.memory.held_bytes == sum(kept.values())
        staying = sum(size for name, size in kept.items() if not controller.repos[name].is_leaving)
        if staying > controller.memory.budget_bytes * self.settings.high_watermark:
            loose = [name for name in kept if not controller.repos[name].is_leaving and not self._is_pinned(name)]
            assert loose == [], "above the high watermark only what is pinned stays"

    def _is_pinned(self, name: str) -> bool:
        repo = self.controller.repos[name]
        return repo.spec is not None and repo.spec.is_pinned
