"""Who is fetched and built next, and how many at a time.

What cannot be searched yet comes before what is only old. Among the former, primaries and successors come before
replicas, because somebody waits for them; then the smaller first, so that most repositories answer soonest (the line is
short: a node wins only a few units at a time). Renewals go in the order in which they were asked for, so that a large
one is never passed by small ones for ever.

A place is taken until the work has come to its end, also when it was given up: a build cannot be stopped at once. What
is fetched and waits for a build keeps its place among the fetches, so that no more than the bounds lies on the disk.
"""

from collections.abc import Callable, Iterator

from argosy.ownership.model import PRIMARY
from argosy.search.fleet.effects import Build, Effect, Fetch, Receive, Restore
from argosy.search.fleet.held_repo import HeldRepo, IndexJob, Stage
from argosy.search.model import Branch

UNKNOWN_BYTES = 64 << 20  # taken as the size of what was never indexed


class IndexQueue:
    """The makings of one node, by number."""

    def __init__(self, numbers: Iterator[int], *, fetches_max: int, builds_max: int) -> None:
        self._numbers = numbers
        self._fetches_max = fetches_max
        self._builds_max = builds_max
        self._waiting: dict[int, HeldRepo] = {}
        self._under_way: dict[int, HeldRepo] = {}
        self._stopping: dict[int, Stage] = {}  # given up, and not yet at their end

    def add(
        self,
        volume: HeldRepo,
        since: float,
        *,
        heads: tuple[Branch, ...] | None = None,
        sibling: str | None = None,
        can_restore: bool = False,
    ) -> None:
        """Lines a volume up for what is wished for it now."""
        assert volume.spec is not None
        assert volume.making is None
        number = next(self._numbers)
        volume.making = IndexJob(number, volume.spec, since, heads=heads, sibling=sibling, can_restore=can_restore)
        self._waiting[number] = volume

    def leave(self, volume: HeldRepo) -> int | None:
        """Takes a volume's making out; the number to be stopped, if it was under way."""
        making, volume.making = _making_of(volume), None
        if self._waiting.pop(making.number, None) is not None:
            return None
        del self._under_way[making.number]
        self._stopping[making.number] = making.stage
        return making.number

    def end(self, number: int) -> HeldRepo | None:
        """Work has come to its end; the volume it was for, unless it was given up."""
        self._stopping.pop(number, None)
        return self._under_way.pop(number, None)

    def fetched(self, number: int) -> None:
        if (volume := self._under_way.get(number)) is not None:
            _making_of(volume).stage = Stage.FETCHED

    def advance(self) -> Iterator[Effect]:
        """Starts whatever there is a place for. Builds first: each frees a place among the fetches."""
        while (volume := self._next_build()) is not None:
            yield _build_of(volume)
        while (volume := self._next_fetch()) is not None:
            yield _bring(volume)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def fetches(self) -> int:
        return self._count(lambda stage: stage is not Stage.BUILDING)

    @property
    def builds(self) -> int:
        return self._count(lambda stage: stage is Stage.BUILDING)

    def building(self) -> list[HeldRepo]:
        return [each for each in self._under_way.values() if _making_of(each).stage is Stage.BUILDING]

    def renewing_bytes(self) -> int:
        """What indexes being renewed may take beside the old ones, if little can be shared."""
        return sum(volume.memory_bytes for volume in self._under_way.values())

    def _next_fetch(self) -> HeldRepo | None:
        if not self._waiting or self.fetches >= self._fetches_max:
            return None
        number = min(self._waiting, key=lambda number: _order(self._waiting[number]))
        volume = self._under_way[number] = self._waiting.pop(number)
        return volume

    def _next_build(self) -> HeldRepo | None:
        fetched = [each for each in self._under_way.values() if _making_of(each).stage is Stage.FETCHED]
        if not fetched or self.builds >= self._builds_max:
            return None
        volume = min(fetched, key=_order)
        _making_of(volume).stage = Stage.BUILDING
        return volume

    def _count(self, is_meant: Callable[[Stage], bool]) -> int:
        stages = [_making_of(volume).stage for volume in self._under_way.values()]
        return sum(map(is_meant, [*stages, *self._stopping.values()]))


def _making_of(volume: HeldRepo) -> IndexJob:
    assert volume.making is not None, f"{volume.name!r} is in line without anything to make"
    return volume.making


def _build_of(volume: HeldRepo) -> Effect:
    making, kept = _making_of(volume), volume.kept
    is_renewal = kept is not None and kept.spec.url == making.spec.url and not making.is_anew
    return Build(making.number, is_renewal)


def _bring(volume: HeldRepo) -> Effect:
    """By the quickest way that is left: this machine's disk, another node, the origin."""
    making = _making_of(volume)
    if making.can_restore:
        making.stage = Stage.RESTORING
        return Restore(making.number, making.spec)
    if making.sibling is not None:
        making.stage = Stage.RECEIVING
        return Receive(making.number, making.spec, making.sibling)
    making.stage = Stage.FETCHING
    making.is_anew, volume.is_anew, volume.is_told = volume.is_anew, False, False
    return Fetch(making.number, making.spec)


def _order(volume: HeldRepo) -> tuple[int, int, float, int]:
    making = _making_of(volume)
    if volume.kept is not None:
        return (2, 0, making.since, making.number)
    is_awaited = volume.unit.replica <= PRIMARY  # a primary, or the successor of one that leaves
    size_bytes = making.spec.footprint_bytes
    return (0 if is_awaited else 1, UNKNOWN_BYTES if size_bytes is None else size_bytes, making.since, making.number)
