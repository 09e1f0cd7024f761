"""What a shard does by itself when time passes, and when it next has something to do."""

from argosy.jobs.shard.core import Core
from argosy.jobs.shard.cron_schedules import run_due_schedules
from argosy.jobs.shard.dependencies import settle_some
from argosy.jobs.shard.limit_checks import queue_due
from argosy.jobs.shard.report import expire
from argosy.jobs.shard.retention import drop_claims, forget_some


async def tick(core: Core) -> None:
    """One bounded round of all that is due but rate checks, which wait for somebody else's answer."""
    with core.step() as step:  # a step also grants what an earlier one left
        expire(step, core.random)
        queue_due(step)
    await core.commit(step)
    await settle_some(core)
    await run_due_schedules(core)
    if core.queues.stale_claims.next_at() is not None:
        await drop_claims(core)
    await forget_some(core)


def deadline(core: Core) -> int | None:
    """When `tick` is next needed; 0: now."""
    memory = core.queues
    if memory.ended or memory.slots.to_grant:
        return 0
    times = (
        memory.tickets.next_at(),
        memory.leases.next_at(),
        memory.stale_claims.next_at(),
        memory.cron_queue.next_at(),
        memory.forget_at,
    )
    return min((at for at in times if at is not None), default=None)
