"""Enqueueing: one batch per call; each job is enqueued whole or rejected, with an answer in its place.

An id that exists is a Conflict: ids make a retried enqueue idempotent, because clients choose them before the first
attempt and take the Conflict of their own id for success. A unique key that is taken is not an error: the answer is the
id of the job that has it. A job with dependencies waits without a task; if one of them has already ended without
success, the job fails at once with AFTER_FAILED, as it would when that dependency ended later.
"""

from collections.abc import Sequence

from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.jobs import keys
from argosy.jobs.model import AFTER_FAILED, Job, JobState, JobStatus, NewJob
from argosy.jobs.shard.completion import claim, fail
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.job_reader import too_many_changes
from argosy.jobs.shard.limit_chain import begin
from argosy.jobs.shard.queue_state import JobKey
from argosy.jobs.shard.rows import decode_state, index_value
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import check_job

ENQUEUE_MAX = 1_000  # jobs in one call
# A transaction runs without an await, so its size is how long the shard's other calls wait; a larger call takes
# several.
TXN_BYTES_MAX = 16 << 20
TXN_ROWS_MAX = 50_000

Answer = str | ArgosyError


class RelatedJobs:
    """Rows that new jobs depend on: ids that exist, and the status of their dependencies."""

    def __init__(self) -> None:
        self.taken: set[JobKey] = set()
        self.statuses: dict[JobKey, JobStatus] = {}


async def enqueue(core: Core, jobs: Sequence[NewJob]) -> list[Answer]:
    if len(jobs) > ENQUEUE_MAX:
        raise Invalid(f"at most {ENQUEUE_MAX} jobs may be enqueued in one call; got {len(jobs)}")
    # Before the first read, because a transaction must not wait: here the caller waits for a slow disk.
    await core.wait_capacity()
    # A job that is wrong in itself is answered at once and does not affect the others.
    answers: list[Answer | None] = [_find_error(new) for new in jobs]
    for _ in range(READS_MAX + len(jobs)):  # each round enqueues at least one job, or one of its jobs has changed
        left = [at for at, answer in enumerate(answers) if answer is None]
        if not left:
            break
        await _enqueue_some(core, [(at, jobs[at]) for at in left], answers)
    return [too_many_changes(jobs[at].id) if answer is None else answer for at, answer in enumerate(answers)]


async def _enqueue_some(core: Core, some: list[tuple[int, NewJob]], answers: list[Answer | None]) -> None:
    """Enqueues the jobs whose related rows did not change while they were read."""
    mentioned = {key for _, new in some for key in mentioned_jobs(new)}
    with core.changes.track(mentioned) as changed:
        related = await read_related(core, [new for _, new in some])
        core.check_open()
        is_all_new = True
        with core.begin_txn() as txn:
            for at, new in some:
                # Past the bounds, the remaining jobs are read again: other calls run between two transactions.
                is_full = txn.batch.size_bytes >= TXN_BYTES_MAX or len(txn.batch) >= TXN_ROWS_MAX
                # A job whose related rows changed while they were read is left for the next round.
                if not is_full and not changed.intersection(mentioned_jobs(new)):
                    answers[at], is_new = put(txn, new, related)
                    is_all_new = is_all_new and is_new
    await core.commit(txn)
    if not is_all_new:
        # The answer names a job of another call, whose rows may be staged only: a crash must not undo the answer.
        await core.wait_staged_durable()


def _find_error(new: NewJob) -> ArgosyError | None:
    try:
        check_job(new)
    except Invalid as error:
        return error
    return None


def mentioned_jobs(new: NewJob) -> list[JobKey]:
    named = [(new.tenant, new.id)] if new.id else []
    return named + [(new.tenant, before) for before in new.after]


