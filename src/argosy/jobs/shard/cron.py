"""Cron expressions: five fields (minute, hour, day of the month, month, day of the week) in a time zone.

A field is `*`, a number or name, a range `a-b`, any of them with a step `/n`, or several with commas. Sunday is 0 or 7.
If both days are restricted, a date that matches either one matches, as in every cron. `@hourly`, `@daily`, `@weekly`,
`@monthly` and `@yearly` are accepted.

`parse` checks the syntax, so that an error names the field and its bounds; cronsim, which follows Debian's cron,
computes the times. cronsim accepts more (seconds, `L`, `#`) than `parse` lets through.

When clocks go forward, a job whose time is skipped runs at the first minute that exists. When they go back, a time that
occurs twice counts once. An expression with `*` at the start of its minute or hour follows the clock instead: it
neither pauses nor catches up.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from argosy.base.errors import Invalid

CRON_CHARS_MAX = 256
# A time that occurs twice is found again by a search that starts in its second occurrence. No zone moves its clocks by
# more than three hours, and a search passes over one match for each minute of them.
REPEATED_MATCHES_MAX = 3 * 60

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
    """A checked expression in its time zone."""

    expression: str
    zone: ZoneInfo

    def next_after(self, at_ms: int) -> int:
        """The first matching time after `at_ms`. Invalid if there is none within the 50 years that cronsim searches.

        It runs on a shard's event loop. Searching all 50 years takes about half a millisecond.
        """
        after = datetime.fromtimestamp(at_ms / 1000, self.zone)
        try:
            for match in islice(CronSim(self.expression, after), REPEATED_MATCHES_MAX + 1):
                if (found_ms := int(match.timestamp()) * 1000) > at_ms:
                    return found_ms
        except CronSimError:
            pass  # a day that none of the months has
        raise Invalid(f"the cron expression {self.expression!r} never matches a date: change its day or month")


def parse(expression: str, timezone: str = "UTC") -> Cron:
    """Raises Invalid with the field, its bounds and the value."""
    if len(expression) > CRON_CHARS_MAX:
        raise Invalid(f"a cron expression may have {CRON_CHARS_MAX} characters; got {len(expression)}")
    fields = _WORDS.get(expression.strip().lower(), expression).split()
    if len(fields) != len(_FIELDS):
        raise Invalid(f"a cron expression has five fields, minute to day of the week; got {expression!r}")
    normal = " ".join(_normalize(text, *rule) for text, rule in zip(fields, _FIELDS, strict=True))
    return Cron(normal, _zone(timezone))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"unknown time zone {name!r}: use a name like Europe/Berlin") from None


def _normalize(text: str, name: str, least: int, most: int, names: dict[str, int]) -> str:
    """The field with numbers in place of names, as cronsim reads it."""
    return ",".join(_normalize_part(part, name, least, most, names) for part in text.split(","))


def _normalize_part(part: str, name: str, least: int, most: int, names: dict[str, int]) -> str:
    span, slash, step_text = part.partition("/")
    step = f"/{_number(step_text, name, 1, most, {})}" if slash else ""
    if span == "*":
        return f"*{step}"
    first_text, dash, last_text = span.partition("-")
    first = _number(first_text, name, least, most, names)
    if not dash:
        return f"{first}{step}"
    last = _number(last_text, name, least, most, names)
    if last < first:
        raise Invalid(f"a range in the {name} of a cron expression must not run backwards; got {part!r}")
    # cronsim reads a range of one value with a step, 5-5/10, as 5/10, which has no end.
    return f"{first}" if first == last else f"{first}-{last}{step}"


def _number(text: str, name: str, least: int, most: int, names: dict[str, int]) -> int:
    number = names.get(text.lower(), int(text) if text.isascii() and text.isdigit() and len(text) <= 2 else -1)
    if not least <= number <= most:
        raise Invalid(f"the {name} of a cron expression must be between {least} and {most}; got {text!r}")
    return number
