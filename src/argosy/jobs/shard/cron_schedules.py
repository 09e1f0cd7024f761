"""Cron schedules: at each due time a job like the schedule's is enqueued.

The job's id consists of the schedule's name and the time, so one time is never enqueued twice. Times missed while the
shard was not served are made up by one job, not by one each.
"""

from msgspec.structs import replace

from argosy.base.errors import NotFound
from argosy.jobs import keys
from argosy.jobs.model import TENANT_CHARS_MAX, NewJob, Schedule
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.cron import parse
from argosy.jobs.shard.enqueue import mentioned_jobs, put, read_related
from argosy.jobs.shard.rows import encode
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import check_job, check_text

NAME_CHARS_MAX = 200  # leaves room in a job's id for the time
SCHEDULES_MAX = 10_000  # of one tenant
DUE_SCHEDULES_MAX = 100  # per tick


async def put_schedule(core: Core, schedule: Schedule) -> None:
    """Creates or replaces a schedule and computes its next time."""
    check_text("tenant", schedule.tenant, TENANT_CHARS_MAX)
    check_text("a schedule's name", schedule.name, NAME_CHARS_MAX)
    check_job(_job(schedule))
    cron = parse(schedule.cron, schedule.timezone)
    with core.begin_txn() as txn:
        _put(txn, replace(schedule, next_at=cron.next_after(txn.now)))
    await core.commit(txn)


async def delete_schedule(core: Core, tenant: str, name: str) -> None:
    if (tenant, name) not in core.queues.schedules:
        await core.wait_staged_durable()
        raise NotFound(f"there is no schedule {name}")
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
            # An id or unique key that is taken means that the job for this time exists.
            put(txn, new, related, schedule=schedule.name)
            _put(txn, replace(schedule, next_at=parse(schedule.cron, schedule.timezone).next_after(txn.now)))
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
