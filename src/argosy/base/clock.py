"""Clock and Random: the two things a pure core must be given and never takes for itself.

`now()` is for measuring spans on one machine: it never jumps, and it goes on counting while the machine is suspended,
because leases elsewhere go on expiring then. `wall()` is for people and for records that other machines read.
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
    """The part of `random.Random` that cores may use."""

    def random(self) -> float: ...
    def uniform(self, a: float, b: float) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...
    def choice(self, seq: Sequence[_T]) -> _T: ...


# CLOCK_MONOTONIC stands still while a laptop or virtual machine sleeps; CLOCK_BOOTTIME does not. Elsewhere than on
# Linux the monotonic clock is the best there is.
_SPAN_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.monotonic() if _SPAN_CLOCK is None else time.clock_gettime(_SPAN_CLOCK)

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SteadyWall:
    """Wall time without jumps, for spans that must be kept on records others read.

    A step of the machine's clock is made up for slowly: what is told runs at most a tenth faster or slower than time
    does until it agrees again, so that no span is cut short by more than that.
    """

    SLEW = 0.1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.now()
        self._told = clock.wall()

    def wall(self) -> float:
        now = self._clock.now()
        passed = max(0.0, now - self._at)
        self._at = max(now, self._at)
        ahead = self._clock.wall() - (self._told + passed)
        self._told += passed + min(max(ahead, -self.SLEW * passed), self.SLEW * passed)
        return self._told


def system_random() -> Random:
    """Randomness seeded by the operating system."""
    return random.Random()


def seeded_random(seed: int | str) -> Random:
    """Randomness that repeats: for simulations and tests."""
    return random.Random(seed)
