"""Deletion of finished jobs after their retention: a bounded number per tick, earliest first."""

from argosy.jobs import keys
from argosy.jobs.model import JobState
from argosy.jobs.shard.completion import drop_claim, schedule_expiry
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.job_control import DELETED_ROWS_MAX, delete_rows
from argosy.jobs.shard.job_reader import StoredJob, read
from argosy.jobs.shard.rows import expiry_at

DELETED_JOBS_MAX = 100  # jobs in one tick
CLAIMS_MAX = 1_000  # unique keys released in one transaction


async def delete_expired(core: Core) -> int:
    """Deletes jobs whose retention has ended; returns how many expiry rows were due."""
    now = core.now_ms()
    if core.queues.expiry_at is None or core.queues.expiry_at > now:
        return 0
    # From the first known row: the scan need not pass over tombstones of earlier deletions.
    start, end = keys.key(keys.EXPIRY, core.queues.expiry_at), keys.under(keys.EXPIRY)[1]
    core.queues.expiry_at = None  # jobs that end meanwhile set it
    found = [key async for key, _ in core.store.scan(start, end, limit=DELETED_JOBS_MAX)]
    due = [key for key in found if _when(key) <= now]
    for key in due:
        await _forget(core, key)
    async for key, _ in core.store.scan(start, end, limit=1):
        core.queues.expiry_at = min(_when(key), core.queues.expiry_at or _when(key))
    return len(due)


async def _forget(core: Core, row: bytes) -> None:
    _, tenant, job = keys.items(row)
    assert isinstance(tenant, str)
    assert isinstance(job, str)
    with core.changes.track([(tenant, job)]) as changed:
        known = await read(core, tenant, job)
        scan = core.store.scan(*keys.under(keys.ATTEMPT, tenant, job), limit=DELETED_ROWS_MAX)
        attempts = [key async for key, _ in scan]
        if changed or (tenant, job) in core.queues.waiters:
            return  # the row stays, and the next tick tries again
        with core.begin_txn() as txn:
            is_all = len(attempts) < DELETED_ROWS_MAX
            if known is not None and _has_expired(known, txn.now, core.options.retention_ms):
                for key in attempts:
                    txn.batch.delete(key)
                if is_all:
                    delete_rows(txn, known)
            elif known is not None and known.state.status.is_final:
                schedule_expiry(txn, known.job, known.state)  # the retention setting has changed since
            if is_all:
                txn.batch.delete(row)
    await core.commit(txn)


def _has_expired(known: StoredJob, now: int, retention_ms: int) -> bool:
    """The expiry row may predate a restart of the job or a changed setting."""
    state: JobState = known.state
    when = expiry_at(known.job, state.changed_at, retention_ms)
    return state.status.is_final and 0 < when <= now


def _when(row: bytes) -> int:
    when = keys.items(row)[0]
    assert isinstance(when, int)
    return when


async def drop_claims(core: Core) -> int:
    """Releases unique keys of finished jobs whose time has passed; returns how many."""
    dropped = 0
    with core.begin_txn() as txn:
        while dropped < CLAIMS_MAX and (taken := txn.queues.stale_claims.pop_due(txn.now)) is not None:
            drop_claim(txn, taken[1])
            dropped += 1
    await core.commit(txn)
    return dropped
