"""What follows when a job is done: its state, how long it is kept, its unique key, those who wait for it.

Also how a job that has not run is taken back from wherever it waits.
"""

from msgspec.structs import replace

from argosy.jobs import keys
from argosy.jobs.model import (
    Attempt,
    AttemptStatus,
    Job,
    JobState,
    JobStatus,
    QueuedTask,
    RateLimit,
    RefreshLimit,
    SlotRequest,
)
from argosy.jobs.shard.queue_state import UniqueClaim
from argosy.jobs.shard.rows import encode, expiry_at
from argosy.jobs.shard.txn import ShardTxn, StatusIndexKey


def end(txn: ShardTxn, job: Job, was: StatusIndexKey | None, state: JobState) -> None:
    """Makes the final state true."""
    assert state.status.is_final, f"{state.status.name} is not final"
    txn.put_state(job.tenant, job.id, was, state)
    schedule_expiry(txn, job, state)
    _release_claim(txn, job)
    if (job.tenant, job.id) in txn.queues.waiters:
        txn.queues.ended[job.tenant, job.id] = None


def fail(txn: ShardTxn, job: Job, was: StatusIndexKey | None, state: JobState, code: str) -> None:
    """Ends a job that could not even be tried; an attempt that began and ended now says why."""
    txn.put_attempt(
        job.tenant,
        job.id,
        Attempt(state.attempt, "", AttemptStatus.FAILED, txn.now, finished_at=txn.now, error_code=code),
    )
    end(txn, job, was, JobState(JobStatus.FAILED, txn.now, state.attempt, state.relative_attempt, is_dead=True))


def schedule_expiry(txn: ShardTxn, job: Job, state: JobState) -> None:
    when = expiry_at(job, state.changed_at, txn.options.retention_ms)
    if when:
        txn.batch.put(keys.key(keys.EXPIRY, when, job.tenant, job.id), b"")
        txn.queues.expiry_at = when if txn.queues.expiry_at is None else min(when, txn.queues.expiry_at)


def keep(txn: ShardTxn, job: Job, state: JobState) -> None:
    """A job that was done is not forgotten: it is to be done again."""
    if when := expiry_at(job, state.changed_at, txn.options.retention_ms):
        txn.batch.delete(keys.key(keys.EXPIRY, when, job.tenant, job.id))


def claim(txn: ShardTxn, job: Job, until: int) -> None:
    """Takes the job's unique key for it."""
    place = (job.tenant, job.unique_key)
    txn.queues.claims[place] = UniqueClaim(job.id, until)
    txn.queues.stale_claims.remove(claim_id(place))
    txn.batch.put(keys.key(keys.UNIQUE, *place), encode((job.id, until, False)))


def drop_claim(txn: ShardTxn, place: tuple[str, str]) -> None:
    txn.queues.claims.pop(place, None)
    txn.queues.stale_claims.remove(claim_id(place))
    txn.batch.delete(keys.key(keys.UNIQUE, *place))


def dequeue(txn: ShardTxn, job: Job, state: JobState, queued: QueuedTask | None) -> bool:
    """Removes a scheduled job from wherever it waits and frees its slots; `queued` is its task, if it has one.

    Whether there was anything to remove.
    """
    cancel_dependencies(txn, job, state)
    if queued is not None:
        task = queued.task
        assert not isinstance(task, RefreshLimit)
        txn.unqueue(queued)
        txn.release(job.tenant, task.held, task.id)
        return True
    request = find_parked(txn, job, state)
    if request is not None:
        txn.unpark((job.tenant, request.key), job.id, state.attempt)
        txn.release(job.tenant, request.held, request.task_id)
    return request is not None or bool(state.waiting_for)


def find_parked(txn: ShardTxn, job: Job, state: JobState) -> SlotRequest | None:
    """The request with which a scheduled job waits for a slot."""
    for limit in job.limits:
        if not isinstance(limit, RateLimit):
            waiting = txn.queues.slots.waiting.get((job.tenant, limit.key))
            if waiting is not None and (request := waiting.requests.get((job.id, state.attempt))) is not None:
                return request
    return None


def cancel_dependencies(txn: ShardTxn, job: Job, state: JobState) -> None:
    """Strikes a job from the lists of those it was to run after."""
    for before in state.waiting_for:
        txn.batch.delete(keys.key(keys.AFTER, job.tenant, before, job.id))
        waiters = txn.queues.waiters.get((job.tenant, before))
        if waiters is not None:
            waiters.pop(job.id, None)
            if not waiters:
                del txn.queues.waiters[job.tenant, before]
                txn.queues.ended.pop((job.tenant, before), None)


def _release_claim(txn: ShardTxn, job: Job) -> None:
    """A job that is done keeps its unique key only for the rest of the time it asked for."""
    place = (job.tenant, job.unique_key)
    claim = txn.queues.claims.get(place) if job.unique_key else None
    if claim is None or claim.job != job.id:
        return
    if claim.until <= txn.now:
        drop_claim(txn, place)
        return
    claim.is_done = True
    txn.batch.put(keys.key(keys.UNIQUE, *place), encode((job.id, claim.until, True)))
    txn.queues.stale_claims.push(claim.until, claim_id(place), place)


def claim_id(place: tuple[str, str]) -> str:
    """One text for tenant and unique key; the length keeps two pairs from reading alike."""
    return f"{len(place[0])}:{place[0]}{place[1]}"


def to_rescheduled(state: JobState, *, now: int, start_at: int, attempt: int, relative_attempt: int) -> JobState:
    """The state of a job that is to be tried again."""
    return replace(
        state,
        status=JobStatus.SCHEDULED,
        changed_at=now,
        attempt=attempt,
        relative_attempt=relative_attempt,
        next_start_at=start_at,
        cancelled_at=0,
        waiting_for=(),
        progress=b"",
        is_dead=False,
    )