async def read_related(core: Core, jobs: Sequence[NewJob]) -> RelatedJobs:
    related = RelatedJobs()
    # A job without an id and without dependencies, the common case, reads nothing: its id is random and new.
    named = list({(new.tenant, new.id): None for new in jobs if new.id})
    if named:
        rows = await core.store.get_many([keys.key(keys.JOB, *each) for each in named])
        related.taken = {each for each, row in zip(named, rows, strict=True) if row is not None}
    befores = list({(new.tenant, before): None for new in jobs for before in new.after})
    if befores:
        # Both kinds for each: the id does not show which row exists.
        kinds = (keys.LIVE, keys.DONE)
        rows = await core.store.get_many([keys.key(kind, *each) for each in befores for kind in kinds])
        for at, each in enumerate(befores):
            row = rows[2 * at] or rows[2 * at + 1]
            if row is not None:
                related.statuses[each] = decode_state(row).status
    return related


def put(txn: ShardTxn, new: NewJob, related: RelatedJobs, *, schedule: str = "") -> tuple[Answer, bool]:
    """Enqueues one job; returns its id or an error, and whether the job is new."""
    if new.id and (new.tenant, new.id) in related.taken:
        return Conflict(f"job {new.id} already exists"), False
    # Memory has all claims, so a unique key needs no read, and two jobs of one call see each other's.
    if new.unique_key and (held := _job_with_key(txn, new)) is not None:
        return held, False
    missing = [before for before in new.after if (new.tenant, before) not in related.statuses]
    # A dependency must exist already: one that is enqueued later would leave the job waiting for ever if it never
    # comes.
    if missing:
        return NotFound(f"job {missing[0]} not found; job {new.id or 'without id'} is to run after it"), False
    job = job_of(new, id=new.id or txn.new_id(), now=txn.now, schedule=schedule)
    txn.put_job(job)
    put_index(txn, job)
    if job.unique_key:
        claim(txn, job, txn.now + new.unique_for_ms if new.unique_for_ms else 0)
    status = _start(txn, job, related)
    # For the jobs behind it in the same call.
    related.taken.add((job.tenant, job.id))
    related.statuses[job.tenant, job.id] = status
    return job.id, True


def job_of(new: NewJob, *, id: str, now: int, schedule: str = "") -> Job:
    return Job(
        id=id,
        tenant=new.tenant,
        task_group=new.task_group,
        priority=new.priority,
        enqueued_at=now,
        start_at=new.start_at_ms if new.start_at_ms > 0 else now,
        payload=new.payload,
        retry=new.retry,
        limits=new.limits,
        metadata=dict(new.metadata),
        unique_key=new.unique_key,
        after=new.after,
        retention_ms=new.retention_ms,
        trace=new.trace,
        schedule=schedule,
    )


def put_index(txn: ShardTxn, job: Job) -> None:
    for key, value in job.metadata.items():
        txn.batch.put(keys.key(keys.METADATA, job.tenant, key, index_value(value), job.id), b"")


def _job_with_key(txn: ShardTxn, new: NewJob) -> str | None:
    held = txn.queues.claims.get((new.tenant, new.unique_key))
    if held is None or (held.is_done and held.until <= txn.now):
        return None
    return held.job


def _start(txn: ShardTxn, job: Job, related: RelatedJobs) -> JobStatus:
    befores = {before: related.statuses[job.tenant, before] for before in job.after}
    waiting_for = tuple(before for before, status in befores.items() if not status.is_final)
    state = JobState(JobStatus.SCHEDULED, txn.now, 1, 1, job.start_at, waiting_for=waiting_for)
    # Before the job is queued or waits: it can never run.
    if any(status.is_final and status != JobStatus.SUCCEEDED for status in befores.values()):
        fail(txn, job, None, state, AFTER_FAILED)
        return JobStatus.FAILED
    txn.put_state(job.tenant, job.id, None, state)
    for before in waiting_for:
        txn.batch.put(keys.key(keys.AFTER, job.tenant, before, job.id), b"")
        txn.queues.waiters.setdefault((job.tenant, before), {})[job.id] = None
    if not waiting_for:
        begin(txn, job, state)
    return JobStatus.SCHEDULED
