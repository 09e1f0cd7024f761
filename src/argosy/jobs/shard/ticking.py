"""What a shard does by itself when time passes, and when it next has something to do."""

from argosy.jobs.shard.core import Core
from argosy.jobs.shard.cron_schedules import run_due_schedules
from argosy.jobs.shard.dependencies import settle_dependents
from argosy.jobs.shard.limit_checks import queue_due
from argosy.jobs.shard.report import expire
from argosy.jobs.shard.retention import delete_expired, drop_claims


async def tick(core: Core) -> None:
    """One bounded round of all that is due but rate checks, which wait for somebody else's answer."""
    with core.begin_txn() as txn:  # a step also grants what an earlier one left
        expire(txn, core.random)
        queue_due(txn)
    await core.commit(txn)
    await settle_dependents(core)
    await run_due_schedules(core)
    if core.queues.stale_claims.next_at() is not None:
        await drop_claims(core)
    await delete_expired(core)


def deadline(core: Core) -> int | None:
    """When `tick` is next needed; 0: now."""
    queues = core.queues
    if queues.ended or queues.slots.to_grant:
        return 0
    times = (
        queues.tickets.next_at(),
        queues.leases.next_at(),
        queues.stale_claims.next_at(),
        queues.cron_queue.next_at(),
        queues.expiry_at,
    )
    return min((at for at in times if at is not None), default=None)
