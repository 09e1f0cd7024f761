"""How many queries to put to the nodes at a time: as many as make none of them slower.

Nodes whose cores are all busy answer ten queries together no sooner than one after the other, only each of them
later. So the time that queries take is watched. While it stays near what it is when few are under way, more are let
in; when it grows, fewer. At the least number it is learnt what a query takes by itself.

A query waits for its turn only for a moment, and has it only for a moment: a node that stands still must not hold up
those it does not concern.
"""

from collections import deque
from math import sqrt
from typing import Generic, TypeVar

T = TypeVar("T")

LEAST = 4  # under way, whatever they take
WINDOW = 40  # queries whose mean is looked at together
TOLERANCE = 1.5  # times what a query takes by itself: not yet slower
SLOWDOWN = 0.6  # the most that is taken away at once
LEARNING = 0.3  # weight of the newest mean in what a query takes by itself


class AdaptiveLimiter:
    """The number that may be under way, learnt from what they take."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._least = float(min(LEAST, most))
        self._limit = min(2.0 * LEAST, self._most)
        self._baseline_s: float | None = None  # the mean of queries that nobody else slows down
        self._sum_s = 0.0
        self._seen = 0
        self._was_full = False

    @property
    def limit(self) -> int:
        return int(self._limit)

    def on_end(self, took_s: float, *, is_full: bool) -> None:
        """A query has been answered; `is_full`: others waited for their turn, or as many as may be were under way."""
        self._sum_s += took_s
        self._seen += 1
        self._was_full |= is_full
        if self._seen == WINDOW:
            self._adjust(self._sum_s / WINDOW)
            self._sum_s, self._seen, self._was_full = 0.0, 0, False

    def _adjust(self, mean_s: float) -> None:
        if self._baseline_s is None:
            self._baseline_s = mean_s
        elif self._limit <= self._least:
            self._baseline_s += LEARNING * (mean_s - self._baseline_s)
        self._baseline_s = min(self._baseline_s, mean_s)
        if mean_s > TOLERANCE * self._baseline_s:
            self._limit *= max(SLOWDOWN, TOLERANCE * self._baseline_s / mean_s)
        elif self._was_full:  # else nobody knows whether more would be slower
            self._limit += sqrt(self._limit) / 2
        self._limit = max(self._least, min(self._limit, self._most))


class QueryQueue(Generic[T]):
    """Who is under way and who waits, first come first served. `T` is whatever its user wakes."""

    def __init__(self, pace: AdaptiveLimiter) -> None:
        self._pace = pace
        self._waiting: deque[T] = deque()
        self.under_way = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def may_begin(self) -> bool:
        return not self._waiting and self.under_way < self._pace.limit

    def begin(self) -> None:
        self.under_way += 1

    def wait(self, who: T) -> None:
        self._waiting.append(who)

    def leave(self, who: T) -> None:
        """Waits no longer."""
        if who in self._waiting:
            self._waiting.remove(who)

    def end(self, took_s: float) -> list[T]:
        """One has been answered; those whose turn it is now."""
        is_full = bool(self._waiting) or self.under_way >= self._pace.limit
        self.under_way -= 1
        self._pace.on_end(took_s, is_full=is_full)
        free = self._pace.limit - self.under_way
        return [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
