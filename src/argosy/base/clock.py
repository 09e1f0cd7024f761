"""Clock and Random: the two inputs that pure code receives as arguments and never reads itself.

`now()` measures durations on one host. It never jumps, and it also counts while the host is suspended, because leases
held elsewhere expire meanwhile. `wall()` is for display and for records that other hosts read.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Clock(Protocol):
    """Time as one process sees it, in seconds."""

    def now(self) -> float: ...
    def wall(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Random(Protocol):
    """The part of `random.Random` that pure code may use."""

    def random(self) -> float: ...
    def uniform(self, a: float, b: float) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...
    def choice(self, seq: Sequence[_T]) -> _T: ...


# CLOCK_MONOTONIC stops while a laptop or virtual machine is suspended; CLOCK_BOOTTIME does not. Other systems than
# Linux have no such clock, so the monotonic clock is used there.
_DURATION_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The clock of this host."""

    def now(self) -> float:
        return time.monotonic() if _DURATION_CLOCK is None else time.clock_gettime(_DURATION_CLOCK)

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class MonotonicWallClock:
    """A wall clock that never jumps, for durations between records that other hosts read.

    A step of the host's clock is slewed, as NTP does: the reported time runs at most 10 % faster or slower than real
    time until both agree, so no duration is wrong by more than that.
    """

    SLEW = 0.1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.now()
        self._reported = clock.wall()

    def wall(self) -> float:
        now = self._clock.now()
        # Never negative, even if two threads read out of order.
        passed = max(0.0, now - self._at)
        self._at = max(now, self._at)
        # Corrected in proportion to the time passed, so that frequent and rare readers see the same slew.
        ahead = self._clock.wall() - (self._reported + passed)
        self._reported += passed + min(max(ahead, -self.SLEW * passed), self.SLEW * passed)
        return self._reported


def system_random() -> Random:
    """Randomness seeded by the operating system."""
    return random.Random()


def seeded_random(seed: int | str) -> Random:
    """Randomness that repeats: for simulations and tests."""
    return random.Random(seed)
