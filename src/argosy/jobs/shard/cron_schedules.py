"""Cron: expressions, and the schedules of tenants, which enqueue a job at each time that an expression matches.

An expression has five fields (minute, hour, day of the month, month, day of the week) in a time zone. A field is `*`, a
number or name, a range `a-b`, any of them with a step `/n`, or several with commas. Sunday is 0 or 7. If both days are
restricted, a date that matches either one matches, as in every cron. `@hourly`, `@daily`, `@weekly`, `@monthly` and
`@yearly` are accepted.

`parse_cron` checks the syntax, so that an error names the field and its bounds; cronsim, which follows Debian's cron,
computes the times (decision 0041). cronsim accepts more (seconds, `L`, `#`) than `parse_cron` lets through.

When clocks go forward, a job whose time is skipped runs at the first minute that exists. When they go back, a time that
occurs twice counts once. An expression with `*` at the start of its minute or hour follows the clock instead: it
neither pauses nor catches up.

The id of a schedule's job consists of the schedule's name and the time, so one time is never enqueued twice. Times
missed while the shard was not served are made up by one job, not by one each.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from argosy.base.errors import Invalid, NotFound
from argosy.jobs import keys
from argosy.jobs.model import TENANT_CHARS_MAX, NewJob, Schedule
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.enqueue import mentioned_jobs, put, read_related
from argosy.jobs.shard.rows import encode
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import check_job, check_text

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


def parse_cron(expression: str, timezone: str = "UTC") -> Cron:
    """Raises Invalid with the field, its bounds and the value."""
    if len(expression) > CRON_CHARS_MAX:
        raise Invalid(f"a cron expression may have {CRON_CHARS_MAX} characters; got {len(expression)}")
    fields = _WORDS.get(expression.strip().lower(), expression).split()
    if len(fields) != len(_FIELDS):
        raise Invalid(
            f"invalid cron expression {expression!r}: expected five fields: minute, hour, day, month, weekday"
        )
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


NAME_CHARS_MAX = 200  # leaves room in a job's id, which has at most 256 characters, for the time
SCHEDULES_MAX = 10_000  # of one tenant
DUE_SCHEDULES_MAX = 100  # per tick: the next time of each is computed on the event loop, in up to half a millisecond


async def put_schedule(core: Core, schedule: Schedule) -> None:
    """Creates or replaces a schedule and computes its next time."""
    check_text("tenant", schedule.tenant, TENANT_CHARS_MAX)
    check_text("a schedule's name", schedule.name, NAME_CHARS_MAX)
    # Now, not when it is due: then there would be no caller to reject.
    check_job(_job(schedule))
    cron = parse_cron(schedule.cron, schedule.timezone)
    with core.begin_txn() as txn:
        _put(txn, replace(schedule, next_at=cron.next_after(txn.now)))
    await core.commit(txn)


async def delete_schedule(core: Core, tenant: str, name: str) -> None:
    if (tenant, name) not in core.queues.schedules:
        await core.wait_staged_durable()
        raise NotFound(f"schedule {name} not found")
    with core.begin_txn() as txn:
        del txn.queues.schedules[tenant, name]
        txn.queues.cron_queue.remove(schedule_id(tenant, name))
        txn.batch.delete(keys.key(keys.SCHEDULE, tenant, name))
    await core.commit(txn)


async def schedules(core: Core, tenant: str) -> list[Schedule]:
    return [each for (owner, _), each in sorted(core.queues.schedules.items()) if owner == tenant][:SCHEDULES_MAX]


async def run_due_schedules(core: Core) -> int:
    """Enqueues the jobs of due schedules; returns how many schedules."""
    now = core.now_ms()
    for done in range(DUE_SCHEDULES_MAX):
        if (taken := core.queues.cron_queue.pop_due(now)) is None:
            return done
        try:
            await _run_schedule(core, *taken)
        finally:
            # After an error too; a schedule that was put back with its next time is no longer in hand, and this does
            # nothing.
            core.queues.cron_queue.requeue(taken[0])
    return DUE_SCHEDULES_MAX


async def _run_schedule(core: Core, id: str, place: tuple[str, str]) -> None:
    schedule = core.queues.schedules[place]
    new = replace(_job(schedule), id=f"{schedule.name}@{schedule.next_at}")
    with core.changes.track(mentioned_jobs(new)) as changed:
        related = await read_related(core, [new])
        if changed or core.queues.schedules.get(place) is not schedule:
            return  # changed while its rows were read: still due, or due at another time
        with core.begin_txn() as txn:
            # The result is ignored: an id or unique key that is taken means that the job for this time exists. Job and
            # next time change in one transaction, so a crash repeats both or neither.
            put(txn, new, related, schedule=schedule.name)
            # From now, not from the time that was due: times missed while the shard was not served are not repeated.
            _put(txn, replace(schedule, next_at=parse_cron(schedule.cron, schedule.timezone).next_after(txn.now)))
    await core.commit(txn)


def _job(schedule: Schedule) -> NewJob:
    """The schedule's job belongs to its tenant and starts at once."""
    return replace(schedule.job, tenant=schedule.tenant, id="", start_at_ms=0)


def _put(txn: ShardTxn, schedule: Schedule) -> None:
    place = (schedule.tenant, schedule.name)
    txn.queues.schedules[place] = schedule
    txn.queues.cron_queue.remove(schedule_id(*place))
    if not schedule.is_paused:
        txn.queues.cron_queue.push(schedule.next_at, schedule_id(*place), place)
    txn.batch.put(keys.key(keys.SCHEDULE, *place), encode(schedule))


def schedule_id(tenant: str, name: str) -> str:
    return f"{len(tenant)}:{tenant}{name}"
