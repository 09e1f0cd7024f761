"""A periodic check per repository, each at its own time, with bounded concurrency.

Checks of origins and verifications of memory are both scheduled this way. Due checks wait in the order in which they
became due, so that a thousand repositories after a restart are not checked at the same time.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TimerHeap(Generic[K]):
    """One time per key, with the earliest at hand.

    The controller needs the earliest of thousands of times after every event, hence a heap. Changing a time leaves
    the old heap entry behind; it is skipped when it reaches the top.
    """

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0  # equal times stay in the order they were set

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def at(self, key: K) -> float | None:
        return self._at.get(key)

    def set(self, key: K, at: float) -> None:
        """Sets or replaces the time of a key."""
        self._at[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        # Replaced times stay in the heap. Rebuilt at twice the number of keys, it stays proportional to them at
        # constant cost per change.
        if len(self._heap) > 2 * len(self._at) + 16:
            self._rebuild()

    def remove(self, key: K) -> None:
        self._at.pop(key, None)

    def first(self) -> float | None:
        self._skip_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[K]:
        """Removes and returns all keys that are due."""
        keys: list[K] = []
        while (first := self.first()) is not None and first <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key]
            keys.append(key)
        return keys

    def _skip_stale(self) -> None:
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _rebuild(self) -> None:
        # Sorted, so that of several entries of one key with equal times the newest remains.
        latest = {key: entry for entry in sorted(self._heap) if self._at.get(key := entry[2]) == entry[0]}
        self._heap = list(latest.values())
        heapq.heapify(self._heap)


class PeriodicScheduler:
    """Checks of one kind, by repository name."""

    def __init__(self, *, concurrency_max: int) -> None:
        self._concurrency_max = concurrency_max
        self._timers: TimerHeap[str] = TimerHeap()
        self._due: dict[str, None] = {}
        self._under_way: dict[int, str] = {}

    def deadline(self) -> float | None:
        return self._timers.first()

    def __contains__(self, name: str) -> bool:
        """Whether a check is scheduled, or due and waiting for a slot."""
        return name in self._timers or name in self._due

    def at(self, name: str) -> float | None:
        return self._timers.at(name)

    def set(self, name: str, at: float) -> None:
        """Schedules the next check, in place of the one scheduled before."""
        self._due.pop(name, None)
        self._timers.set(name, at)

    def cancel(self, name: str) -> None:
        """Unschedules the check. One under way continues, and keeps its slot until it ends."""
        self._due.pop(name, None)
        self._timers.remove(name)

    def next(self, now: float) -> str | None:
        """The next repository to check, if one is due and a slot is free."""
        self._due.update(dict.fromkeys(self._timers.pop_due(now)))
        if not self._due or len(self._under_way) >= self._concurrency_max:
            return None
        name = next(iter(self._due))
        del self._due[name]
        return name

    def begin(self, number: int, name: str) -> None:
        self._under_way[number] = name

    def end(self, number: int) -> str | None:
        return self._under_way.pop(number, None)

    @property
    def under_way(self) -> int:
        return len(self._under_way)
