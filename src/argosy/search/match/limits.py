"""The limits of a search: deadline, cancellation and numbers of matches.

Kernels and RE2 cannot be interrupted, so work is cut into steps of a few milliseconds and the limits are checked
between them: a search ends within about twenty milliseconds of its deadline or its cancellation.
"""

from collections.abc import Callable

from argosy.search.model import LimitHit, Options


def never() -> bool:
    return False


class Budget:
    """A deadline and a cancellation flag. Once spent, it stays spent."""

    __slots__ = ("_deadline", "_is_cancelled", "limit_hit", "now")

    def __init__(
        self, now: Callable[[], float], wall_time_s: float = 0.0, is_cancelled: Callable[[], bool] = never
    ) -> None:
        self.now = now
        self.limit_hit: LimitHit | None = None
        # From the start of the work, not of the request.
        self._deadline = now() + wall_time_s if wall_time_s > 0 else None
        self._is_cancelled = is_cancelled

    def is_cancelled(self) -> bool:
        """Whether the caller has cancelled. At a mere timeout, the matches found so far are still returned."""
        # Cancellation overrides a timeout: the matches are not wanted any more.
        if self.limit_hit is not LimitHit.CANCELLED and self._is_cancelled():
            self.limit_hit = LimitHit.CANCELLED
        return self.limit_hit is LimitHit.CANCELLED

    def is_spent(self) -> bool:
        """Whether to stop. Call it only while work is left, so that a spent budget means a truncated result."""
        if self.limit_hit is None:
            if self._is_cancelled():
                self.limit_hit = LimitHit.CANCELLED
            elif self._deadline is not None and self.now() >= self._deadline:
                self.limit_hit = LimitHit.WALL_TIME
        return self.limit_hit is not None


class MatchLimit:
    """A limit on matches; 0 means none. Threads share it without a lock: a lost race exceeds the limit by a batch."""

    def __init__(self, matches_max: int, limit_hit: LimitHit) -> None:
        self.limit_hit = limit_hit
        self._matches_max = matches_max
        self._taken = 0

    def count(self, matches: int) -> None:
        self._taken += matches

    @property
    def is_met(self) -> bool:
        return 0 < self._matches_max <= self._taken


class SearchLimits:
    """The limits shared by all tasks of a search."""

    def __init__(self, options: Options, budget: Budget) -> None:
        self.options = options
        self.budget = budget
        self.total = MatchLimit(options.total_match_limit, LimitHit.TOTAL_MATCHES)
        self._limits: dict[int, MatchLimit] = {}

    def of_index(self, number: int) -> MatchLimit:
        limit = self._limits.get(number)
        if limit is None:
            # setdefault is atomic: of two threads that create the limit at once, both count on the same one.
            limit = self._limits.setdefault(number, MatchLimit(self.options.index_match_limit, LimitHit.INDEX_MATCHES))
        return limit
