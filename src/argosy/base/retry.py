"""Bounded retries with jitter, used by all packages.

Each delay is drawn uniformly from the upper half of an exponentially growing ceiling ("equal jitter"): callers that
failed together are spread, and none retries immediately. Every retry is bounded in attempts or in time.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from argosy.base.clock import Clock, Random
from argosy.base.errors import Fenced, Invalid, NotOwner, Throttled, Unavailable

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """The delay before each retry, and the number of attempts."""

    first_s: float = 0.1
    ceiling_s: float = 5.0
    factor: float = 2.0
    attempts_max: int = 6

    def __post_init__(self) -> None:
        if not (0 < self.first_s <= self.ceiling_s and self.factor >= 1 and self.attempts_max >= 1):
            raise Invalid(f"a back-off needs 0 < first_s <= ceiling_s, factor >= 1, attempts_max >= 1; got {self}")

    def ceiling(self, failures: int) -> float:
        """The maximum delay after `failures` consecutive failures (1 is the first)."""
        # The exponent is capped so that a long outage cannot overflow the float.
        return float(min(self.ceiling_s, self.first_s * self.factor ** min(failures - 1, 64)))

    def delay(self, failures: int, random: Random) -> float:
        """Equal jitter (upper half): between half the ceiling and the ceiling, so never near zero."""
        ceiling = self.ceiling(failures)
        # Full jitter (from 0) would let some callers retry immediately, against a server that has just failed.
        return random.uniform(ceiling / 2, ceiling)


class RetryBudget:
    """Failures in a row, with a pause after each, and a bound on their number and on the time that they take.

    For loops that retry something long-lived, such as a watch; `retry` is for a single call.
    """

    def __init__(self, backoff: Backoff, *, clock: Clock, random: Random, elapsed_s_max: float = math.inf) -> None:
        self._backoff = backoff
        self._clock = clock
        self._random = random
        self._elapsed_s_max = elapsed_s_max
        self._failures = 0
        self._failing_since = 0.0

    def reset(self) -> None:
        """After a success."""
        self._failures = 0

    async def spend(self, error: Exception) -> None:
        """Waits before the next attempt, or raises `error` if the budget is spent."""
        now = self._clock.now()
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        # The error itself is raised, not a new one: it says what failed last.
        if self._failures >= self._backoff.attempts_max or now - self._failing_since > self._elapsed_s_max:
            raise error
        await self._clock.sleep(self._backoff.delay(self._failures, self._random))


def is_retryable(error: BaseException | None) -> bool:
    """Whether the same call may succeed later or elsewhere. Fenced is final: another holder has taken over."""
    return isinstance(error, NotOwner | Unavailable | Throttled) and not isinstance(error, Fenced)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    *,
    clock: Clock,
    random: Random,
) -> T:
    """Calls `attempt` until it succeeds; only Unavailable is worth retrying, and Fenced never is."""
    # The last attempt is outside the loop, so that its error reaches the caller without a pointless pause.
    for failures in range(1, backoff.attempts_max):
        try:
            return await attempt()
        # `Fenced` is a kind of `Unavailable`, but final: another holder has taken over.
        except Fenced:
            raise
        except Unavailable:
            await clock.sleep(backoff.delay(failures, random))
    return await attempt()
