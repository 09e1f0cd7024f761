"""Background jobs of the control plane: queued, claimed under a lease, finished once.

A claim takes a job with an expired lease before a new one. A worker finishes a job with the fence of its claim; a
worker that has been replaced is rejected."""

from collections.abc import Mapping, Sequence
from typing import Any

from argosy.base.errors import Conflict, Invalid
from argosy.registry.crud import check_key, check_limit, check_span, check_unique, put_row, require, with_version
from argosy.registry.rows import ControlJob, ControlJobState
from argosy.registry.table import replace_row
from argosy.registry.tables import JOBS
from argosy.registry.transaction import (
    FIND_MAX,
    CountRows,
    Delete,
    Get,
    Put,
    TransactionBody,
    Write,
    commit,
    find,
    get,
    now,
    read_many,
    transaction,
)

LEASE_MS = 30_000  # with a heartbeat every 10 s
LEASE_MS_MAX = 86_400_000
PRIORITY_MAX = 1000
ATTEMPTS = 3
ATTEMPTS_MAX = 100
CANDIDATES = 1  # jobs a claim looks at first; it looks further only if none of them is for it
CHUNKS_MAX = 1000
PRUNE_MAX = 500  # rows one pruning step deletes
_ARRIVAL = 1 << 42  # milliseconds below the priority; enough for the next century


def due(priority: int, created_at: int) -> int:
    """The order of the queue as one number: higher priority first, then arrival."""
    if not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise Invalid(f"a job's priority is -{PRIORITY_MAX} to {PRIORITY_MAX}, not {priority}")
    return (PRIORITY_MAX - priority) * _ARRIVAL + created_at


@transaction
def enqueue(
    job_id: str,
    type: str,
    params: Mapping[str, Any],
    *,
    priority: int = 0,
    not_before: int = 0,
    max_attempts: int = ATTEMPTS,
    dedupe_key: str | None = None,
) -> TransactionBody[ControlJob]:
    """Queues a job; Conflict if the id or a living job's dedupe key is taken."""
    check_key(JOBS, (job_id,))
    if not type or not 1 <= max_attempts <= ATTEMPTS_MAX or not_before < 0:
        raise Invalid(
            f"a job has a type, 1 to {ATTEMPTS_MAX} attempts and a time from 0, "
            f"not {type!r}, {max_attempts} and {not_before}"
        )
    clock = yield from now()
    if (yield from get(JOBS, job_id)) is not None:
        raise Conflict(f"job {job_id!r} already exists")
    job = ControlJob(
        job_id,
        type,
        params,
        ControlJobState.QUEUED,
        due(priority, clock),
        clock,
        priority=priority,
        not_before=not_before,
        max_attempts=max_attempts,
        dedupe_key=dedupe_key,
    )
    yield from check_unique(JOBS, job)
    return (yield from put_row(JOBS, job))


@transaction
def claim(
    worker: str, *, lease_ms: int = LEASE_MS, types: Sequence[str] | None = None
) -> TransactionBody[ControlJob | None]:
    """Claims the next job; None if there is none. Jobs that are out of attempts are failed and skipped."""
    if not worker:
        raise Invalid("a worker has a name")
    check_span("a claim", lease_ms, LEASE_MS_MAX)
    clock = yield from now()
    job, spent = yield from _next(clock, types)
    writes: list[Write] = [
        Put(JOBS, _finish(each, ControlJobState.FAILED, clock, error="out of attempts")) for each in spent
    ]
    if job is None:
        if writes:
            yield from commit(*writes)
        return None
    claimed = replace_row(
        job,
        state=ControlJobState.IN_PROGRESS,
        claimed_by=worker,
        claim_expires_at=clock + lease_ms,
        fence=job.fence + 1,
        attempts=job.attempts + 1,
    )
    done = yield from commit(*writes, Put(JOBS, claimed))
    return with_version(claimed, done.versions[-1])


