"""Import of jobs from another system with their attempts; a job may be imported again with further attempts."""

from collections.abc import Sequence

from msgspec.structs import replace

from argosy.base.errors import ArgosyError, Conflict, Invalid
from argosy.jobs import keys
from argosy.jobs.model import PAYLOAD_BYTES_MAX, Attempt, AttemptStatus, ImportedJob, Job, JobState, JobStatus
from argosy.jobs.shard.completion import cancel_expiry, dequeue, end
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.enqueue import ENQUEUE_MAX, job_of, put_index
from argosy.jobs.shard.job_reader import ATTEMPTS_SHOWN_MAX, StoredJob, attempts, read, too_many_changes
from argosy.jobs.shard.lease_tasks import ERROR_CODE_CHARS_MAX
from argosy.jobs.shard.limit_chain import begin
from argosy.jobs.shard.rows import index_value
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import TIME_MS_MAX, check_job, check_number, check_text

Answer = JobStatus | ArgosyError


async def import_jobs(core: Core, jobs: Sequence[ImportedJob]) -> list[Answer]:
    """Answers each job in its place. A job that runs here rejects the whole call: its sender's data is out of date."""
    if len(jobs) > ENQUEUE_MAX:
        raise Invalid(f"at most {ENQUEUE_MAX} jobs may be imported in one call; got {len(jobs)}")
    # Checked for all before any is imported: a running job would get a second task (JOB-2).
    for imported in jobs:
        if core.queues.leases.of_job(imported.job.tenant, imported.job.id) is not None:
            await core.wait_staged_durable()
            raise Conflict(f"job {imported.job.id} is running; import it again when it has finished")
    answers: list[Answer] = []
    # One transaction each: an imported job has up to 1,000 attempts with their data.
    for imported in jobs:
        await core.wait_capacity()
        answers.append(await _import(core, imported))
    return answers


async def _import(core: Core, imported: ImportedJob) -> Answer:
    try:
        _check(imported)
        return await _import_one(core, imported)
    except (Invalid, Conflict) as error:
        await core.wait_staged_durable()
        return error


async def _import_one(core: Core, imported: ImportedJob) -> JobStatus:
    place = (imported.job.tenant, imported.job.id)
    for _ in range(READS_MAX):
        with core.changes.track([place]) as changed:
            known = await read(core, *place)
            tried = await attempts(core, *place)
            if changed:
                continue
            _check_adds_attempts(imported, known, tried)
            with core.begin_txn() as txn:
                status = _put(txn, imported, known)
        await core.commit(txn)
        return status
    raise too_many_changes(imported.job.id)


def _check(imported: ImportedJob) -> None:
    check_job(imported.job)
    if not imported.job.id:
        raise Invalid("an imported job must have an id")
    if imported.job.after or imported.job.unique_key:
        raise Invalid("an imported job can have neither a unique key nor jobs to run after")
    if len(imported.attempts) > ATTEMPTS_SHOWN_MAX:
        raise Invalid(f"a job may be imported with {ATTEMPTS_SHOWN_MAX} attempts; got {len(imported.attempts)}")
    check_number("enqueued_at", imported.enqueued_at, TIME_MS_MAX)
    # All rows of one job go into one batch.
    if sum(map(_size, imported.attempts)) > PAYLOAD_BYTES_MAX:
        raise Invalid(f"the attempts of an imported job may take {PAYLOAD_BYTES_MAX} bytes")
    for attempt in imported.attempts:
        for name in ("started_at", "finished_at"):
            check_number(name, getattr(attempt, name), TIME_MS_MAX)
        for name in ("task_id", "worker", "error_code"):
            check_text(name, getattr(attempt, name), ERROR_CODE_CHARS_MAX, may_be_empty=True)
    if any(attempt.status == AttemptStatus.RUNNING for attempt in imported.attempts):
        raise Invalid("the attempts of an imported job must all be done")
    if any(attempt.status != AttemptStatus.FAILED for attempt in imported.attempts[:-1]):
        raise Invalid("all attempts of an imported job but the last must have failed")


def _check_adds_attempts(imported: ImportedJob, known: StoredJob | None, tried: tuple[Attempt, ...]) -> None:
    if known is None:
        return
    # The other system goes on working while it is migrated, so a job may be imported again with more attempts. Once the
    # job has run here, or the imports disagree about the past, this system's history is the right one.
    if known.state.status in (JobStatus.RUNNING, JobStatus.SUCCEEDED):
        raise Conflict(f"job {known.job.id} is {known.state.status.name.lower()} and cannot be imported again")
    if len(imported.attempts) <= len(tried) or not all(map(_is_same, imported.attempts, tried)):
        raise Conflict(f"an import of job {known.job.id} must repeat its {len(tried)} attempts and add at least one")


def _size(attempt: Attempt) -> int:
    return len(attempt.result or b"") + len(attempt.error_data)


def _is_same(given: Attempt, stored: Attempt) -> bool:
    return (given.status, given.started_at, given.finished_at) == (stored.status, stored.started_at, stored.finished_at)


def _put(txn: ShardTxn, imported: ImportedJob, known: StoredJob | None) -> JobStatus:
    was = known.index_key if known is not None else None
    if known is not None:
        # Its task, slots and index rows are those of the earlier import.
        _remove_known(txn, known)
    # A job that was due in the other system is due here, at its import: its age must not put it before all others.
    job = job_of(imported.job, id=imported.job.id, now=imported.enqueued_at or txn.now)
    if imported.job.start_at_ms <= 0:
        job = replace(job, start_at=txn.now)
    txn.put_job(job)
    put_index(txn, job)
    for number, attempt in enumerate(imported.attempts, 1):
        txn.put_attempt(job.tenant, job.id, replace(attempt, number=number))
    state = _state(imported, job, txn.now)
    if state.status.is_final:
        end(txn, job, was, state)
    else:
        txn.put_state(job.tenant, job.id, was, state)
        begin(txn, job, state)
    return state.status


def _remove_known(txn: ShardTxn, known: StoredJob) -> None:
    if known.state.status == JobStatus.SCHEDULED:
        dequeue(txn, known.job, known.state, known.queued)
    else:
        cancel_expiry(txn, known.job, known.state)
    for key, value in known.job.metadata.items():
        txn.batch.delete(keys.key(keys.METADATA, known.job.tenant, key, index_value(value), known.job.id))


def _state(imported: ImportedJob, job: Job, now: int) -> JobState:
    count = len(imported.attempts)
    last = imported.attempts[-1].status if imported.attempts else None
    if last == AttemptStatus.SUCCEEDED:
        return JobState(JobStatus.SUCCEEDED, now, count, count)
    if last == AttemptStatus.CANCELLED:
        return JobState(JobStatus.CANCELLED, now, count, count, cancelled_at=now)
    # The retry policy counts the imported attempts, as if they had been made here.
    if count and count > (job.retry.retry_count if job.retry is not None else 0):
        return JobState(JobStatus.FAILED, now, count, count, is_dead=True)
    return JobState(JobStatus.SCHEDULED, now, count + 1, count + 1, job.start_at)
