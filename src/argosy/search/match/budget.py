"""The deadline and cancellation of a search, checked between work steps of a few milliseconds."""

from collections.abc import Callable

from argosy.search.model import LimitHit


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
        self._deadline = now() + wall_time_s if wall_time_s > 0 else None
        self._is_cancelled = is_cancelled

    def is_cancelled(self) -> bool:
        """Whether the caller has cancelled. At a mere timeout, the matches found so far are still returned."""
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
