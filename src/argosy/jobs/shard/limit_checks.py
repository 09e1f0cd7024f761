"""Limit checks by the broker: queueing for a slot when a job starts, rate checks, and refreshes of floating limits.

Rate limits are counted by a limiter outside the shard (Gubernator's protocol, Redis, or in the process), so that all
shards share them. A check is a task of its own: the design asks for a task that polls the limit and queues the attempt
when it passes, or itself again for later.

A job over its rate, or whose check failed, is checked again later. Its state names the new start, so the job can be
cancelled or expedited meanwhile. Only an answer of the limiter makes a job fail, never an error: an unreachable limiter
delays jobs and loses none. A check is made at least once: a crash between counting the hit and committing counts it
again, which errs on the side of the limit.
"""

from msgspec.structs import replace

from argosy.base.errors import ArgosyError, Fenced, NotFound
from argosy.jobs.model import RATE_LIMITED, CheckRateLimit, FloatingState, QueuedTask, RateLimit, RefreshLimit
from argosy.jobs.shard.completion import fail, rate_delay_ms
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.job_reader import StoredJob, read
from argosy.jobs.shard.limit_chain import advance, grant_order, refresh_if_wanted, request_of, without_first_limit
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import RETRIES_MAX, check_number
from argosy.throttle.limits.model import Behavior, RateLimitRequest, RateLimitResponse, Status

TICKETS_MAX = 500  # in one transaction
CHECKS_MAX = 100  # in one call to the limiter; silo's batches have the same size
WIRE_DRAIN_OVER_LIMIT = 16  # the flag in silo.v1; Gubernator's own number is 32


def queue_due(txn: ShardTxn) -> int:
    """Advances jobs whose start has come; returns how many."""
    due: list[QueuedTask] = []
    while len(due) < TICKETS_MAX and (taken := txn.queues.tickets.pop_due(txn.now)) is not None:
        due.append(taken[1])
    requests = [request_of(queued) for queued in due]
    for queued in due:
        txn.unqueue(queued)
    # Jobs that start together queue in grant order.
    for request in sorted(requests, key=grant_order):
        advance(txn, request)
    return len(due)


async def check_rates(core: Core) -> int:
    """Sends due rate checks to the limiter in one call; returns how many."""
    taken: list[str] = []
    checks: list[QueuedTask] = []
    now = core.now_ms()
    while len(checks) < CHECKS_MAX and (found := core.queues.checks.pop_due(now)) is not None:
        taken.append(found[0])
        checks.append(found[1])
    if not checks:
        return 0
    try:
        answers = await _check_limits(core, checks)
        # After the limiter's answer, which may take long; the checks in hand cannot start meanwhile, but jobs may be
        # cancelled, which takes their check out of the hand.
        stored_jobs = [await read(core, queued.task.tenant, _check(queued).job) for queued in checks]
        with core.begin_txn() as txn:
            for queued, answer, known in zip(checks, answers, stored_jobs, strict=True):
                _apply_decisions(txn, queued, answer, known)
    finally:
        # Those that were not applied, after an error of the store for example: they are still due.
        for task_id in taken:
            core.queues.checks.requeue(task_id)
    await core.commit(txn)
    return len(checks)


async def _check_limits(core: Core, checks: list[QueuedTask]) -> list[RateLimitResponse]:
    requests = [_request(limit_of(queued)) for queued in checks]
    try:
        return await core.limiter.check(requests)
    # This does not pass: another process has the shard, and this one must not reschedule its jobs.
    except Fenced:
        raise
    except ArgosyError as error:
        return [RateLimitResponse(error=str(error) or "rate limiter failed")] * len(checks)


def _apply_decisions(txn: ShardTxn, queued: QueuedTask, answer: RateLimitResponse, known: StoredJob | None) -> None:
    """Applies one answer, unless the job was dequeued (cancelled, expedited) while the limiter was called."""
    task = _check(queued)
    if task.id not in txn.queues.checks.hand:
        return
    assert known is not None, f"job {task.job} is not there, but its rate was checked"
    txn.unqueue(queued)
    if not answer.error and answer.status == Status.UNDER_LIMIT:
        advance(txn, without_first_limit(request_of(queued)))
    elif not answer.error and _has_used_up_retries(task, limit_of(queued)):
        txn.release(task.tenant, task.held, task.id)
        fail(txn, known.job, known.index_key, known.state, RATE_LIMITED)
    else:
        _check_again(txn, queued, known, answer)


