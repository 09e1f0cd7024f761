"""Clocks that disagree: each node has its own, and none of them is right.

A node's `now()` starts anywhere and runs a little fast or slow; its `wall()` is off by an offset that may be stepped
while it runs, as time daemons do. True time is the loop's, and only checkers see it.
"""

import asyncio
from collections.abc import Callable

from argosy.base.errors import Invalid

DRIFT_MAX = 0.005  # half a percent: ten times what a bad quartz does, and the most that leases must bear
WALL_AT_START = 1_700_000_000.0


class SimClock:
    """Implements `Clock` for one node; `drift` 0.001 gains a millisecond each second."""

    def __init__(
        self, true_now: Callable[[], float], *, drift: float = 0.0, started_at: float = 0.0, wall_offset_s: float = 0.0
    ) -> None:
        if abs(drift) > DRIFT_MAX:
            raise Invalid(f"a simulated clock drifts by at most {DRIFT_MAX}, not {drift}")
        self._true_now = true_now
        self._rate = 1.0 + drift
        self._started_at = started_at
        self.wall_offset_s = wall_offset_s

    def now(self) -> float:
        return self._started_at + self._true_now() * self._rate

    def wall(self) -> float:
        return WALL_AT_START + self._true_now() + self.wall_offset_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)

    def to_true(self, local_now: float) -> float:
        """The instant of true time at which this clock shows `local_now`."""
        return (local_now - self._started_at) / self._rate
