"""Cron expressions: five fields (minute, hour, day of the month, month, day of the week) in a time zone.

A field is `*`, a number or name, a range `a-b`, any of them with a step `/n`, or several with commas. Sunday is 0 or 7.
When both days are restricted, either is enough, as cron has always had it. `@hourly`, `@daily`, `@weekly`, `@monthly`
and `@yearly` stand for what they say.

When clocks are put forward, a time that is skipped comes as much later as the clocks were moved, so a daily job is
never left out. When they are put back, a time that comes twice counts the first time only; but a schedule for every
hour (`*` in the hour's field) goes by what the clock shows each time, so it neither pauses nor catches up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from argosy.base.errors import Invalid

DAYS_AHEAD_MAX = 366 * 9                # 29 February may be eight years off
CRON_CHARS_MAX = 256
HOURS_ASKED = 3                         # clocks are moved by two hours at most

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: at + 1 for at, name in enumerate(_MONTHS)}),
    ("day of the week", 0, 7, {name: at for at, name in enumerate(_WEEKDAYS)}),
)


@dataclass(frozen=True)
class Cron:
    """When something comes round."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]            # 0 is Sunday
    is_either_day: bool                 # both days are restricted
    is_every_hour: bool
    zone: ZoneInfo

    def next_after(self, at_ms: int) -> int:
        """The first time after `at_ms`; Invalid if there is none."""
        after = datetime.fromtimestamp(at_ms / 1000, UTC)
        # One day early: what the clocks skip may be moved past midnight.
        day = after.astimezone(self.zone).date() - timedelta(days=1)
        for _ in range(DAYS_AHEAD_MAX):
            if self._is_day(day) and (found := self._first_on(day, after)) is not None:
                return int(found.timestamp()) * 1000
            day += timedelta(days=1)
        raise Invalid("this schedule never comes round: mend its day and month")

    def _is_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (is_day or is_weekday) if self.is_either_day else (is_day and is_weekday)

    def _first_on(self, day: date, after: datetime) -> datetime | None:
        """Hours follow one another but where clocks are moved, so the hour after the first that fits is asked, too."""
        found: list[datetime] = []
        hours_asked = 0
        for hour in self.hours:
            times = [time for time in self._in_hour(day, hour) if time > after]
            found += times
            hours_asked += bool(found)
            if hours_asked == HOURS_ASKED:
                break
        return min(found, default=None)

    def _in_hour(self, day: date, hour: int) -> Iterator[datetime]:
        """The instants of one hour of the day."""
        for minute in self.minutes:
            local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
            first, second = local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)
            is_skipped = first.astimezone(self.zone).replace(tzinfo=None) != local.replace(tzinfo=None)
            if not (is_skipped and self.is_every_hour):
                yield first
            if second > first and self.is_every_hour:
                yield second


def parse(expression: str, timezone: str = "UTC") -> Cron:
    """Invalid with what to mend."""
    if len(expression) > CRON_CHARS_MAX:
        raise Invalid(f"a cron expression may have {CRON_CHARS_MAX} characters; got {len(expression)}")
    text = _WORDS.get(expression.strip().lower(), expression)
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise Invalid(f"a cron expression has five fields, minute to day of the week; got {expression!r}")
    minutes, hours, days, months, weekdays = (
        _field(text, *rule) for text, rule in zip(fields, _FIELDS, strict=True)
    )
    return Cron(
        minutes=tuple(sorted(minutes)), hours=tuple(sorted(hours)), days=frozenset(days), months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        is_either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
        is_every_hour=fields[1].startswith("*"), zone=_zone(timezone),
    )  # fmt: skip


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"there is no time zone {name!r}: name one like Europe/Berlin") from None


def _field(text: str, name: str, least: int, most: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, name, 1, most, {}) if slash else 1
        if span == "*":
            first, last = least, most
        else:
            first_text, dash, last_text = span.partition("-")
            first = _number(first_text, name, least, most, names)
            last = _number(last_text, name, least, most, names) if dash else (most if slash else first)
        if last < first:
            raise Invalid(f"the {name} of a cron expression cannot run backwards; got {part!r}")
        found.update(range(first, last + 1, step))
    return found


def _number(text: str, name: str, least: int, most: int, names: dict[str, int]) -> int:
    number = names.get(text.lower(), int(text) if text.isascii() and text.isdigit() and len(text) <= 2 else -1)
    if not least <= number <= most:
        raise Invalid(f"the {name} of a cron expression lies between {least} and {most}; got {text!r}")
    return number
