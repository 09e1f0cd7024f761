"""Bounded retry with jitter: the one way anything here tries again.

Equal jitter (upper half): each wait is a uniform draw from the upper half of a doubling ceiling, which spreads a herd
and still never comes back at once. Every retry has a bound on its attempts; a caller who wants to try for ever must
say so with a loop of its own that checks for a stop.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from argosy.base.clock import Clock, Random
from argosy.base.errors import Fenced, Invalid, Unavailable

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """How long to wait before the n-th new attempt, and how many there may be."""

    first_s: float = 0.1
    ceiling_s: float = 5.0
    factor: float = 2.0
    attempts_max: int = 6

    def __post_init__(self) -> None:
        if not (0 < self.first_s <= self.ceiling_s and self.factor >= 1 and self.attempts_max >= 1):
            raise Invalid(f"a back-off needs 0 < first_s <= ceiling_s, factor >= 1, attempts_max >= 1; got {self}")

    def ceiling(self, failures: int) -> float:
        """The longest wait after `failures` failures in a row (1 is the first)."""
        # The exponent is capped so that a long outage cannot overflow the float.
        return float(min(self.ceiling_s, self.first_s * self.factor ** min(failures - 1, 64)))

    def delay(self, failures: int, random: Random) -> float:
        """Equal jitter (upper half): between half the ceiling and the ceiling, so never near zero."""
        ceiling = self.ceiling(failures)
        return random.uniform(ceiling / 2, ceiling)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    *,
    clock: Clock,
    random: Random,
) -> T:
    """Calls `attempt` until it succeeds; only Unavailable is worth retrying, and Fenced never is."""
    for failures in range(1, backoff.attempts_max):
        try:
            return await attempt()
        except Fenced:
            raise
        except Unavailable:
            await clock.sleep(backoff.delay(failures, random))
    return await attempt()
