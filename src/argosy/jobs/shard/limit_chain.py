"""The limit chain: a job passes its limits one after the other, then its attempt is queued for a worker.

A `SlotRequest` carries the progress along the chain: the limits still to pass and the slots already taken. The task id
is assigned at the start of the chain and identifies the holder of every slot. No slot is taken before the job's start.

Waiting for a limit is a task or a request with rows of its own, not a property of the attempt's task. So a worker never
leases a task that then turns out not to be allowed, a job that waits costs nothing until a slot is free, and a job
passes each limit again on every attempt, as silo does it. JOB-3 (holders ≤ max at every instant) holds because a slot
is taken in the same transaction that queues what comes next, and released in the one that ends the attempt.

A job keeps the slots it has while it waits for the next limit. Two jobs that name the same limits in opposite orders
can therefore block each other until one is cancelled; clients list limits in one order, as with locks.
"""

from typing import assert_never

from msgspec.structs import replace

from argosy.jobs.model import (
    CheckRateLimit,
    ConcurrencyLimit,
    FloatingLimit,
    FloatingState,
    Job,
    JobState,
    QueuedTask,
    RateLimit,
    RefreshLimit,
    RequestTicket,
    RunAttempt,
    SlotRequest,
)
from argosy.jobs.shard.queue_state import Slot
from argosy.jobs.shard.txn import ShardTxn

GRANTS_MAX = 500  # in one transaction, which blocks the shard: a limit raised by a million is granted in several
REFRESH_PRIORITY = 0  # the first: jobs wait for its result


def begin(txn: ShardTxn, job: Job, state: JobState) -> None:
    """Starts a scheduled job on its limit chain."""
    advance(
        txn,
        SlotRequest(
            task_id=txn.new_id(),
            tenant=job.tenant,
            key="",
            job=job.id,
            attempt=state.attempt,
            relative_attempt=state.relative_attempt,
            rest=job.limits,
            start_at=state.next_start_at,
            priority=job.priority,
            task_group=job.task_group,
        ),
    )


def advance(txn: ShardTxn, request: SlotRequest) -> None:
    """Advances until a limit makes the job wait; queues or parks it there."""
    # In the client's order, which clients rely on: a rate limit first is counted for jobs that then wait for a slot, a
    # rate limit last only for jobs that have all their slots.
    while request.rest:
        limit = request.rest[0]
        if isinstance(limit, RateLimit):
            _queue(txn, request, CheckRateLimit(*_task_fields(request), request.rest, 0, request.held))
            return
        if limit.key in request.held:  # a job that names a key twice takes one slot of it
            request = without_first_limit(request)
        elif request.start_at > txn.now:
            # A job that starts tomorrow must not hold a slot today: a ticket brings it back here at its start.
            _queue(txn, request, RequestTicket(*_task_fields(request), request.rest, request.held))
            return
        elif not _has_room(txn, request.tenant, limit):
            _park(txn, replace(request, key=limit.key), limit)
            return
        else:
            request = _take_slot(txn, request, limit.key)
    _queue(txn, request, RunAttempt(*_task_fields(request), request.held))


def _task_fields(request: SlotRequest) -> tuple[str, str, str, int, int]:
    return request.task_id, request.tenant, request.job, request.attempt, request.relative_attempt


def without_first_limit(request: SlotRequest) -> SlotRequest:
    """The same request past its first limit."""
    return replace(request, key="", rest=request.rest[1:])


def grant_order(request: SlotRequest) -> tuple[int, int, str, int]:
    """The order in which waiting requests are granted slots."""
    return request.start_at, request.priority, request.job, request.attempt


def request_of(queued: QueuedTask) -> SlotRequest:
    """The request that continues from a task of the broker."""
    task = queued.task
    assert isinstance(task, RequestTicket | CheckRateLimit)
    return SlotRequest(
        task_id=task.id,
        tenant=task.tenant,
        key="",
        job=task.job,
        attempt=task.attempt,
        relative_attempt=task.relative_attempt,
        rest=task.rest,
        start_at=queued.start_at,
        priority=queued.priority,
        task_group=queued.task_group,
        held=task.held,
    )


