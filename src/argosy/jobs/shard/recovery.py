"""Recovery: the queue state is rebuilt from the rows before a shard serves.

Only rows of unfinished work are read, so opening does not depend on the number of finished jobs, and each entry is
kept small because a million tasks may wait. After that the memory is the queue: rows of tasks are never scanned again,
so the tombstones of finished ones, 4 µs each in SlateDB, cost nothing.

Leases restart with their full time: while the shard was not served, the heartbeats of their workers had no receiver.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

from argosy.jobs import keys
from argosy.jobs.model import RefreshLimit, RunAttempt, TaskLease
from argosy.jobs.shard.completion import claim_id
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.cron_schedules import schedule_id
from argosy.jobs.shard.queue import GroupQueue
from argosy.jobs.shard.queue_state import JobKey, RunningLease, UniqueClaim
from argosy.jobs.shard.rows import (
    decode_floating,
    decode_job,
    decode_lease,
    decode_request,
    decode_schedule,
    decode_state,
    decode_task,
    decode_time,
    decode_unique,
    without_payload,
)

READ_CHUNK = 256  # jobs read at once: their payloads, of up to 16 MiB, are in memory together

T = TypeVar("T")


async def load(core: Core) -> None:
    """Fills the queue state of a new shard."""
    # No order is needed between them: each fills a part of its own from rows that no call changes yet.
    await _load_tasks(core)
    await _load_slots(core)
    await _load_leases(core)
    await _load_claims(core)
    await _load_waiters(core)
    await _load_schedules(core)
    async for key, _ in core.store.scan(*keys.under(keys.EXPIRY), limit=1):
        when = keys.items(key)[0]
        assert isinstance(when, int)
        core.queues.expiry_at = when


def _rows(core: Core, kind: int) -> AsyncIterator[tuple[bytes, bytes]]:
    return core.store.scan(*keys.under(kind))


async def _load_tasks(core: Core) -> None:
    queues = core.queues
    groups = queues.tasks.groups
    waiting = 0
    async for _, value in _rows(core, keys.TASK):
        queued = decode_task(value)
        task = queued.task
        if type(task) is not RunAttempt:  # `type` and not isinstance: this runs once for each of a million tasks
            queues.delay_queue_of(queued).push(queued.start_at, task.id, queued)
            continue
        queue = groups.get(queued.task_group)
        if queue is None:
            queue = groups[queued.task_group] = GroupQueue()
        heap = queue.heaps.get(task.tenant)
        if heap is None:
            heap = queue.heaps[task.tenant] = []
        # Rows arrive in queue order, and a sorted list is a heap.
        heap.append(
            (queued.start_at, queued.priority, task.job, task.attempt, task.id, task.relative_attempt, task.held)
        )
        waiting += 1
    for queue in groups.values():
        queue.seal()
    queues.tasks.waiting = waiting


async def _load_slots(core: Core) -> None:
    """Before anything is granted: a holder that is missing here would admit one job too many (JOB-3)."""
    slots = core.queues.slots
    async for key, value in _rows(core, keys.HOLDER):
        tenant, name, task_id = map(str, keys.items(key))
        slots.hold((tenant, name), task_id, decode_time(value))
    async for _, value in _rows(core, keys.REQUEST):
        slots.park(decode_request(value))
    # A crash between a release and its grant is impossible (one transaction), but a grant is bounded per transaction:
    # every slot with waiters is examined once more.
    slots.to_grant.update(dict.fromkeys(slots.waiting))
    async for key, value in _rows(core, keys.FLOATING):
        tenant, name = map(str, keys.items(key))
        core.queues.floating[tenant, name] = decode_floating(value)


async def _load_leases(core: Core) -> None:
    """Each lease restarts now: its expiry was measured by the clock of the node that had the shard.

    Clocks of two nodes are not compared (decision 0005). A lease may so last up to one length longer, never shorter.
    """
    leases = [decode_lease(value) async for _, value in _rows(core, keys.LEASE)]
    now = core.now_ms()
    for chunk in _chunks(leases):
        rows = iter(await core.store.get_many([key for lease in chunk for key in _keys_of(lease)]))
        for lease in chunk:
            # The longer of both: the worker sends heartbeats by the length that it got.
            running = RunningLease(lease, now + max(core.options.lease_ms, lease.lease_ms))
            if not isinstance(lease.task, RefreshLimit):
                job_row, state_row = next(rows), next(rows)
                assert job_row is not None, f"task {lease.task.id} runs for a job that is not there"
                assert state_row is not None, f"task {lease.task.id} runs for a job that does not run"
                running.job = without_payload(decode_job(job_row))
                state = decode_state(state_row)
                running.cancelled_at, running.progress = state.cancelled_at, state.progress
            core.queues.leases.add(lease.task.id, running)


def _keys_of(lease: TaskLease) -> list[bytes]:
    task = lease.task
    if isinstance(task, RefreshLimit):
        return []
    return [keys.key(kind, task.tenant, task.job) for kind in (keys.JOB, keys.LIVE)]


async def _load_claims(core: Core) -> None:
    async for key, value in _rows(core, keys.UNIQUE):
        tenant, name = map(str, keys.items(key))
        claim = UniqueClaim(*decode_unique(value))
        core.queues.claims[tenant, name] = claim
        # Only these end by time; the claim of an unfinished job ends with the job.
        if claim.is_done:
            core.queues.stale_claims.push(claim.until, claim_id((tenant, name)), (tenant, name))


async def _load_waiters(core: Core) -> None:
    """Also finds dependents of jobs that finished just before the shard was closed."""
    waiters = core.queues.waiters
    async for key, _ in _rows(core, keys.AFTER):
        tenant, before, job = map(str, keys.items(key))
        waiters.setdefault((tenant, before), {})[job] = None
    for chunk in _chunks(waiters):
        rows = await core.store.get_many([keys.key(keys.LIVE, *before) for before in chunk])
        # Without a LIVE row it is finished or deleted. The crash came before the next tick handled its dependents.
        done: list[JobKey] = [before for before, row in zip(chunk, rows, strict=True) if row is None]
        core.queues.ended.update(dict.fromkeys(done))


async def _load_schedules(core: Core) -> None:
    async for _, value in _rows(core, keys.SCHEDULE):
        schedule = decode_schedule(value)
        place = (schedule.tenant, schedule.name)
        core.queues.schedules[place] = schedule
        if not schedule.is_paused:
            core.queues.cron_queue.push(schedule.next_at, schedule_id(*place), place)


def _chunks(items: Iterable[T]) -> Iterable[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, READ_CHUNK)):
        yield chunk
