"""A circuit breaker: a node that keeps failing is left alone for a while, then tried with a single question.

    closed ──failures in a row──▶ open ──time is up, one question goes──▶ half open ──answered──▶ closed
                                    ▲───────────────failed again, longer this time──────┘

Waits are jittered, so that front doors do not all come back at once. Whatever a node answers closes its breaker, also
when the question was asked before it opened: the node lives.
"""

from enum import Enum

from argosy.base.clock import Random
from argosy.base.retry import Backoff


class BreakerState(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"  # one question is on its way to find out


class Breaker:
    """The breaker of one address. A caller asks `admits`, and then tells `began` and how it ended."""

    def __init__(self, failures_max: int, backoff: Backoff, random: Random) -> None:
        self.state = BreakerState.CLOSED
        self.retry_at = 0.0  # while open
        self._failures_max = failures_max
        self._backoff = backoff
        self._random = random
        self._failures = 0  # in a row
        self._openings = 0  # in a row

    def admits(self, now: float) -> bool:
        if self.state is BreakerState.OPEN:
            return now >= self.retry_at
        return self.state is BreakerState.CLOSED

    def on_start(self, now: float) -> None:
        if self.state is BreakerState.OPEN and now >= self.retry_at:
            self.state = BreakerState.HALF_OPEN

    def on_success(self) -> None:
        self.state = BreakerState.CLOSED
        self._failures = self._openings = 0

    def on_failure(self, now: float) -> None:
        self._failures += 1
        if self.state is BreakerState.HALF_OPEN or (
            self.state is BreakerState.CLOSED and self._failures >= self._failures_max
        ):
            self.trip(now)

    def trip(self, now: float) -> None:
        """Opens it, or opens it anew for longer."""
        self._openings += 1
        self.state = BreakerState.OPEN
        self.retry_at = now + self._backoff.delay(self._openings, self._random)

    def on_cancel(self, now: float) -> None:
        """The question was called back before it was answered: if it was the probe, the next one may go."""
        if self.state is BreakerState.HALF_OPEN:
            self.state, self.retry_at = BreakerState.OPEN, now