def grant(txn: ShardTxn) -> None:
    """Grants released slots to the first waiting requests. What exceeds one transaction remains for the next."""
    slots = txn.queues.slots
    granted = 0
    while slots.to_grant and granted < GRANTS_MAX:
        slot = next(iter(slots.to_grant))
        request = slots.first(slot)
        # Only the first is examined: a later one must not overtake it, even if its own maximum would admit it.
        if request is None or slots.count(slot) >= _max_concurrency(txn, slot, request.rest[0]):
            del slots.to_grant[slot]
            continue
        granted += 1
        # Out of the queue before the slot is taken: a job never both holds a slot and waits for it.
        txn.unpark(slot, request.job, request.attempt)
        advance(txn, _take_slot(txn, request, request.key))


def refresh_if_wanted(txn: ShardTxn, slot: Slot, task_group: str) -> None:
    """Queues a refresh of a stale floating limit if a job waits for it and no refresh is in progress.

    When the refresh becomes due no job may wait any more; leasing it checks again.
    """
    state = txn.queues.floating[slot]
    # One refresh at a time, and none for a limit at which no job waits: workers would compute it without need.
    if state.is_refreshing or not txn.queues.slots.is_wanted(slot):
        return
    # Neither before the value is stale, nor within the pause after a failed refresh.
    due_at = max(txn.now, state.refreshed_at + state.refresh_interval_ms, state.not_before)
    tenant, key = slot
    txn.queue(QueuedTask(RefreshLimit(txn.new_id(), tenant, key, task_group), task_group, due_at, REFRESH_PRIORITY))
    txn.put_floating(slot, replace(state, is_refreshing=True))


def _has_room(txn: ShardTxn, tenant: str, limit: ConcurrencyLimit | FloatingLimit) -> bool:
    """Whether a slot is free and no earlier request waits for it: a newcomer must not overtake those that wait."""
    slot = (tenant, limit.key)
    maximum = _max_concurrency(txn, slot, limit)
    return not txn.queues.slots.is_wanted(slot) and txn.queues.slots.count(slot) < maximum  # JOB-3


def _max_concurrency(txn: ShardTxn, slot: Slot, limit: ConcurrencyLimit | FloatingLimit | RateLimit) -> int:
    match limit:
        case ConcurrencyLimit():
            return limit.max_concurrency
        case FloatingLimit():
            # The first job with the key creates the state; later jobs' defaults are ignored, as in silo.
            if slot not in txn.queues.floating:
                txn.put_floating(
                    slot,
                    FloatingState(
                        limit.default_max_concurrency, limit.refresh_interval_ms, txn.now, dict(limit.metadata)
                    ),
                )
            return txn.queues.floating[slot].max_concurrency
        case RateLimit():
            raise AssertionError("a rate limit has no slots")
        case _:
            assert_never(limit)


def _take_slot(txn: ShardTxn, request: SlotRequest, key: str) -> SlotRequest:
    # Memory and row in one transaction: a crash cannot leave a slot that is held by no row, or the reverse.
    txn.hold((request.tenant, key), request.task_id)
    return replace(without_first_limit(request), held=(*request.held, key))


def _park(txn: ShardTxn, request: SlotRequest, limit: ConcurrencyLimit | FloatingLimit) -> None:
    txn.park(request)
    slot = (request.tenant, request.key)
    # Jobs may name the same key with different maxima. This one may come first in grant order, and its own maximum may
    # admit it where those of others do not.
    txn.queues.slots.to_grant[slot] = None
    if isinstance(limit, FloatingLimit):
        refresh_if_wanted(txn, slot, request.task_group)


def _queue(txn: ShardTxn, request: SlotRequest, task: RunAttempt | RequestTicket | CheckRateLimit) -> None:
    txn.queue(QueuedTask(task, request.task_group, request.start_at, request.priority))