@transaction
def heartbeat(
    job_id: str, worker: str, fence: int, *, lease_ms: int = LEASE_MS, progress: Mapping[str, Any] | None = None
) -> TransactionBody[bool]:
    """Extends a claim; False when it is lost: stop working."""
    check_span("a claim", lease_ms, LEASE_MS_MAX)
    clock = yield from now()
    job = yield from get(JOBS, job_id)
    if job is None or not _is_held(job, worker, fence, clock):
        return False
    held = replace_row(job, claim_expires_at=clock + lease_ms, progress=job.progress if progress is None else progress)
    yield from commit(Put(JOBS, held))
    return True


@transaction
def complete(job_id: str, worker: str, fence: int, result: Mapping[str, Any] | None = None) -> TransactionBody[bool]:
    """Finishes a claimed job; False if the claim is not this one."""
    clock = yield from now()
    job = yield from get(JOBS, job_id)
    if job is None or not _is_held(job, worker, fence, None):
        return False
    done = _finish(job, ControlJobState.COMPLETED, clock)
    yield from commit(Put(JOBS, done if result is None else replace_row(done, progress=result)))
    return True


@transaction
def fail(job_id: str, worker: str, fence: int, error: str, *, retry_at: int | None = None) -> TransactionBody[bool]:
    """Ends an attempt without success: back into the queue if `retry_at` is given and attempts are left."""
    clock = yield from now()
    job = yield from get(JOBS, job_id)
    if job is None or not _is_held(job, worker, fence, None):
        return False
    if retry_at is None or job.attempts >= job.max_attempts:
        yield from commit(Put(JOBS, _finish(job, ControlJobState.FAILED, clock, error=error)))
    else:
        yield from commit(Put(JOBS, replace_row(_requeue(job), not_before=retry_at, error=error)))
    return True


@transaction
def cancel(job_id: str) -> TransactionBody[ControlJob]:
    """Cancels a job in any state; its worker is rejected when it reports."""
    clock = yield from now()
    job = yield from require(JOBS, job_id)
    if job.state.is_terminal:
        return job
    return (yield from put_row(JOBS, _finish(job, ControlJobState.CANCELED, clock)))


@transaction
def split(
    parent_id: str, worker: str, fence: int, chunks: Sequence[Mapping[str, Any]]
) -> TransactionBody[list[ControlJob]]:
    """Queues the parts of a claimed job, and writes into the parent that it has been split: all at once, and once."""
    if not 1 <= len(chunks) <= CHUNKS_MAX:
        raise Invalid(f"a job is split into 1 to {CHUNKS_MAX} chunks, not {len(chunks)}")
    clock = yield from now()
    parent = yield from get(JOBS, parent_id)
    if parent is None or not _is_held(parent, worker, fence, clock):
        raise Conflict(f"job {parent_id!r} is not claimed by {worker!r} under fence {fence}")
    if parent.total_chunks is not None:
        raise Conflict(f"job {parent_id!r} has been split already, into {parent.total_chunks} chunks")
    parts = [
        ControlJob(
            f"{parent_id}.{number}",
            parent.type,
            params,
            ControlJobState.QUEUED,
            due(parent.priority, clock + number),
            clock,
            priority=parent.priority,
            max_attempts=parent.max_attempts,
            parent_job_id=parent_id,
            chunk_index=number,
            total_chunks=len(chunks),
        )
        for number, params in enumerate(chunks)
    ]
    taken = yield from read_many(*(Get(JOBS, (part.job_id,)) for part in parts))
    if any(taken):
        raise Conflict(f"job {next(filter(None, taken)).job_id!r} already exists: {parent_id!r} cannot be split")
    divided = replace_row(parent, total_chunks=len(chunks))
    yield from commit(Put(JOBS, divided), *(Put(JOBS, part) for part in parts))
    return [with_version(part, 1) for part in parts]


@transaction
def reap() -> TransactionBody[int]:
    """Puts jobs whose claim has expired back into the queue, or fails them if they are out of attempts."""
    clock = yield from now()
    expired = yield from find(JOBS, "claims", ControlJobState.IN_PROGRESS, until=clock, limit=PRUNE_MAX)
    if expired:
        is_spent = {job.job_id: job.attempts >= job.max_attempts for job in expired}
        yield from commit(
            *(
                Put(JOBS, _finish(job, ControlJobState.FAILED, clock, error="out of attempts"))
                if is_spent[job.job_id]
                else Put(JOBS, _requeue(job))
                for job in expired
            )
        )
    return len(expired)


