"""How long a search may go on, asked between pieces of work that take a few milliseconds each."""

from collections.abc import Callable

from argosy.search.model import Reached


def never() -> bool:
    return False


class Budget:
    """A deadline on a given clock, and a flag that somebody else may raise. Once spent, it stays spent."""

    __slots__ = ("_deadline", "_is_cancelled", "now", "reached")

    def __init__(
        self, now: Callable[[], float], wall_time_s: float = 0.0, is_cancelled: Callable[[], bool] = never
    ) -> None:
        self.now = now
        self.reached: Reached | None = None
        self._deadline = now() + wall_time_s if wall_time_s > 0 else None
        self._is_cancelled = is_cancelled

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more. When only the time is up, what was found is still told."""
        if self.reached is not Reached.CANCELLED and self._is_cancelled():
            self.reached = Reached.CANCELLED
        return self.reached is Reached.CANCELLED

    def is_spent(self) -> bool:
        """Asked only while something is left to do, so that a budget that is spent means an answer cut short."""
        if self.reached is None:
            if self._is_cancelled():
                self.reached = Reached.CANCELLED
            elif self._deadline is not None and self.now() >= self._deadline:
                self.reached = Reached.WALL_TIME
        return self.reached is not None
