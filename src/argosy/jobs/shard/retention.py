"""Forgetting jobs that are done, when their time is up: a bounded number at a time, earliest first."""

from argosy.jobs import keys
from argosy.jobs.model import JobState
from argosy.jobs.shard.completion import drop_claim, keep_until
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.job_control import DELETED_ROWS_MAX, forget
from argosy.jobs.shard.job_reader import StoredJob, read
from argosy.jobs.shard.rows import forget_at

FORGOTTEN_MAX = 100  # jobs in one tick
CLAIMS_MAX = 1_000  # unique keys given free in one step


async def forget_some(core: Core) -> int:
    """Forgets jobs whose time is up; how many rows said so."""
    now = core.now_ms()
    if core.queues.forget_at is None or core.queues.forget_at > now:
        return 0
    # From the first one known on: what was deleted before it need not be walked over again.
    start, end = keys.key(keys.EXPIRY, core.queues.forget_at), keys.under(keys.EXPIRY)[1]
    core.queues.forget_at = None  # jobs that end meanwhile set it
    found = [key async for key, _ in core.ledger.scan(start, end, limit=FORGOTTEN_MAX)]
    due = [key for key in found if _when(key) <= now]
    for key in due:
        await _forget(core, key)
    async for key, _ in core.ledger.scan(start, end, limit=1):
        core.queues.forget_at = min(_when(key), core.queues.forget_at or _when(key))
    return len(due)


async def _forget(core: Core, row: bytes) -> None:
    _, tenant, job = keys.items(row)
    assert isinstance(tenant, str)
    assert isinstance(job, str)
    with core.changes.on([(tenant, job)]) as changed:
        known = await read(core, tenant, job)
        scan = core.ledger.scan(*keys.under(keys.ATTEMPT, tenant, job), limit=DELETED_ROWS_MAX)
        attempts = [key async for key, _ in scan]
        if changed or (tenant, job) in core.queues.waiters:
            return  # the row stays, and the next tick looks again
        with core.step() as step:
            is_all = len(attempts) < DELETED_ROWS_MAX
            if known is not None and _is_over(known, step.now, core.options.retention_ms):
                for key in attempts:
                    step.batch.delete(key)
                if is_all:
                    forget(step, known)
            elif known is not None and known.state.status.is_final:
                keep_until(step, known.job, known.state)  # the broker's setting was another one then
            if is_all:
                step.batch.delete(row)
    await core.commit(step)


def _is_over(known: StoredJob, now: int, retention_ms: int) -> bool:
    """The row may be older than a restart, or than another setting."""
    state: JobState = known.state
    when = forget_at(known.job, state.changed_at, retention_ms)
    return state.status.is_final and 0 < when <= now


def _when(row: bytes) -> int:
    when = keys.items(row)[0]
    assert isinstance(when, int)
    return when


async def drop_claims(core: Core) -> int:
    """Gives unique keys free whose jobs are done and whose time is up; how many."""
    dropped = 0
    with core.step() as step:
        while dropped < CLAIMS_MAX and (taken := step.queues.stale_claims.take(step.now)) is not None:
            drop_claim(step, taken[1])
            dropped += 1
    await core.commit(step)
    return dropped
