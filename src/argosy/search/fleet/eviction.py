"""Who goes when memory is short.

Above the high watermark indexes go until the rest is below the low one, so that one eviction makes room for a while.
What is pinned never goes. What was finished a moment ago goes only when nothing else is left: nobody has had time to
search it, and to make it again would cost more than to keep it.
"""

from collections.abc import Collection, Iterable

from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex
from argosy.search.fleet.traffic import Traffic
from argosy.search.settings import SearchSettings

YOUNG_S = 60.0


class MemoryBudget:
    """What all indexes of a node take, and when that is too much."""

    def __init__(self, settings: SearchSettings, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.held_bytes = 0
        self.high_bytes = int(budget_bytes * settings.high_watermark)
        self._low_bytes = int(budget_bytes * settings.low_watermark)
        self._by = settings.evict_by

    def keep(self, volume: HeldRepo, kept: LoadedIndex, now: float) -> None:
        """In place of the index that was kept before."""
        if volume.kept is None:
            volume.ready_at = now
        self.let_go(volume)
        volume.kept = kept
        self.held_bytes += volume.memory_bytes

    def let_go(self, volume: HeldRepo) -> None:
        self.held_bytes -= volume.memory_bytes
        volume.kept = volume.check = None

    def excess(self, volumes: Collection[HeldRepo], coming_bytes: int, traffic: Traffic, now: float) -> list[str]:
        """The names of those to give up; `coming_bytes` is what is known to be needed soon."""
        load_bytes = self.held_bytes + coming_bytes
        if load_bytes <= self.high_bytes:
            return []  # nearly always: no need to look at each
        load_bytes -= sum(volume.memory_bytes for volume in volumes if volume.is_leaving)
        if load_bytes <= self.high_bytes:
            return []
        return victims(volumes, traffic, load_bytes=load_bytes, low_bytes=self._low_bytes, by=self._by, now=now)


def victims(
    volumes: Iterable[HeldRepo], traffic: Traffic, *, load_bytes: int, low_bytes: int, by: str, now: float
) -> list[str]:
    """The names of those to give up, in order, so that `load_bytes` comes down to `low_bytes` as far as it can."""
    candidates = [each for each in volumes if each.kept is not None and not each.is_leaving and not is_pinned(each)]
    coldest = _unserved if by == "lru" else _dear
    candidates.sort(key=lambda volume: (_is_young(volume, now), coldest(volume, traffic, now), volume.name))
    chosen: list[str] = []
    for volume in candidates:
        if load_bytes <= low_bytes:
            break
        load_bytes -= volume.memory_bytes
        chosen.append(volume.name)
    return chosen


def is_pinned(volume: HeldRepo) -> bool:
    return volume.spec is not None and volume.spec.is_pinned


def _is_young(volume: HeldRepo, now: float) -> bool:
    return now - volume.ready_at < YOUNG_S


def _unserved(volume: HeldRepo, traffic: Traffic, now: float) -> float:
    """The longest unserved first; what was never served counts from when it could be."""
    last_at = traffic.last_at(volume.name)
    return volume.ready_at if last_at is None else last_at


def _dear(volume: HeldRepo, traffic: Traffic, now: float) -> float:
    """The largest for its traffic first."""
    return -volume.memory_bytes / (1.0 + traffic.weight(volume.name, now))
