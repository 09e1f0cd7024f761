"""What a worker found out about the height of a floating limit."""

from msgspec.structs import replace

from argosy.base.errors import NotFound
from argosy.jobs.model import FloatingState, RefreshLimit
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.limit_chain import refresh_if_wanted
from argosy.jobs.shard.validation import RETRIES_MAX, check_number

FAILURE_FIRST_MS = 1_000
FAILURE_MS_MAX = 60_000
DOUBLINGS_MAX = 16  # past the longest wait


async def report_refresh(core: Core, task_id: str, max_concurrency: int | None, *, why: str = "") -> None:
    """A new height lets those who wait go on; without one it is asked again, later each time."""
    if max_concurrency is not None:
        check_number("max_concurrency", max_concurrency, RETRIES_MAX)
    running = core.queues.leases.by_task.get(task_id)
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
            txn.queues.slots.to_grant[slot] = None
        txn.put_floating(slot, state)
        refresh_if_wanted(txn, slot, task.task_group)
    await core.commit(txn)


def _with_failure(state: FloatingState, now: int) -> FloatingState:
    wait_ms = min(FAILURE_MS_MAX, FAILURE_FIRST_MS << min(state.failures, DOUBLINGS_MAX))
    return replace(state, failures=state.failures + 1, not_before=now + wait_ms, is_refreshing=False)
