"""An adaptive limit on concurrent queries, and the FIFO queue of queries that wait for a slot.

When all cores of the nodes are busy, ten concurrent queries finish no sooner than ten sequential ones, only each of
them later. So the limit follows the measured latency, as in Netflix's concurrency-limits: it grows while latency stays
near the baseline of few concurrent queries, and shrinks when latency rises. The baseline is learned while the limit is
at its minimum.

Both the wait for a slot and the time a query occupies one are bounded, so that a stalled node does not delay queries
that do not need it. Decision 0031 has the measurements.
"""

from collections import deque
from math import sqrt
from typing import Generic, TypeVar

T = TypeVar("T")

# The limit never goes below this, whatever queries take. On two cores 4 was the best fixed limit; with 2 the median was
# 575 ms (decision 0031).
LEAST = 4
WINDOW = 40  # queries per adjustment; the mean of fewer is too noisy
TOLERANCE = 1.5  # latency up to this multiple of the baseline counts as not slower
SLOWDOWN = 0.6  # the limit shrinks at most by this factor per window
LEARNING = 0.3  # weight of the newest mean in the baseline


class AdaptiveLimiter:
    """The number of queries that may run at a time, adjusted from their latency."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._least = float(min(LEAST, most))
        self._limit = min(2.0 * LEAST, self._most)
        self._baseline_s: float | None = None  # mean latency without queueing effects
        self._sum_s = 0.0
        self._seen = 0
        self._was_full = False

    @property
    def limit(self) -> int:
        return int(self._limit)

    def on_end(self, took_s: float, *, is_full: bool) -> None:
        """Record a finished query; `is_full`: the limit was reached or queries were waiting."""
        self._sum_s += took_s
        self._seen += 1
        self._was_full |= is_full
        if self._seen == WINDOW:
            self._adjust(self._sum_s / WINDOW)
            self._sum_s, self._seen, self._was_full = 0.0, 0, False

    def _adjust(self, mean_s: float) -> None:
        if self._baseline_s is None:
            self._baseline_s = mean_s
        # Only at the minimum are queries few enough for latency to show the nodes' own speed. Learned above it,
        # queueing would raise the baseline, and the baseline the limit.
        elif self._limit <= self._least:
            self._baseline_s += LEARNING * (mean_s - self._baseline_s)
        # A window that is faster than the baseline proves it too high, at any limit.
        self._baseline_s = min(self._baseline_s, mean_s)
        if mean_s > TOLERANCE * self._baseline_s:
            # In proportion to the excess, but bounded: one window with a few expensive queries must not cost most of
            # the limit.
            self._limit *= max(SLOWDOWN, TOLERANCE * self._baseline_s / mean_s)
        elif self._was_full:  # below the limit, latency does not show whether more would be slower
            # The square root is the step of Netflix's concurrency-limits: small limits grow quickly, large ones
            # carefully.
            self._limit += sqrt(self._limit) / 2
        self._limit = max(self._least, min(self._limit, self._most))


class QueryQueue(Generic[T]):
    """Running and waiting queries, first come first served. `T` is the caller's handle of a waiting query."""

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
        """Remove a waiting query; no effect if it is not waiting."""
        if who in self._waiting:
            self._waiting.remove(who)

    def end(self, took_s: float) -> list[T]:
        """Record a finished query; returns the waiting queries to start now."""
        # Before this query is subtracted: it is one of those that filled the limit.
        is_full = bool(self._waiting) or self.under_way >= self._pace.limit
        self.under_way -= 1
        self._pace.on_end(took_s, is_full=is_full)
        free = self._pace.limit - self.under_way
        return [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
