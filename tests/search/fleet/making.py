"""Builders that the tests of a node's library share, and a world that carries its orders out in virtual time."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from argosy.base.clock import seeded_random
from argosy.ownership.model import Unit
from argosy.search.fleet import effects as do
from argosy.search.fleet import events as saw
from argosy.search.fleet.index_controller import CHECKS_AT_ONCE, IndexController
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


def figures(memory_bytes: int = MIB, version: str = "c1", **changes: Any) -> saw.IndexStats:
    return saw.IndexStats(memory_bytes, heads(version), **changes)


def of_kind(effects: Iterable[object], kind: type[T]) -> list[T]:
    return [effect for effect in effects if isinstance(effect, kind)]


def only(effects: Iterable[object], kind: type[T]) -> T:
    (found,) = of_kind(effects, kind)
    return found


class Bench:
    """A library, told one thing at a time."""

    def __init__(self, *, budget_bytes: int = BUDGET_BYTES, **changes: Any) -> None:
        self.settings = SearchSettings(**changes)
        self.library = IndexController(self.settings, budget_bytes, Dice())
        self.now = 0.0

    def tell(self, event: saw.Event | None) -> list[do.Effect]:
        return self.library.handle(event, self.now)

    def wait(self, seconds: float) -> list[do.Effect]:
        """Lets time pass as the driver does; nobody answers what is ordered meanwhile."""
        until, effects = self.now + seconds, []
        for _ in range(10_000):
            deadline = self.library.deadline()
            if deadline is None or deadline > until:
                self.now = until
                return effects
            self.now = max(self.now, deadline)
            effects += self.tell(None)
        raise AssertionError(f"the library never rests: deadline {self.library.deadline()} at {self.now}")

    def gain(self, name: str = "a", replica: int = 0, sibling: str | None = None, **changes: Any) -> list[do.Effect]:
        return self.tell(saw.UnitGained(Unit(name, replica), spec(name, **changes), sibling))

    def change(self, name: str = "a", **changes: Any) -> list[do.Effect]:
        return self.tell(saw.SpecChanged(name, spec(name, **changes)))

    def fetched(self, effects: Iterable[do.Effect]) -> do.Build:
        """The fetch among these orders succeeds; there must be a place to build."""
        return only(self.tell(saw.Fetched(only(effects, do.Fetch).number)), do.Build)

    def made(self, effects: Iterable[do.Effect], memory_bytes: int = MIB, version: str = "c1") -> list[do.Effect]:
        """The fetch among these orders and the build after it succeed."""
        return self.tell(saw.IndexProvisioned(self.fetched(effects).number, figures(memory_bytes, version)))

    def keep(self, name: str = "a", memory_bytes: int = MIB, version: str = "c1", **changes: Any) -> list[do.Effect]:
        """From gained to ready."""
        return self.made(self.gain(name, **changes), memory_bytes, version)

    def look(self, version: str) -> list[do.Effect]:
        """The next look comes, and finds this."""
        order = only(self.wait(self.settings.refresh_s * 2), do.CheckOrigin)
        return self.tell(saw.OriginChecked(order.number, heads(version)))


class World:
    """Carries out a library's orders in virtual time, as chance has it, and watches the rules while it does."""

    def __init__(self, seed: int, *, budget_bytes: int, failing: float = 0.0, **changes: Any) -> None:
        self.settings = SearchSettings(**changes)
        self.library = IndexController(self.settings, budget_bytes, seeded_random(seed))
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
        self._coming: list[tuple[float, int, saw.Event]] = []
        self._count = 0
        self._fetching: dict[int, str] = {}
        self._building: dict[int, str] = {}
        self._made: dict[int, tuple[str, int]] = {}
        self._errands: Counter[str] = Counter()

    def gain(self, name: str, replica: int = 0, sibling: str | None = None) -> None:
        """Ownership warms a unit only when it has dropped what was there before."""
        lost = [entry for entry in self._coming if isinstance(entry[2], saw.UnitLost) and entry[2].name == name]
        self._coming = [entry for entry in self._coming if entry not in lost]
        heapq.heapify(self._coming)
        for _, _, event in lost:
            self.tell(event)
        self.waiting.add(name)
        self.tell(saw.UnitGained(Unit(name, replica), self.specs.get(name), sibling))

    def tell(self, event: saw.Event | None) -> None:
        for effect in self.library.handle(event, self.now):
            self.seen[type(effect).__name__] += 1
            self._carry_out(effect)
        self._watch_rules()

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(100_000):
            coming = self._coming[0][0] if self._coming else None
            deadline = self.library.deadline()
            times = [at for at in (coming, deadline) if at is not None]
            if not times or min(times) > until:
                self.now = until
                return
            self.now = max(self.now, min(times))
            if coming is not None and coming <= self.now:
                self._arrive(heapq.heappop(self._coming)[2])
            else:
                self.tell(None)
        raise AssertionError("the library never rests")

    def _arrive(self, event: saw.Event) -> None:
        match event:
            case saw.Fetched(number) if number not in self._fetching:
                return  # it was stopped on the way
            case saw.IndexProvisioned(number) | saw.ProvisionFailed(number):
                if self._fetching.pop(number, None) is None and self._building.pop(number, None) is None:
                    return
            case saw.ProvisionStopped(number):
                self._fetching.pop(number, None)
                self._building.pop(number, None)
            case saw.OriginChecked() | saw.OriginCheckFailed():
                self._errands["look"] -= 1
            case saw.IndexVerified():
                self._errands["check"] -= 1
        self.tell(event)

    def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.CheckOrigin(number, wanted):
                self._errands["look"] += 1
                found = heads(self.versions.get(wanted.name, "c0"))
                self._later(
                    saw.OriginCheckFailed(number, "away") if self._is_failing() else saw.OriginChecked(number, found)
                )
            case do.Fetch(number, wanted):
                self._fetching[number] = wanted.name
                self._later(saw.ProvisionFailed(number, "gone") if self._is_failing() else saw.Fetched(number))
            case do.Receive(number, wanted) | do.Restore(number, wanted):
                self._fetching[number] = wanted.name
                self._finish(number, wanted.name)
            case do.Build(number):
                name = self._building[number] = self._fetching.pop(number)
                self._finish(number, name)
            case do.Stop(number):
                self._later(saw.ProvisionStopped(number))
            case do.Put(number, name):
                made_for, size = self._made.pop(number)
                assert made_for == name
                self.shelf[name] = size
            case do.Discard(number):
                del self._made[number]
            case do.Withdraw(name) | do.Forget(name):
                self.shelf.pop(name, None)
            case do.Admit(name):
                assert name in self.shelf
                self.waiting.discard(name)
            case do.Refuse(name):
                self.waiting.discard(name)
                self._later(saw.UnitLost(name))
            case do.Release(name):
                self.released.append(name)
                self._later(saw.UnitLost(name))
            case do.VerifyIndex(number):
                self._errands["check"] += 1
                self._later(saw.IndexVerified(number, not self._is_failing()))

    def _finish(self, number: int, name: str) -> None:
        if self._is_failing():
            self._later(saw.ProvisionFailed(number, "broken"))
            return
        self._made[number] = (name, self.sizes[name])
        self._later(saw.IndexProvisioned(number, figures(self.sizes[name], self.versions.get(name, "c0"))))

    def _later(self, event: saw.Event) -> None:
        self._count += 1
        heapq.heappush(self._coming, (self.now + self._random.uniform(0.1, 5.0), self._count, event))

    def _is_failing(self) -> bool:
        return self._random.random() < self._failing

    def _watch_rules(self) -> None:
        library = self.library
        assert len(self._fetching) <= self.settings.fetches_max
        assert len(self._building) <= self.settings.builds_max
        assert self._errands["look"] <= self.settings.looks_max
        assert self._errands["check"] <= CHECKS_AT_ONCE
        kept = {name: volume.memory_bytes for name, volume in library.volumes.items() if volume.kept}
        for volume in library.volumes.values():
            if volume.kept and volume.making is None and not volume.is_leaving:
                assert volume.look or volume.name in library.looks, "an index at rest is looked after"
            if volume.kept and not volume.is_leaving:
                assert volume.check or volume.name in library.checks, "an index is checked"
        assert kept == self.shelf, "the library and the shelf agree on what is there"
        assert library.memory.held_bytes == sum(kept.values())
        staying = sum(size for name, size in kept.items() if not library.volumes[name].is_leaving)
        if staying > library.memory.budget_bytes * self.settings.high_watermark:
            loose = [name for name in kept if not library.volumes[name].is_leaving and not self._is_pinned(name)]
            assert loose == [], "above the high watermark only what is pinned stays"

    def _is_pinned(self, name: str) -> bool:
        volume = self.library.volumes[name]
        return volume.spec is not None and volume.spec.is_pinned
