"""Calendar intervals: a limit per minute, hour, day, month or year, each ending with its last millisecond.

The time zone is handed in. Gubernator takes that of the machine, which in most containers is UTC; weeks it refuses, and
so do we. The length of a month or year is its true one: upstream computes it with a slip of precedence that makes such
leaky buckets never leak, which nobody can rely on.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

MINUTE, HOUR, DAY, WEEK, MONTH, YEAR = range(6)

_MINUTE_MS = 60_000
_HOUR = timedelta(hours=1)
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Interval:
    """One minute, hour, day, month or year: both ends are inside."""

    begin_ms: int
    end_ms: int
    length_ms: int  # what the leaky bucket's rate is taken from


def interval(duration: int, now_ms: int, zone: tzinfo) -> Interval | None:
    """The interval of this kind that holds `now_ms`; None if there is no such kind, for which see `complaint`."""
    if duration == MINUTE:  # those of UTC in every zone, as upstream
        begin_ms = now_ms - now_ms % _MINUTE_MS
        return Interval(begin_ms, begin_ms + _MINUTE_MS - 1, _MINUTE_MS)
    now = (_EPOCH + now_ms * _MILLISECOND).astimezone(zone)
    if duration == HOUR:
        begin = now.replace(minute=0, second=0, microsecond=0)
        return _between(begin, begin.astimezone(UTC) + _HOUR)
    if duration == DAY:
        begin = _midnight(now)
        return _between(begin, _midnight(begin + timedelta(days=1)), length_ms=86_400_000)
    if duration == MONTH:
        begin = _midnight(now).replace(day=1)
        return _between(begin, _midnight(begin + timedelta(days=31)).replace(day=1))
    if duration == YEAR:
        begin = _midnight(now).replace(month=1, day=1)
        return _between(begin, begin.replace(year=begin.year + 1))
    return None


def complaint(duration: int) -> str:
    """What to tell somebody whose duration names no interval."""
    if duration == WEEK:
        return "gregorian weeks are not supported: use 2 (day) or 4 (month)"
    return f"duration {duration} is no gregorian interval: use 0 (minute), 1 (hour), 2 (day), 4 (month) or 5 (year)"


def _midnight(day: datetime) -> datetime:
    return day.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _between(begin: datetime, after: datetime, *, length_ms: int = 0) -> Interval:
    """From `begin` to just before `after`. A day counts 24 hours even when the clocks are changed on it."""
    begin_ms, after_ms = _ms(begin), _ms(after)
    return Interval(begin_ms, after_ms - 1, length_ms or after_ms - begin_ms)


def _ms(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // _MILLISECOND
