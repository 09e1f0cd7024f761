"""How a job ends or runs again: final states, delays before retries, unique keys, and the jobs that depend on it.

A job that ends releases what it holds (its unique key, its place in the expiry index), and each job that runs after it
continues, or fails with it. The rows that list the dependents are deleted only after a dependent has been handled, so a
crash in between repeats the step.
"""

from msgspec.structs import replace

from argosy.base.clock import Random
from argosy.jobs import keys
from argosy.jobs.model import (
    AFTER_FAILED,
    Attempt,
    AttemptStatus,
    Job,
    JobState,
    JobStatus,
    QueuedTask,
    RateLimit,
    RateLimitRetry,
    RefreshLimit,
    RetryPolicy,
    SlotRequest,
)
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.job_reader import StoredJob, read
from argosy.jobs.shard.limit_chain import begin
from argosy.jobs.shard.queue_state import JobKey, UniqueClaim
from argosy.jobs.shard.rows import decode_state, encode, expiry_at
from argosy.jobs.shard.txn import ShardTxn, StatusIndexKey


def end(txn: ShardTxn, job: Job, was: StatusIndexKey | None, state: JobState) -> None:
    """Writes the final state and what follows from it."""
    # Every way to end a job comes through here, so none of them can forget the key, the expiry or the dependents.
    assert state.status.is_final, f"{state.status.name} is not final"
    txn.put_state(job.tenant, job.id, was, state)
    schedule_expiry(txn, job, state)
    _release_claim(txn, job)
    if (job.tenant, job.id) in txn.queues.waiters:
        txn.queues.ended[job.tenant, job.id] = None  # the next tick handles them: they may be thousands


def fail(txn: ShardTxn, job: Job, was: StatusIndexKey | None, state: JobState, code: str) -> None:
    """Fails a job that was never run; an attempt without duration records the reason.

    Clients read the error code of a failed job from its last attempt, so there has to be one.
    """
    txn.put_attempt(
        job.tenant,
        job.id,
        Attempt(state.attempt, "", AttemptStatus.FAILED, txn.now, finished_at=txn.now, error_code=code),
    )
    end(txn, job, was, JobState(JobStatus.FAILED, txn.now, state.attempt, state.relative_attempt, is_dead=True))


def schedule_expiry(txn: ShardTxn, job: Job, state: JobState) -> None:
    when = expiry_at(job, state.changed_at, txn.options.retention_ms)
    # The index is ordered by time: the tick finds what has expired without reading jobs.
    if when:
        txn.batch.put(keys.key(keys.EXPIRY, when, job.tenant, job.id), b"")
        txn.queues.expiry_at = when if txn.queues.expiry_at is None else min(when, txn.queues.expiry_at)


def cancel_expiry(txn: ShardTxn, job: Job, state: JobState) -> None:
    """Cancels the expiry of a finished job that is to run again.

    If the retention setting has changed since, the key is another one and the row stays; deletion checks the state.
    """
    if when := expiry_at(job, state.changed_at, txn.options.retention_ms):
        txn.batch.delete(keys.key(keys.EXPIRY, when, job.tenant, job.id))


def claim(txn: ShardTxn, job: Job, until: int) -> None:
    """Claims the job's unique key."""
    place = (job.tenant, job.unique_key)
    txn.queues.claims[place] = UniqueClaim(job.id, until)
    txn.queues.stale_claims.remove(claim_id(place))
    # False: while its job is unfinished a claim does not end by time.
    txn.batch.put(keys.key(keys.UNIQUE, *place), encode((job.id, until, False)))


def drop_claim(txn: ShardTxn, place: tuple[str, str]) -> None:
    txn.queues.claims.pop(place, None)
    txn.queues.stale_claims.remove(claim_id(place))
    txn.batch.delete(keys.key(keys.UNIQUE, *place))


def dequeue(txn: ShardTxn, job: Job, state: JobState, queued: QueuedTask | None) -> bool:
    """Removes a scheduled job from the queue it waits in and releases its slots; `queued` is its task, if it has one.

    Returns whether there was anything to remove.
    """
    # A scheduled job waits in exactly one place: for its dependencies, in the task queue, or parked at a limit. The
    # slots that it has taken on its way through the chain are released in each case (JOB-3).
    cancel_dependencies(txn, job, state)
    if queued is not None:
        task = queued.task
        # A refresh belongs to a limit and not to a job.
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
    """Removes a job from the waiters of its dependencies."""
    for before in state.waiting_for:
        txn.batch.delete(keys.key(keys.AFTER, job.tenant, before, job.id))
        waiters = txn.queues.waiters.get((job.tenant, before))
        if waiters is not None:
            waiters.pop(job.id, None)
            if not waiters:
                del txn.queues.waiters[job.tenant, before]
                txn.queues.ended.pop((job.tenant, before), None)


