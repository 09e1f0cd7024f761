"""The limit chain: a job passes its limits one after the other, then its attempt is queued for a worker.

A `SlotRequest` carries the progress along the chain: the limits still to pass and the slots already taken. The task id
is assigned at the start of the chain and identifies the holder of every slot. No slot is taken before the job's start.
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
from argosy.jobs.shard.slots import Slot
from argosy.jobs.shard.txn import ShardTxn

GRANTS_MAX = 500  # in one step: a limit raised by a million is granted in several
REFRESH_PRIORITY = 0


def begin(step: ShardTxn, job: Job, state: JobState) -> None:
    """Sends a scheduled job to its first limit."""
    walk(
        step,
        SlotRequest(
            task_id=step.new_id(),
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


def walk(step: ShardTxn, request: SlotRequest) -> None:
    """Goes on until something has to be waited for, and queues or parks that."""
    while request.rest:
        limit = request.rest[0]
        if isinstance(limit, RateLimit):
            _queue(step, request, CheckRateLimit(*_who(request), request.rest, 0, request.held))
            return
        if limit.key in request.held:
            request = passed(request)
        elif request.start_at > step.now:
            _queue(step, request, RequestTicket(*_who(request), request.rest, request.held))
            return
        elif not _has_room(step, request.tenant, limit):
            _park(step, replace(request, key=limit.key), limit)
            return
        else:
            request = _held(step, request, limit.key)
    _queue(step, request, RunAttempt(*_who(request), request.held))


def _who(request: SlotRequest) -> tuple[str, str, str, int, int]:
    return request.task_id, request.tenant, request.job, request.attempt, request.relative_attempt


def passed(request: SlotRequest) -> SlotRequest:
    """The same with its first limit behind it."""
    return replace(request, key="", rest=request.rest[1:])


def place(request: SlotRequest) -> tuple[int, int, str, int]:
    """What slots are granted by."""
    return request.start_at, request.priority, request.job, request.attempt


def request_of(queued: QueuedTask) -> SlotRequest:
    """What walks on from a task of the broker's own."""
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


def grant(step: ShardTxn) -> None:
    """Gives slots that have come free to those who wait first. What does not fit into one step stays for the next."""
    slots = step.queues.slots
    granted = 0
    while slots.to_grant and granted < GRANTS_MAX:
        slot = next(iter(slots.to_grant))
        request = slots.first(slot)
        if request is None or slots.count(slot) >= _height(step, slot, request.rest[0]):
            del slots.to_grant[slot]
            continue
        granted += 1
        step.unpark(slot, request.job, request.attempt)
        walk(step, _held(step, request, request.key))


def refresh_if_wanted(step: ShardTxn, slot: Slot, task_group: str) -> None:
    """Queues the question how high a floating limit is for when it is stale, if somebody waits and none is under way.

    The question may become due when nobody waits any more; whoever leases it looks again.
    """
    state = step.queues.floating[slot]
    if state.is_refreshing or not step.queues.slots.is_wanted(slot):
        return
    due_at = max(step.now, state.refreshed_at + state.refresh_interval_ms, state.not_before)
    tenant, key = slot
    step.queue(QueuedTask(RefreshLimit(step.new_id(), tenant, key, task_group), task_group, due_at, REFRESH_PRIORITY))
    step.put_floating(slot, replace(state, is_refreshing=True))


def _has_room(step: ShardTxn, tenant: str, limit: ConcurrencyLimit | FloatingLimit) -> bool:
    """Room, and nobody who came first."""
    slot = (tenant, limit.key)
    height = _height(step, slot, limit)
    return not step.queues.slots.is_wanted(slot) and step.queues.slots.count(slot) < height


def _height(step: ShardTxn, slot: Slot, limit: ConcurrencyLimit | FloatingLimit | RateLimit) -> int:
    match limit:
        case ConcurrencyLimit():
            return limit.max_concurrency
        case FloatingLimit():
            if slot not in step.queues.floating:
                step.put_floating(
                    slot,
                    FloatingState(
                        limit.default_max_concurrency, limit.refresh_interval_ms, step.now, dict(limit.metadata)
                    ),
                )
            return step.queues.floating[slot].max_concurrency
        case RateLimit():
            raise AssertionError("nobody waits for a slot of a rate limit")
        case _:
            assert_never(limit)


def _held(step: ShardTxn, request: SlotRequest, key: str) -> SlotRequest:
    step.hold((request.tenant, key), request.task_id)
    return replace(passed(request), held=(*request.held, key))


def _park(step: ShardTxn, request: SlotRequest, limit: ConcurrencyLimit | FloatingLimit) -> None:
    step.park(request)
    slot = (request.tenant, request.key)
    # It may stand before all others, and its own limit may have room where theirs have none.
    step.queues.slots.to_grant[slot] = None
    if isinstance(limit, FloatingLimit):
        refresh_if_wanted(step, slot, request.task_group)


def _queue(step: ShardTxn, request: SlotRequest, task: RunAttempt | RequestTicket | CheckRateLimit) -> None:
    step.queue(QueuedTask(task, request.task_group, request.start_at, request.priority))
