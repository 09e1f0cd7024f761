"""Audit of a shard: queue state against rows, and the invariants JOB-2 and JOB-3.

It reads every row, so it is for tests and simulations. The result lists violations, each line starting with the name
of the invariant.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from argosy.jobs import keys
from argosy.jobs.model import (
    Attempt,
    AttemptStatus,
    ConcurrencyLimit,
    Job,
    JobState,
    JobStatus,
    QueuedTask,
    RefreshLimit,
    RunAttempt,
    SlotRequest,
    TaskLease,
)
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.queue import entry_of
from argosy.jobs.shard.queue_state import JobKey
from argosy.jobs.shard.rows import (
    decode_attempt,
    decode_floating,
    decode_job,
    decode_lease,
    decode_request,
    decode_schedule,
    decode_state,
    decode_task,
    decode_unique,
    status_at,
)


class ShardRows(NamedTuple):
    jobs: dict[JobKey, Job]
    states: dict[JobKey, JobState]
    attempts: dict[JobKey, dict[int, Attempt]]
    tasks: list[QueuedTask]
    leases: dict[str, TaskLease]
    requests: list[SlotRequest]
    holders: dict[tuple[str, str], set[str]]
    twice: list[JobKey]  # jobs with a live and a done state


async def audit(core: Core) -> list[str]:
    """Violations in the shard, between two calls."""
    rows = await _read(core)
    found = [
        *_check_jobs(rows),
        *_check_running(rows),
        *_check_scheduled(rows),
        *_check_final(rows),
        *_check_slots(rows),
        *_check_memory(core, rows),
        *await _check_indexes(core, rows),
    ]
    return sorted(set(found))


async def _read(core: Core) -> ShardRows:
    live = await _by_job(core, keys.LIVE, decode_state)
    done = await _by_job(core, keys.DONE, decode_state)
    attempts: dict[JobKey, dict[int, Attempt]] = {}
    for (tenant, job, number), attempt in (await _all(core, keys.ATTEMPT, decode_attempt)).items():
        attempts.setdefault((tenant, job), {})[number] = attempt
    holders: dict[tuple[str, str], set[str]] = {}
    for tenant, key, task_id in await _all(core, keys.HOLDER, bytes):
        holders.setdefault((tenant, key), set()).add(task_id)
    return ShardRows(
        jobs=await _by_job(core, keys.JOB, decode_job),
        states={**live, **done},
        attempts=attempts,
        tasks=list((await _all(core, keys.TASK, decode_task)).values()),
        leases={items[0]: lease for items, lease in (await _all(core, keys.LEASE, decode_lease)).items()},
        requests=list((await _all(core, keys.REQUEST, decode_request)).values()),
        holders=holders,
        twice=sorted(live.keys() & done.keys()),
    )


async def _all(core: Core, kind: int, decode: Callable[[bytes], Any]) -> dict[tuple[Any, ...], Any]:
    return {keys.items(key): decode(value) async for key, value in core.store.scan(*keys.under(kind))}


async def _by_job(core: Core, kind: int, decode: Callable[[bytes], Any]) -> dict[JobKey, Any]:
    return {(items[0], items[1]): value for items, value in (await _all(core, kind, decode)).items()}


def _waiting(rows: ShardRows) -> Iterator[tuple[JobKey, int, str]]:
    """Every entry in which a job waits: job, attempt and task id."""
    for queued in rows.tasks:
        if not isinstance(queued.task, RefreshLimit):
            yield (queued.task.tenant, queued.task.job), queued.task.attempt, queued.task.id
    for request in rows.requests:
        yield (request.tenant, request.job), request.attempt, request.task_id


def _running_attempts(rows: ShardRows) -> Iterator[tuple[JobKey, RunAttempt]]:
    for lease in rows.leases.values():
        if isinstance(lease.task, RunAttempt):
            yield (lease.task.tenant, lease.task.job), lease.task


def _check_jobs(rows: ShardRows) -> Iterator[str]:
    for job in rows.jobs.keys() ^ rows.states.keys():
        yield f"everyJobHasOneState: {job} has only one of job and state"
    for job in rows.twice:
        yield f"everyJobHasOneState: {job} is live and done"
    for job in rows.attempts.keys() - rows.jobs.keys():
        yield f"deletedJobLeavesNoAttempts: {job}"


def _check_running(rows: ShardRows) -> Iterator[str]:
    seen: dict[JobKey, str] = {}
    queued = {task_id for _, _, task_id in _waiting(rows)}
    for job, task in _running_attempts(rows):
        # Two leases of one job mean that two workers run it at the same time.
        if job in seen:
            yield f"oneLeasePerJob: {job} is leased as {seen[job]} and {task.id}"  # JOB-2
        seen[job] = task.id
        if task.id in queued:
            yield f"noDoubleLease: {task.id} of {job} is leased and queued"  # JOB-2
        state = rows.states.get(job)
        if state is None or state.status != JobStatus.RUNNING or state.attempt != task.attempt:
            yield f"leaseJobMustBeRunning: {job} is leased and {state}"
        attempt = rows.attempts.get(job, {}).get(task.attempt)
        if attempt is None or attempt.status != AttemptStatus.RUNNING or attempt.task_id != task.id:
            yield f"runningJobHasRunningAttempt: {job} has {attempt}"
    for job, state in rows.states.items():
        if state.status == JobStatus.RUNNING and job not in seen:
            yield f"leaseJobMustBeRunning: {job} is running without a lease"
        for attempt in rows.attempts.get(job, {}).values():
            if attempt.status == AttemptStatus.RUNNING and seen.get(job) != attempt.task_id:
                yield f"noZombieAttempts: {job} has {attempt} without a lease"


def _check_scheduled(rows: ShardRows) -> Iterator[str]:
    # A job in two places would run twice, one in none never.
    places: dict[JobKey, int] = {}
    for job, attempt, _ in _waiting(rows):
        places[job] = places.get(job, 0) + 1
        state = rows.states.get(job)
        if state is None or state.status != JobStatus.SCHEDULED or state.attempt != attempt or state.waiting_for:
            yield f"noQueuedTasksForTerminal: attempt {attempt} of {job} waits, but it is {state}"
    for job, state in rows.states.items():
        if state.status == JobStatus.SCHEDULED and places.get(job, 0) != (0 if state.waiting_for else 1):
            yield f"restartedJobIsScheduledWithTask: {job} waits in {places.get(job, 0)} places and is {state}"
        if state.status == JobStatus.SCHEDULED and state.cancelled_at:
            yield f"cancellationClearedRequiresRestartable: {job} is scheduled and cancelled"
    for queued in rows.tasks:
        if not isinstance(queued.task, RefreshLimit):
            state = rows.states.get((queued.task.tenant, queued.task.job))
            if state is not None and state.next_start_at != queued.start_at:
                yield f"stateNamesTheTask: {queued.task.job} starts at {queued.start_at}, its state says {state}"


def _check_final(rows: ShardRows) -> Iterator[str]:
    leased = {job for job, _ in _running_attempts(rows)}
    for job, state in rows.states.items():
        if not state.status.is_final:
            continue
        if job in leased:
            yield f"noLeasesForTerminal: {job} is {state}"
        last = rows.attempts.get(job, {}).get(state.attempt)
        if state.status == JobStatus.SUCCEEDED and (last is None or last.status != AttemptStatus.SUCCEEDED):
            yield f"validTransitions: {job} succeeded with {last}"
        if state.status == JobStatus.FAILED and (last is None or last.status != AttemptStatus.FAILED):
            yield f"validTransitions: {job} failed with {last}"


def _check_slots(rows: ShardRows) -> Iterator[str]:
    active: dict[str, JobKey] = {task_id: job for job, _, task_id in _waiting(rows)}
    active |= {task.id: job for job, task in _running_attempts(rows)}
    for (tenant, key), task_ids in rows.holders.items():
        limits: list[int] = []
        for task_id in task_ids:
            holder = active.get(task_id)
            if holder is None:
                yield f"holdersRequireActiveTask: {task_id} holds {key} of {tenant} and does nothing"
                continue
            job = rows.jobs.get(holder)
            limits += [
                limit.max_concurrency
                for limit in (job.limits if job is not None else ())
                if isinstance(limit, ConcurrencyLimit) and limit.key == key
            ]
        # The job granted last counted all others against its own maximum, so the highest maximum bounds them all.
        if limits and len(limits) == len(task_ids) and len(task_ids) > max(limits):
            yield f"queueLimitEnforced: {len(task_ids)} hold {key} of {tenant}, {max(limits)} may"  # JOB-3
    for request in rows.requests:
        if request.task_id in rows.holders.get((request.tenant, request.key), ()):
            yield f"grantedMeansNoRequest: {request.job} holds {request.key} and waits for it"


def _check_memory(core: Core, rows: ShardRows) -> Iterator[str]:
    """Queue state and rows must agree after every transaction: recovery rebuilds the one from the other."""
    queues = core.queues
    queued_entries = {(group, tenant, entry) for group, tenant, entry in queues.tasks.entries()}
    stored = {
        (queued.task_group, queued.task.tenant, entry_of(queued, queued.task))
        for queued in rows.tasks
        if isinstance(queued.task, RunAttempt)
    }
    timed = [queues.tickets, queues.checks, *queues.refreshes.values()]
    queued_steps = {id: item[1] for each in timed for id, item in {**each.items, **each.hand}.items()}
    stored_steps = {queued.task.id: queued for queued in rows.tasks if not isinstance(queued.task, RunAttempt)}
    holders = {slot: set(task_ids) for slot, task_ids in queues.slots.holders.items()}
    waiting = {(slot, job) for slot, each in queues.slots.waiting.items() for job in each.requests}
    requests = {((request.tenant, request.key), (request.job, request.attempt)) for request in rows.requests}
    leases = {task_id: running.lease for task_id, running in queues.leases.by_task.items()}
    for name, in_memory, in_rows in (
        ("tasks", queued_entries, stored),
        ("steps", queued_steps, stored_steps),
        ("holders", holders, rows.holders),
        ("requests", waiting, requests),
        ("leases", leases, rows.leases),
        ("the count of tasks", queues.tasks.waiting + len(queues.tasks.hand), len(stored)),
    ):
        if in_memory != in_rows:
            yield f"memoryIsWhatRowsSay: {name} in memory {in_memory}, in rows {in_rows}"


async def _check_indexes(core: Core, rows: ShardRows) -> list[str]:
    queues = core.queues
    status = set(await _all(core, keys.STATUS, bytes))
    wanted = {
        (tenant, int(state.status), keys.NEWEST_FIRST - status_at(state), job)
        for (tenant, job), state in rows.states.items()
    }
    after = {(items[:2], items[2]) for items in await _all(core, keys.AFTER, bytes)}
    waiters = {(before, job) for before, jobs in queues.waiters.items() for job in jobs}
    waits = {((tenant, before), job) for (tenant, job), state in rows.states.items() for before in state.waiting_for}
    claims = {place: (each.job, each.until, each.is_done) for place, each in queues.claims.items()}
    pairs: list[tuple[str, Any, Any]] = [
        ("status", wanted, status),
        ("after", waiters, after),
        ("waiting_for", waits, after),
        ("unique", claims, await _all(core, keys.UNIQUE, decode_unique)),
        ("floating", queues.floating, await _all(core, keys.FLOATING, decode_floating)),
        ("schedules", queues.schedules, await _all(core, keys.SCHEDULE, decode_schedule)),
    ]
    return [f"indexesAgree: {name}: {expected} and {stored}" for name, expected, stored in pairs if expected != stored]
