"""Background jobs of the control plane: queued, claimed under a lease, finished once.

A claim takes a job with an expired lease before a new one. A worker finishes a job with the *fence* of its claim, which
grows with every claim: a worker whose job was claimed by another one is rejected, even if it is the same worker."""

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

# A worker may miss two heartbeats in a row before its lease ends.
LEASE_MS = 30_000  # with a heartbeat every 10 s
LEASE_MS_MAX = 86_400_000
PRIORITY_MAX = 1000
ATTEMPTS = 3
ATTEMPTS_MAX = 100
# Usually the first job can be claimed, so one row is all that a claim has to read.
CANDIDATES = 1  # jobs that a claim reads first; it reads more only if none of them can be claimed
CHUNKS_MAX = 1000
PRUNE_MAX = 500  # rows one pruning step deletes
_ARRIVAL = 1 << 42  # milliseconds of arrival below one step of priority; enough until the year 2109


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
    """Queues a job. Raises `Conflict` if the id exists, or an unfinished job has the dedupe key."""
    check_key(JOBS, (job_id,))
    if not type or not 1 <= max_attempts <= ATTEMPTS_MAX or not_before < 0:
        raise Invalid(
            f"a job needs a type, 1 to {ATTEMPTS_MAX} attempts and a time from 0, "
            f"not {type!r}, {max_attempts} and {not_before}"
        )
    # The store's clock: it decides about leases, so it also orders the queue.
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
    """Claims the next job. Returns None if there is none. Jobs without attempts left are failed and skipped."""
    if not worker:
        raise Invalid("a worker needs a name")
    check_span("a claim", lease_ms, LEASE_MS_MAX)
    clock = yield from now()
    # Jobs without attempts left are failed by the claim that meets them, so that no separate process has to find them.
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
    """Extends a claim. Returns False if it is lost; the worker stops."""
    check_span("a claim", lease_ms, LEASE_MS_MAX)
    clock = yield from now()
    job = yield from get(JOBS, job_id)
    if job is None or not _is_held(job, worker, fence, clock):
        return False
    extended = replace_row(
        job, claim_expires_at=clock + lease_ms, progress=job.progress if progress is None else progress
    )
    yield from commit(Put(JOBS, extended))
    return True


@transaction
def complete(job_id: str, worker: str, fence: int, result: Mapping[str, Any] | None = None) -> TransactionBody[bool]:
    """Finishes a claimed job. Returns False if it is no longer claimed under this fence."""
    clock = yield from now()
    job = yield from get(JOBS, job_id)
    # Work that is done is accepted after its lease as well, as long as the fence is still this worker's.
    if job is None or not _is_held(job, worker, fence, None):
        return False
    done = _finish(job, ControlJobState.COMPLETED, clock)
    yield from commit(Put(JOBS, done if result is None else replace_row(done, progress=result)))
    return True


@transaction
def fail(job_id: str, worker: str, fence: int, error: str, *, retry_at: int | None = None) -> TransactionBody[bool]:
    """Ends an attempt that failed: the job is queued again if `retry_at` is given and attempts are left."""
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
    """Queues the parts of a claimed job and records the split in the parent, in one commit; a job is split only
    once."""
    if not 1 <= len(chunks) <= CHUNKS_MAX:
        raise Invalid(f"a job is split into 1 to {CHUNKS_MAX} chunks, not {len(chunks)}")
    clock = yield from now()
    parent = yield from get(JOBS, parent_id)
    if parent is None or not _is_held(parent, worker, fence, clock):
        raise Conflict(f"job {parent_id!r} is not claimed by {worker!r} under fence {fence}")
    if parent.total_chunks is not None:
        raise Conflict(f"job {parent_id!r} was already split into {parent.total_chunks} chunks")
    parts = [
        ControlJob(
            f"{parent_id}.{number}",
            parent.type,
            params,
            ControlJobState.QUEUED,
            # Consecutive times keep the chunks in their order, and behind jobs that were queued before them.
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
    existing = yield from read_many(*(Get(JOBS, (part.job_id,)) for part in parts))
    # Checked before the commit, so that the error names the job and the split.
    if any(existing):
        raise Conflict(f"job {next(filter(None, existing)).job_id!r} already exists: {parent_id!r} cannot be split")
    split_parent = replace_row(parent, total_chunks=len(chunks))
    yield from commit(Put(JOBS, split_parent), *(Put(JOBS, part) for part in parts))
    return [with_version(part, 1) for part in parts]


@transaction
def reap() -> TransactionBody[int]:
    """Queues jobs whose claim has expired again, or fails them if they have no attempts left."""
    clock = yield from now()
    expired = yield from find(JOBS, "claims", ControlJobState.IN_PROGRESS, until=clock, limit=PRUNE_MAX)
    if expired:
        # A job whose workers keep disappearing must end, too.
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
    """Number of jobs in a state: the depth of the queue, for an autoscaler."""
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
    """Jobs of a parent in the order of their chunks, unfinished jobs in the order of the queue, others latest first.

    A filter by type applies to the first FIND_MAX of them.
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
    """The job to claim now, and the jobs before it that have no attempts left.

    Jobs that must wait, or have other types, are in the same queue. However many there are, they never hide a job
    behind them: pages are read until one is found.
    """
    spent: list[ControlJob] = []
    # Expired claims first, as the design requires: their jobs have been waiting since before they were claimed.
    page = yield from find(JOBS, "claims", ControlJobState.IN_PROGRESS, until=clock, limit=CANDIDATES)
    size, after = CANDIDATES, None
    while True:
        for job in page:
            # `job not in spent`: pages overlap where jobs are equal in order.
            if job.not_before <= clock and (types is None or job.type in types) and job not in spent:
                if job.attempts < job.max_attempts:
                    return job, spent
                spent.append(job)
        # The bound keeps the commit small when a worker that crashes on every job has spent thousands.
        if size == 0 or len(spent) >= PRUNE_MAX:
            return None, spent
        page = yield from find(JOBS, "state", ControlJobState.QUEUED, after=after, limit=size)
        size, after = _next_page(page, size)


def _next_page(page: list[ControlJob], size: int) -> tuple[int, int | None]:
    """Size and start of the page after this one; size 0 after the last one.

    Jobs that arrived in one millisecond are equal in order, and a page may end between them. They are read again,
    unless they fill a page by themselves.
    """
    if len(page) < size:
        return 0, None
    first, last = page[0].due, page[-1].due
    return FIND_MAX, last if first == last and size == FIND_MAX else last - 1


def _is_held(job: ControlJob, worker: str, fence: int, clock: int | None) -> bool:
    """Whether the worker has the claim. With `clock` None an expired claim counts, too: finished work is accepted as
    long as no other worker has claimed the job."""
    is_claim = job.state is ControlJobState.IN_PROGRESS and (job.claimed_by, job.fence) == (worker, fence)
    return is_claim and (clock is None or (job.claim_expires_at or 0) > clock)


def _requeue(job: ControlJob) -> ControlJob:
    return replace_row(job, state=ControlJobState.QUEUED, claimed_by=None, claim_expires_at=None)


def _finish(job: ControlJob, state: ControlJobState, clock: int, error: str | None = None) -> ControlJob:
    """An ended job gives up its claim and its dedupe key, so that the next one can be queued."""
    return replace_row(
        job,
        state=state,
        claimed_by=None,
        claim_expires_at=None,
        dedupe_key=None,
        finished_at=clock,
        error=error if error is not None else job.error,
    )