def _check_again(txn: ShardTxn, queued: QueuedTask, known: StoredJob, answer: RateLimitResponse) -> None:
    task, retry = _check(queued), limit_of(queued).retry
    # An unreachable limiter is called again after the first backoff, without growth: it is not the job's rate that is
    # exceeded, and one call checks a hundred jobs.
    if answer.error:
        start_at = txn.now + max(1, retry.initial_backoff_ms)
    elif txn.now < answer.reset_time < txn.now + retry.max_backoff_ms:
        start_at = answer.reset_time  # the limiter knows better than a backoff when there is room again
    else:
        start_at = txn.now + rate_delay_ms(retry, task.tries)
    txn.queue(replace(queued, start_at=start_at, task=replace(task, tries=task.tries + 1)))
    txn.put_state(task.tenant, task.job, known.index_key, replace(known.state, next_start_at=start_at))


def _has_used_up_retries(task: CheckRateLimit, limit: RateLimit) -> bool:
    return 0 < limit.retry.max_retries <= task.tries


def limit_of(queued: QueuedTask) -> RateLimit:
    limit = _check(queued).rest[0]
    assert isinstance(limit, RateLimit)
    return limit


def _check(queued: QueuedTask) -> CheckRateLimit:
    assert isinstance(queued.task, CheckRateLimit)
    return queued.task


def _request(limit: RateLimit) -> RateLimitRequest:
    behavior = limit.behavior & ~WIRE_DRAIN_OVER_LIMIT
    if limit.behavior & WIRE_DRAIN_OVER_LIMIT:
        behavior |= Behavior.DRAIN_OVER_LIMIT
    return RateLimitRequest(
        limit.name, limit.unique_key, limit.hits, limit.limit, limit.duration_ms, limit.algorithm, int(behavior)
    )


# Backoff between failed refreshes of a floating limit: from a second, doubled, to a minute.
FAILURE_FIRST_MS = 1_000
FAILURE_MS_MAX = 60_000
DOUBLINGS_MAX = 16  # further doublings exceed the longest wait


async def report_refresh(core: Core, task_id: str, max_concurrency: int | None, *, why: str = "") -> None:
    """Sets a new maximum, which may admit waiting jobs; without one, the refresh is retried with growing delay."""
    if max_concurrency is not None:
        check_number("max_concurrency", max_concurrency, RETRIES_MAX)
    running = core.queues.leases.by_task.get(task_id)
    # The lease of a job's attempt is reported elsewhere; a task id of the wrong kind is treated like an unknown one.
    if running is None or running.job is not None:
        await core.wait_staged_durable()
        raise NotFound("lease not found")
    task = running.lease.task
    assert isinstance(task, RefreshLimit)
    slot = (task.tenant, task.key)
    with core.begin_txn() as txn:
        txn.queues.leases.remove(task_id)
        txn.delete_lease(task_id)
        state = txn.queues.floating[slot]
        if max_concurrency is None:
            state = _with_failure(state, txn.now)
        else:
            state = replace(
                state,
                max_concurrency=max_concurrency,
                refreshed_at=txn.now,
                failures=0,
                not_before=0,
                is_refreshing=False,
            )
            # A higher maximum may admit several jobs that wait.
            txn.queues.slots.to_grant[slot] = None
        txn.put_floating(slot, state)
        refresh_if_wanted(txn, slot, task.task_group)
    await core.commit(txn)


def _with_failure(state: FloatingState, now: int) -> FloatingState:
    wait_ms = min(FAILURE_MS_MAX, FAILURE_FIRST_MS << min(state.failures, DOUBLINGS_MAX))
    return replace(state, failures=state.failures + 1, not_before=now + wait_ms, is_refreshing=False)
