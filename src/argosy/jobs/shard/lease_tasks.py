"""Task leases: due tasks are leased to workers, kept by heartbeats, and end with a report or expire.

A task is popped from the queue before its job is read, which awaits: two workers that poll at the same time never get
the same task (JOB-2). All tasks of a call are leased in one transaction, durably, before the response. A lease ends
with a report, or expires by the shard's own clock; the worker's clock plays no part.

A job that was cancelled while it ran is Cancelled and not retried if its attempt fails or its lease expires. If it
succeeded nevertheless it is Succeeded, because its result exists. silo retries a cancelled job whose attempt failed or
whose worker died; that is not copied.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.jobs import keys
from argosy.jobs.model import (
    GROUP_CHARS_MAX,
    WORKER_CRASHED,
    WORKER_STOPPED,
    Attempt,
    AttemptStatus,
    Heartbeat,
    Job,
    JobState,
    JobStatus,
    LeasedRefresh,
    LeasedTask,
    RefreshLimit,
    RunAttempt,
    TaskCancelled,
    TaskFailure,
    TaskLease,
    TaskOutcome,
    TaskReleased,
    TaskSuccess,
)
from argosy.jobs.shard.completion import delay_ms, dequeue, end, is_last, to_rescheduled
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.job_reader import StoredJob, change
from argosy.jobs.shard.limit_chain import begin, refresh_if_wanted
from argosy.jobs.shard.queue import Entry
from argosy.jobs.shard.queue_state import QueueState, RunningLease
from argosy.jobs.shard.rows import decode_job, without_payload
from argosy.jobs.shard.txn import ShardTxn, StatusIndexKey
from argosy.jobs.shard.validation import check_number, check_text

LEASE_TASKS_MAX = 1_000  # in one call
# Two of the largest payloads: a worker's memory and gRPC's limit of 128 MiB leave room for it.
LEASE_BYTES_MAX = 32 << 20  # of payloads in one response
REFRESHES_MAX = 16  # refreshes in one response, beside the tasks
WORKER_CHARS_MAX = 256
# Written with every heartbeat that carries it, and kept in memory while the job runs.
PROGRESS_BYTES_MAX = 64 << 10
REPORT_MAX = 1_000  # outcomes in one call
OUTCOME_BYTES_MAX = 16 << 20  # the largest value that the store accepts
REPORT_BYTES_MAX = 24 << 20  # of all outcomes in one call; their rows must fit into one batch
ERROR_CODE_CHARS_MAX = 1_024
# Workers that die together may leave thousands of leases; one transaction for all would stop the shard's other calls.
EXPIRED_MAX = 500  # leases ended in one transaction
READ_CHUNK = 64  # jobs read at once: bounds the memory of large payloads

Leased = tuple[list[LeasedTask], list[LeasedRefresh]]


async def lease(core: Core, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0) -> Leased:
    """Leases tasks that are due now; `wait_s` has no effect here, `ShardService` waits."""
    check_text("task_group", task_group, GROUP_CHARS_MAX)
    check_text("worker", worker, WORKER_CHARS_MAX)
    check_number("tasks_max", tasks_max, LEASE_TASKS_MAX, least=1)
    await core.wait_capacity()
    taken: list[str] = []
    try:
        # Outside of the transaction, because it reads: what it pops is in hand, where no other call sees it.
        jobs = await _pop_due_jobs(core, task_group, tasks_max, taken)
        with core.begin_txn() as txn:
            leased = [
                lease_entry(txn, worker, core.queues.tasks.hand[task_id], job)
                for task_id, job in jobs.items()
                if task_id in core.queues.tasks.hand  # else it was cancelled or expedited while its job was read
            ]
            refreshes = _lease_refreshes(txn, task_group, worker)
    except BaseException:
        core.queues.tasks.requeue_all(taken)
        core.on_change()  # wakes other workers, which may lease what was requeued
        raise
    core.queues.tasks.requeue_all(taken)  # those that were popped and not leased
    await core.commit(txn)
    return leased, refreshes


async def _pop_due_jobs(core: Core, task_group: str, tasks_max: int, taken: list[str]) -> dict[str, Job]:
    """Pops due tasks and reads their jobs; `taken` collects the tasks also if a read fails."""
    jobs: dict[str, Job] = {}
    size_bytes = 0
    hand = core.queues.tasks.hand
    while len(jobs) < tasks_max and size_bytes < LEASE_BYTES_MAX:
        now = core.now_ms()
        # In chunks, because the size of a payload is known only after it was read: 1,000 tasks may have 16 GiB.
        chunk: list[str] = []
        while len(chunk) < min(READ_CHUNK, tasks_max - len(jobs)):
            if (task_id := core.queues.tasks.pop_due(task_group, now)) is None:
                break
            chunk.append(task_id)
        taken += chunk
        if not chunk:
            break
        places = [(hand[task_id][1], hand[task_id][2][2]) for task_id in chunk]
        rows = await core.store.get_many([keys.key(keys.JOB, *place) for place in places])
        for task_id, row in zip(chunk, rows, strict=True):
            assert row is not None or task_id not in hand, f"task {task_id} waits for a job that is not there"
            # Tasks beyond the bound stay in hand and are requeued by the caller.
            if row is not None and size_bytes < LEASE_BYTES_MAX:
                jobs[task_id] = decode_job(row)
                size_bytes += len(row)
    return jobs


def lease_entry(txn: ShardTxn, worker: str, taken: tuple[str, str, Entry], job: Job) -> LeasedTask:
    """Leases a task that was popped."""
    group, tenant, (start_at, priority, _, attempt, task_id, relative_attempt, held) = taken
    txn.queues.tasks.remove(task_id, start_at)
    txn.batch.delete(keys.key(keys.TASK, group, start_at, priority, job.id, attempt, tenant))
    task = RunAttempt(task_id, tenant, job.id, attempt, relative_attempt, held)
    return start_attempt(txn, worker, task, job, (JobStatus.SCHEDULED, start_at))


def start_attempt(txn: ShardTxn, worker: str, task: RunAttempt, job: Job, was: StatusIndexKey) -> LeasedTask:
    """Writes the lease, the attempt and the running state."""
    lease_ms = txn.options.lease_ms
    lease = TaskLease(worker, task, job.task_group, txn.now, txn.now + lease_ms, lease_ms)
    txn.put_lease(lease)
    txn.put_attempt(job.tenant, job.id, Attempt(task.attempt, task.id, AttemptStatus.RUNNING, txn.now, worker))
    txn.put_state(job.tenant, job.id, was, JobState(JobStatus.RUNNING, txn.now, task.attempt, task.relative_attempt))
    # The payload stays on disk: thousands of jobs may run at a time.
    txn.queues.leases.add(task.id, RunningLease(lease, lease.expires_at, without_payload(job)))
    return LeasedTask(task, job, lease_ms, is_last(job.retry, task.relative_attempt))


def _lease_refreshes(txn: ShardTxn, task_group: str, worker: str) -> list[LeasedRefresh]:
    leased: list[LeasedRefresh] = []
    due = txn.queues.refreshes.get(task_group)
    while due is not None and len(leased) < REFRESHES_MAX and (taken := due.pop_due(txn.now)) is not None:
        queued = taken[1]
        task = queued.task
        assert isinstance(task, RefreshLimit)
        slot = (task.tenant, task.key)
        txn.unqueue(queued)
        if not txn.queues.slots.is_wanted(slot):
            # The jobs that waited were granted slots before this refresh became due.
            txn.put_floating(slot, replace(txn.queues.floating[slot], is_refreshing=False))
            continue
        lease_ms = txn.options.lease_ms
        # A refresh is leased like an attempt: if its worker dies, the lease expires and another worker refreshes.
        lease = TaskLease(worker, task, task_group, txn.now, txn.now + lease_ms, lease_ms)
        txn.put_lease(lease)
        txn.queues.leases.add(task.id, RunningLease(lease, lease.expires_at))
        leased.append(LeasedRefresh(task, txn.queues.floating[slot], lease_ms))
    if due is not None and not due.items:
        del txn.queues.refreshes[task_group]
    return leased


async def lease_job(core: Core, tenant: str, job: str, worker: str) -> LeasedTask:
    """Leases one job by name. It takes no slots: those it held are released, and its limits are not checked."""
    check_text("worker", worker, WORKER_CHARS_MAX)

    def act(txn: ShardTxn, known: StoredJob) -> LeasedTask:
        if known.state.status != JobStatus.SCHEDULED:
            raise Conflict(f"job cannot be leased: it is {known.state.status.name.lower()}")
        if known.state.waiting_for:
            raise Conflict(f"job cannot be leased: it runs after job {known.state.waiting_for[0]}")
        is_found = dequeue(txn, known.job, known.state, known.queued)
        assert is_found, f"scheduled job {job} has neither a task nor a request"
        state = known.state
        task = RunAttempt(txn.new_id(), tenant, job, state.attempt, state.relative_attempt)
        return start_attempt(txn, worker, task, known.job, known.index_key)

    return await change(core, tenant, job, act)


async def heartbeat(core: Core, worker: str, task_id: str, *, progress: bytes | None = None) -> Heartbeat:
    """Extends the lease, also of a cancelled job: its worker needs time to stop."""
    if progress is not None:
        check_number("the length of progress", len(progress), PROGRESS_BYTES_MAX)
    try:
        running = require_lease(core.queues, task_id, worker)
    except (Conflict, NotFound):
        await core.wait_staged_durable()  # the worker stops its handler at this answer
        raise
    with core.begin_txn() as txn:
        # The worker sends heartbeats by the length that it got; a setting that was lowered since must not expire it.
        expires_at = txn.now + max(txn.options.lease_ms, running.lease.lease_ms)
        running.lease = replace(running.lease, expires_at=expires_at)
        # Never earlier: after recovery the lease may run longer than this heartbeat alone would give it.
        running.expires_at = max(running.expires_at, expires_at)
        txn.put_lease(running.lease)
        if progress is not None and running.job is not None:
            running.progress = progress
            put_running(txn, running)
    cancelled_at = running.cancelled_at
    await core.commit(txn)
    return Heartbeat(cancelled_at)


def put_running(txn: ShardTxn, running: RunningLease) -> None:
    """Writes the state row of a running job after a change."""
    lease, job = running.lease, running.job
    assert job is not None
    assert isinstance(lease.task, RunAttempt)
    state = JobState(
        JobStatus.RUNNING,
        lease.started_at,
        lease.task.attempt,
        lease.task.relative_attempt,
        cancelled_at=running.cancelled_at,
        progress=running.progress,
    )
    txn.put_state(job.tenant, job.id, (JobStatus.RUNNING, lease.started_at), state)


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
    # A running job is indexed under the start of its attempt, see `put_running`.
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
    # Before the failure: a cancelled job is not retried, whatever failure its worker reports.
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
            # A msgpack string, as silo writes it: its clients decode the data of every failure.
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
