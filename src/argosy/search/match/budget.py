"""How long a search may go on, asked between pieces of work that take a few milliseconds each."""

from collections.abc import Callable

from argosy.search.model import LimitHit


def never() -> bool:
    return False


class Budget:
    """A deadline on a given clock, and a flag that somebody else may raise. Once spent, it stays spent."""

    __slots__ = ("_deadline", "_is_cancelled", "limit_hit", "now")

    def __init__(
        self, now: Callable[[], float], wall_time_s: float = 0.0, is_cancelled: Callable[[], bool] = never
    ) -> None:
        self.now = now
        self.limit_hit: LimitHit | None = None
        self._deadline = now() + wall_time_s if wall_time_s > 0 else None
        self._is_cancelled = is_cancelled

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more. When only the time is up, what was found is still told."""
        if self.limit_hit is not LimitHit.CANCELLED and self._is_cancelled():
            self.limit_hit = LimitHit.CANCELLED
        return self.limit_hit is LimitHit.CANCELLED

    def is_spent(self) -> bool:
        """Asked only while something is left to do, so that a budget that is spent means an answer cut short."""
        if self.limit_hit is None:
            if self._is_cancelled():
                self.limit_hit = LimitHit.CANCELLED
            elif self._deadline is not None and self.now() >= self._deadline:
                self.limit_hit = LimitHit.WALL_TIME
        return self.limit_hit is not None
