"""The end of a task lease: the worker reports an outcome, or the lease expires.

A job that was cancelled while it ran is Cancelled and not retried if its attempt fails or its lease expires. If it
succeeded nevertheless it is Succeeded, because its result exists. silo retries a cancelled job whose attempt failed or
whose worker died; that is not copied.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.jobs.model import (
    WORKER_CRASHED,
    WORKER_STOPPED,
    Attempt,
    AttemptStatus,
    JobState,
    JobStatus,
    RefreshLimit,
    RunAttempt,
    TaskCancelled,
    TaskFailure,
    TaskOutcome,
    TaskReleased,
    TaskSuccess,
)
from argosy.jobs.shard.completion import delay_ms, end, to_rescheduled
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.limit_chain import begin, refresh_if_wanted
from argosy.jobs.shard.queue_state import QueueState, RunningLease
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import check_text

REPORT_MAX = 1_000  # outcomes in one call
OUTCOME_BYTES_MAX = 16 << 20  # the largest value that the store accepts
REPORT_BYTES_MAX = 24 << 20  # of all outcomes in one call; their rows must fit into one batch
ERROR_CODE_CHARS_MAX = 1_024
EXPIRED_MAX = 500  # leases ended in one transaction


async def report(
    core: Core, outcomes: Sequence[tuple[str, TaskOutcome]], *, worker: str = ""
) -> list[ArgosyError | None]:
    if len(outcomes) > REPORT_MAX:
        raise Invalid(f"at most {REPORT_MAX} outcomes may be reported in one call; got {len(outcomes)}")
    if sum(_size(outcome) for _, outcome in outcomes) > REPORT_BYTES_MAX:
        raise Invalid(f"the outcomes of one call may have {REPORT_BYTES_MAX} bytes: split it")
    await core.wait_capacity()
    with core.begin_txn() as txn:
        answers = [_report_one(core, txn, task_id, outcome, worker) for task_id, outcome in outcomes]
    await core.commit(txn)
    if any(isinstance(answer, NotFound | Conflict) for answer in answers):
        # "lease not found" makes the worker drop its result. The lease may have ended in a transaction that is staged
        # only; a crash would bring it back, without its worker.
        await core.wait_staged_durable()
    return answers


def _report_one(core: Core, txn: ShardTxn, task_id: str, outcome: TaskOutcome, worker: str) -> ArgosyError | None:
    try:
        running = require_lease(core.queues, task_id, worker)
        if running.job is None:
            raise NotFound("lease not found")  # refreshes of limits are reported by `report_refresh`
        _check_bounds(outcome)
    except ArgosyError as error:
        return error
    finish(txn, task_id, outcome, core.random)
    return None


def require_lease(queues: QueueState, task_id: str, worker: str) -> RunningLease:
    """The lease, checked to be the worker's if one is given. Clients of silo.v1 match on these messages."""
    running = queues.leases.by_task.get(task_id)
    if running is None:
        raise NotFound("lease not found")
    if worker and running.lease.worker != worker:
        raise Conflict("lease owner mismatch")
    return running


def finish(txn: ShardTxn, task_id: str, outcome: TaskOutcome, random: Random) -> None:
    """Ends the lease of an attempt; the job is done, or is scheduled again.

    Lease, attempt, slots and state change in one transaction, so at no instant is the job both leased and queued
    (JOB-2), and a slot is free as soon as its holder has ended (JOB-3).
    """
    running = txn.queues.leases.remove(task_id)
    task, job = running.lease.task, running.job
    assert isinstance(task, RunAttempt)
    assert job is not None
    txn.delete_lease(task_id)
    txn.put_attempt(job.tenant, job.id, _attempt(running, task, outcome, txn.now))
    txn.release(job.tenant, task.held, task_id)
    was = (JobStatus.RUNNING, running.lease.started_at)
    state = JobState(
        JobStatus.SUCCEEDED,
        txn.now,
        task.attempt,
        task.relative_attempt,
        cancelled_at=running.cancelled_at,
        progress=running.progress,
    )
    if isinstance(outcome, TaskSuccess):
        end(txn, job, was, state)
    elif isinstance(outcome, TaskCancelled) or running.cancelled_at:
        end(txn, job, was, replace(state, status=JobStatus.CANCELLED, cancelled_at=running.cancelled_at or txn.now))
    elif isinstance(outcome, TaskReleased):
        # A worker that stops is no failure of the job: the relative attempt, which retries are counted by, stays.
        again = to_rescheduled(
            state, now=txn.now, start_at=txn.now, attempt=task.attempt + 1, relative_attempt=task.relative_attempt
        )
        txn.put_state(job.tenant, job.id, was, again)
        begin(txn, job, again)
    elif (delay := delay_ms(job.retry, task.relative_attempt, random)) is None:
        end(txn, job, was, replace(state, status=JobStatus.FAILED, is_dead=True))
    else:
        again = to_rescheduled(
            state,
            now=txn.now,
            start_at=txn.now + delay,
            attempt=task.attempt + 1,
            relative_attempt=task.relative_attempt + 1,
        )
        txn.put_state(job.tenant, job.id, was, again)
        begin(txn, job, again)


def expire(txn: ShardTxn, random: Random) -> int:
    """Ends leases that have expired as failures of their workers; returns how many."""
    for ended in range(EXPIRED_MAX):
        if (found := txn.queues.leases.pop_expired(txn.now)) is None:
            return ended
        task_id, running = found
        if running.job is None:
            _expire_refresh(txn, task_id)
        elif running.cancelled_at:
            finish(txn, task_id, TaskCancelled(), random)
        else:
            message = f"no heartbeat from worker {running.lease.worker} until {running.expires_at}"
            finish(txn, task_id, TaskFailure(WORKER_CRASHED, msgspec.msgpack.encode(message)), random)
    return EXPIRED_MAX


def _expire_refresh(txn: ShardTxn, task_id: str) -> None:
    """Drops a refresh whose worker is gone; it is queued again if a job still waits for the limit."""
    task = txn.queues.leases.remove(task_id).lease.task
    assert isinstance(task, RefreshLimit)
    txn.delete_lease(task_id)
    slot = (task.tenant, task.key)
    txn.put_floating(slot, replace(txn.queues.floating[slot], is_refreshing=False))
    refresh_if_wanted(txn, slot, task.task_group)


def _attempt(running: RunningLease, task: RunAttempt, outcome: TaskOutcome, now: int) -> Attempt:
    running_attempt = Attempt(
        task.attempt, task.id, AttemptStatus.RUNNING, running.lease.started_at, running.lease.worker, finished_at=now
    )
    match outcome:
        case TaskSuccess(data):
            return replace(running_attempt, status=AttemptStatus.SUCCEEDED, result=data)
        case TaskFailure(code, data):
            return replace(running_attempt, status=AttemptStatus.FAILED, error_code=code, error_data=data)
        case TaskCancelled():
            return replace(running_attempt, status=AttemptStatus.CANCELLED)
        case TaskReleased():
            return replace(running_attempt, status=AttemptStatus.FAILED, error_code=WORKER_STOPPED)


def _size(outcome: TaskOutcome) -> int:
    return 0 if isinstance(outcome, TaskCancelled | TaskReleased) else len(outcome.data)


def _check_bounds(outcome: TaskOutcome) -> None:
    if _size(outcome) > OUTCOME_BYTES_MAX:
        raise Invalid(f"an outcome may have {OUTCOME_BYTES_MAX} bytes; got {_size(outcome)}")
    if isinstance(outcome, TaskFailure):
        check_text("an error code", outcome.code, ERROR_CODE_CHARS_MAX, may_be_empty=True)
