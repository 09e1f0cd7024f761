"""What is to be done when: one time for each thing, the earliest at hand.

A library keeps thousands of times and asks for the earliest after every fact, so they lie in a heap; a time that was
moved leaves its old entry behind, which is passed over when it comes up.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TimerHeap(Generic[K]):
    """Times by key."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0  # keeps equal times in the order they were set

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def at(self, key: K) -> float | None:
        return self._at.get(key)

    def set(self, key: K, at: float) -> None:
        """In place of the time it had."""
        self._at[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 2 * len(self._at) + 16:
            self._rebuild()

    def remove(self, key: K) -> None:
        self._at.pop(key, None)

    def first(self) -> float | None:
        self._pass_over()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[K]:
        """Takes out everything whose time has come."""
        keys: list[K] = []
        while (first := self.first()) is not None and first <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key]
            keys.append(key)
        return keys

    def _pass_over(self) -> None:
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _rebuild(self) -> None:
        latest = {key: entry for entry in sorted(self._heap) if self._at.get(key := entry[2]) == entry[0]}
        self._heap = list(latest.values())
        heapq.heapify(self._heap)