@transaction
def prune(before: int) -> TransactionBody[int]:
    """Deletes a batch of jobs that ended before a time; call it until it returns 0."""
    ended: list[ControlJob] = []
    for state in (ControlJobState.COMPLETED, ControlJobState.FAILED, ControlJobState.CANCELED):
        ended += yield from find(JOBS, "finished", state, until=before - 1, limit=PRUNE_MAX - len(ended))
        if len(ended) >= PRUNE_MAX:
            break
    if ended:
        yield from commit(*(Delete(JOBS, job) for job in ended))
    return len(ended)


@transaction
def count(state: ControlJobState) -> TransactionBody[int]:
    """How many jobs are in a state: the queue's depth for an autoscaler."""
    (number,) = yield from read_many(CountRows(JOBS, "state", (state,)))
    counted: int = number
    return counted


@transaction
def read(job_id: str) -> TransactionBody[ControlJob | None]:
    check_key(JOBS, (job_id,))
    return (yield from get(JOBS, job_id))


@transaction
def list_jobs(
    *, state: ControlJobState | None = None, type: str | None = None, parent: str | None = None, limit: int = FIND_MAX
) -> TransactionBody[list[ControlJob]]:
    """Jobs of a parent in the order of their chunks, living jobs in the order of the queue, others the latest first.

    A type is looked for among the first FIND_MAX of them.
    """
    check_limit(limit)
    if parent is not None:
        jobs = yield from find(JOBS, "parent", parent)
    elif state is None:
        jobs = yield from find(JOBS, "all", is_newest_first=True)
    elif state.is_terminal:
        jobs = yield from find(JOBS, "finished", state, is_newest_first=True)
    else:
        jobs = yield from find(JOBS, "state", state)
    return [job for job in jobs if state in (None, job.state) and type in (None, job.type)][:limit]


def _next(clock: int, types: Sequence[str] | None) -> TransactionBody[tuple[ControlJob | None, list[ControlJob]]]:
    """The job to claim now, and those met on the way that are out of attempts.

    Jobs that must wait, or are for others, stand in the same queue. However many there are, they hide no job behind
    them: pages are read until one is found.
    """
    spent: list[ControlJob] = []
    page = yield from find(JOBS, "claims", ControlJobState.IN_PROGRESS, until=clock, limit=CANDIDATES)
    size, after = CANDIDATES, None
    while True:
        for job in page:
            if job.not_before <= clock and (types is None or job.type in types) and job not in spent:
                if job.attempts < job.max_attempts:
                    return job, spent
                spent.append(job)
        if size == 0 or len(spent) >= PRUNE_MAX:
            return None, spent
        page = yield from find(JOBS, "state", ControlJobState.QUEUED, after=after, limit=size)
        size, after = _further(page, size)


def _further(page: list[ControlJob], size: int) -> tuple[int, int | None]:
    """How much to read after a page, and from where; nothing after the last one.

    Jobs that arrived in one millisecond are equal in order, and a page may end between them: they are read again,
    unless they fill a page by themselves.
    """
    if len(page) < size:
        return 0, None
    first, last = page[0].due, page[-1].due
    return FIND_MAX, last if first == last and size == FIND_MAX else last - 1


def _is_held(job: ControlJob, worker: str, fence: int, clock: int | None) -> bool:
    """A finished piece of work counts even if the lease has just run out, as long as nobody else has taken the job."""
    is_claim = job.state is ControlJobState.IN_PROGRESS and (job.claimed_by, job.fence) == (worker, fence)
    return is_claim and (clock is None or (job.claim_expires_at or 0) > clock)


def _requeue(job: ControlJob) -> ControlJob:
    return replace_row(job, state=ControlJobState.QUEUED, claimed_by=None, claim_expires_at=None)


def _finish(job: ControlJob, state: ControlJobState, clock: int, error: str | None = None) -> ControlJob:
    """Ended jobs give up their claim and their dedupe key."""
    return replace_row(
        job,
        state=state,
        claimed_by=None,
        claim_expires_at=None,
        dedupe_key=None,
        finished_at=clock,
        error=error if error is not None else job.error,
    )
