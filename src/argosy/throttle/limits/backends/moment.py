"""The time of day as the limits count it: whole milliseconds."""

from math import floor

from argosy.base.clock import Clock


def now_ms(clock: Clock) -> int:
    """The milliseconds that have passed in full.

    A float of seconds cannot hold every millisecond: without the rounding to microseconds, 0.123 s may come out as 122.
    """
    return floor(round(clock.wall() * 1000, 3))