def _release_claim(txn: ShardTxn, job: Job) -> None:
    """Keeps the unique key of a finished job only until `unique_for_ms` has passed."""
    place = (job.tenant, job.unique_key)
    claim = txn.queues.claims.get(place) if job.unique_key else None
    if claim is None or claim.job != job.id:
        return
    # Kept beyond the end only where `unique_for_ms` asks for it; a key without it is free when its job ends.
    if claim.until <= txn.now:
        drop_claim(txn, place)
        return
    claim.is_done = True
    txn.batch.put(keys.key(keys.UNIQUE, *place), encode((job.id, claim.until, True)))
    txn.queues.stale_claims.push(claim.until, claim_id(place), place)


def claim_id(place: tuple[str, str]) -> str:
    """An id for tenant and unique key; the length prefix keeps two pairs from having the same id."""
    return f"{len(place[0])}:{place[0]}{place[1]}"


def to_rescheduled(state: JobState, *, now: int, start_at: int, attempt: int, relative_attempt: int) -> JobState:
    """The state of a job that runs again."""
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


DELAY_MS_MAX = 10 * 365 * 86_400_000  # ten years: longer than any policy, and no number overflows


def delay_ms(policy: RetryPolicy | None, failed: int, random: Random) -> int | None:
    """The delay after the failed attempt (1 is the first since the last restart); None if it was the last.

    The delay after the first failure is already `initial_interval_ms` times the factor, and a longest interval of 0
    means no delay at all. silo's documentation says otherwise, but its server does so, and its users have tuned their
    policies to what they observe.
    """
    if policy is None or failed > policy.retry_count:
        return None
    delay = _backoff_ms(policy.initial_interval_ms, policy.backoff_factor, failed)
    if policy.randomize_interval:
        delay *= 1 + random.random()  # never shorter than the policy says; the spread avoids retries in step
    # Rounded, and the jitter before the bound, as silo does it: the bound holds in any case.
    return max(0, min(int(delay + 0.5), policy.max_interval_ms))


def rate_delay_ms(retry: RateLimitRetry, tries: int) -> int:
    """The delay of a job over its rate that was checked `tries` times before."""
    delay = int(_backoff_ms(retry.initial_backoff_ms, retry.backoff_multiplier, tries) + 0.5)
    # At least a millisecond: with zero, the same tick would check again and again.
    return max(1, min(delay, retry.max_backoff_ms))


def is_last(policy: RetryPolicy | None, relative_attempt: int) -> bool:
    return policy is None or relative_attempt > policy.retry_count


def _backoff_ms(first_ms: int, factor: float, times: int) -> float:
    try:
        return min(float(DELAY_MS_MAX), first_ms * factor**times)
    # A factor of a million and a thousand failures exceed a float.
    except OverflowError:
        return float(DELAY_MS_MAX)


# A tick also expires leases, so no part of it may take long; what is left over is handled by the next tick.
DEPENDENCIES_PER_TICK_MAX = 100  # finished jobs handled in one tick


async def settle_dependents(core: Core) -> None:
    """Handles the dependents of finished jobs, a bounded number per tick."""
    for ended in list(core.queues.ended)[:DEPENDENCIES_PER_TICK_MAX]:
        await settle_dependents_of(core, ended)


async def settle_dependents_of(core: Core, ended: JobKey) -> None:
    """Handles all dependents of one job, if it is done."""
    if ended not in core.queues.ended:
        return
    tenant, before = ended
    # A job that was deleted counts as not succeeded: nothing is known of it any more.
    row = await core.store.get(keys.key(keys.DONE, tenant, before))
    has_succeeded = row is not None and decode_state(row).status == JobStatus.SUCCEEDED
    if row is None and await core.store.get(keys.key(keys.LIVE, tenant, before)) is not None:
        core.queues.ended.pop(ended, None)  # it was restarted: the dependents wait on
        return
    # One transaction per dependent: each reads rows, and a failed dependent may itself have thousands of dependents.
    for job in list(core.queues.waiters.get(ended, ())):
        await _settle_dependent(core, (tenant, job), before, has_succeeded=has_succeeded)
    if ended not in core.queues.waiters:
        core.queues.ended.pop(ended, None)


async def _settle_dependent(core: Core, waiting: JobKey, before: str, *, has_succeeded: bool) -> None:
    # Without an answer after so many rounds: the job stays in `ended`, and the next tick tries again.
    for _ in range(READS_MAX):
        with core.changes.track([waiting]) as changed:
            known = await read(core, *waiting)
            if changed:
                continue
            if known is None or before not in known.state.waiting_for:
                return  # cancelled meanwhile
            with core.begin_txn() as txn:
                _on_dependency_done(txn, known, before, has_succeeded=has_succeeded)
        await core.commit(txn)
        return


def _on_dependency_done(txn: ShardTxn, known: StoredJob, before: str, *, has_succeeded: bool) -> None:
    job, state = known.job, known.state
    if not has_succeeded:
        cancel_dependencies(txn, job, state)
        fail(txn, job, known.index_key, state, AFTER_FAILED)
        return
    left = tuple(each for each in state.waiting_for if each != before)
    cancel_dependencies(txn, job, replace(state, waiting_for=(before,)))
    state = replace(state, waiting_for=left)
    txn.put_state(job.tenant, job.id, known.index_key, state)
    if not left:
        begin(txn, job, state)
