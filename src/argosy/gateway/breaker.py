"""A circuit breaker: after consecutive failures no requests are sent for a while, then a single probe decides.

    closed ──consecutive failures──▶ open ──backoff elapsed, one probe is sent──▶ half open ──response──▶ closed
                                      ▲───────────────probe failed, longer backoff──────┘

The backoff is jittered, so that many gateways do not probe a recovering node at the same moment. Any response closes
the breaker, even to a request sent before it opened: the response proves that the node is alive.
"""

from enum import Enum

from argosy.base.clock import Random
from argosy.base.retry import Backoff


class BreakerState(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"  # one probe is in flight


class Breaker:
    """The breaker of one address. The caller checks `admits`, then reports `on_start` and exactly one outcome."""

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
        """Open the breaker, or extend it with a longer backoff if it is open already."""
        self._openings += 1
        self.state = BreakerState.OPEN
        self.retry_at = now + self._backoff.delay(self._openings, self._random)

    def on_cancel(self, now: float) -> None:
        """The request was cancelled by its caller. If it was the probe, the next request may probe at once."""
        if self.state is BreakerState.HALF_OPEN:
            self.state, self.retry_at = BreakerState.OPEN, now
