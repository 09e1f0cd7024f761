"""Control of single jobs by their tenant (cancel, restart, expedite, delete), and deletion of finished jobs.

Finished jobs are deleted after their retention, a bounded number per tick, earliest first.
"""

from msgspec.structs import replace

from argosy.base.errors import Conflict
from argosy.jobs import keys
from argosy.jobs.model import TENANT_CHARS_MAX, JobState, JobStatus, RefreshLimit
from argosy.jobs.shard.completion import (
    cancel_expiry,
    claim,
    dequeue,
    drop_claim,
    end,
    schedule_expiry,
    settle_dependents_of,
    to_rescheduled,
)
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.job_reader import StoredJob, change, read, too_many_changes
from argosy.jobs.shard.lease_tasks import put_running
from argosy.jobs.shard.limit_chain import begin
from argosy.jobs.shard.rows import expiry_at, index_value, status_key
from argosy.jobs.shard.txn import ShardTxn
from argosy.jobs.shard.validation import check_text

DELETED_ROWS_MAX = 10_000  # attempts or holders deleted in one transaction; a job with more takes several


async def cancel(core: Core, tenant: str, job: str) -> None:
    """Cancels a job that waits at once; marks a running one, whose worker learns it with its next heartbeat."""

    def act(txn: ShardTxn, known: StoredJob) -> None:
        state = known.state
        if state.status == JobStatus.CANCELLED or state.cancelled_at:
            raise Conflict("job is already cancelled")
        if state.status.is_final:
            raise Conflict("job is already in terminal state")
        running = txn.queues.leases.of_job(tenant, job)
        if running is not None:
            # The lease stays: the worker must not be surprised by "lease not found" while it stops.
            running.cancelled_at = txn.now
            put_running(txn, running)
            return
        is_found = dequeue(txn, known.job, state, known.queued)
        assert is_found, f"scheduled job {job} has neither a task nor a request"
        # The attempt that it waited for never started, so a restart uses its number.
        end(
            txn,
            known.job,
            known.index_key,
            JobState(JobStatus.CANCELLED, txn.now, state.attempt - 1, state.relative_attempt - 1, cancelled_at=txn.now),
        )

    await change(core, tenant, job, act)


async def restart(core: Core, tenant: str, job: str) -> None:
    """Schedules a failed or cancelled job again, through its limits; its dependencies no longer matter."""

    def act(txn: ShardTxn, known: StoredJob) -> None:
        state = known.state
        if state.status not in (JobStatus.FAILED, JobStatus.CANCELLED):
            raise Conflict(f"job cannot be restarted: it is {state.status.name.lower()}")
        # Through the limit chain again, unlike silo, whose restart queues an attempt past all limits (JOB-3).
        _claim_again(txn, known)
        cancel_expiry(txn, known.job, state)
        # Retries count from the restart; the number of the attempt goes on, because attempts are kept.
        again = to_rescheduled(
            state,
            now=txn.now,
            start_at=max(known.job.start_at, txn.now),
            attempt=state.attempt + 1,
            relative_attempt=1,
        )
        txn.put_state(tenant, job, known.index_key, again)
        begin(txn, known.job, again)

    await change(core, tenant, job, act)


def _claim_again(txn: ShardTxn, known: StoredJob) -> None:
    key = known.job.unique_key
    if not key:
        return
    held = txn.queues.claims.get((known.job.tenant, key))
    if held is not None and held.job != known.job.id and not (held.is_done and held.until <= txn.now):
        raise Conflict(f"job cannot be restarted: job {held.job} has its unique key {key}")
    claim(txn, known.job, held.until if held is not None and held.job == known.job.id else 0)


async def expedite(core: Core, tenant: str, job: str) -> None:
    """Moves the start of a job to now."""

    def act(txn: ShardTxn, known: StoredJob) -> None:
        state, queued = known.state, known.queued
        if state.status != JobStatus.SCHEDULED:
            raise Conflict(f"job cannot be expedited: it is {state.status.name.lower()}")
        if state.waiting_for:
            raise Conflict(f"job cannot be expedited: it runs after job {state.waiting_for[0]}")
        # A job that is parked at a limit waits for others, not for a time: an earlier start would change nothing.
        if queued is None:
            raise Conflict("job cannot be expedited: it waits for a slot of a limit")
        if state.next_start_at <= txn.now:
            raise Conflict("job cannot be expedited: its time has come already")
        assert not isinstance(queued.task, RefreshLimit)
        # Removed and queued again: the start is part of the task's key.
        txn.unqueue(queued)
        txn.put_state(tenant, job, known.index_key, replace(state, next_start_at=txn.now))
        txn.queue(replace(queued, start_at=txn.now))

    await change(core, tenant, job, act)


async def delete(core: Core, tenant: str, job: str) -> None:
    """Deletes a finished job with its attempts; succeeds if there is no such job."""
    for _ in range(READS_MAX):
        core.check_open()
        # Jobs that depend on it continue or fail by how it ended, which cannot be found out afterwards.
        await settle_dependents_of(core, (tenant, job))
        with core.changes.track([(tenant, job)]) as changed:
            known = await read(core, tenant, job)
            if known is not None and not known.state.status.is_final:
                await core.wait_staged_durable()
                raise Conflict(f"job cannot be deleted: it is {known.state.status.name.lower()}")
            attempts = [
                key async for key, _ in core.store.scan(*keys.under(keys.ATTEMPT, tenant, job), limit=DELETED_ROWS_MAX)
            ]
            if changed or (tenant, job) in core.queues.waiters:
                continue
            with core.begin_txn() as txn:
                for key in attempts:
                    txn.batch.delete(key)
                is_all = len(attempts) < DELETED_ROWS_MAX
                if is_all and known is not None:
                    delete_rows(txn, known)
        await core.commit(txn)
        if is_all:
            await core.wait_staged_durable()
            return
    raise too_many_changes(job)


def delete_rows(txn: ShardTxn, known: StoredJob) -> None:
    """Deletes all rows of a finished job except its attempts."""
    job, state = known.job, known.state
    for kind in (keys.JOB, keys.DONE):
        txn.batch.delete(keys.key(kind, job.tenant, job.id))
    txn.batch.delete(status_key(job.tenant, *known.index_key, job.id))
    # The row of a job that is deleted by hand; deletion by expiry deletes its own.
    if when := expiry_at(job, state.changed_at, txn.options.retention_ms):
        txn.batch.delete(keys.key(keys.EXPIRY, when, job.tenant, job.id))
    for key, value in job.metadata.items():
        txn.batch.delete(keys.key(keys.METADATA, job.tenant, key, index_value(value), job.id))
    held = txn.queues.claims.get((job.tenant, job.unique_key)) if job.unique_key else None
    if held is not None and held.job == job.id:
        drop_claim(txn, (job.tenant, job.unique_key))
    txn.touch(job.tenant, job.id)


async def drop_holders(core: Core, tenant: str) -> int:
    """Releases every slot of a tenant, for emergencies: an operator's way out if slots are held by what never ends.

    Its running jobs continue, so the limit may be exceeded until they end: the one exception to JOB-3.
    """
    check_text("tenant", tenant, TENANT_CHARS_MAX)
    held = [
        (slot[1], task_id)
        for slot, holders in core.queues.slots.holders.items()
        if slot[0] == tenant
        for task_id in holders
    ]
    # Jobs that are granted a slot meanwhile keep it: they are not stuck.
    for at in range(0, len(held), DELETED_ROWS_MAX):
        with core.begin_txn() as txn:
            for key, task_id in held[at : at + DELETED_ROWS_MAX]:
                txn.release(tenant, (key,), task_id)
        await core.commit(txn)
    return len(held)


# Each is read with its attempts, so a hundred keep a tick short; the rest follows in the next one.
DELETED_JOBS_MAX = 100  # jobs in one tick
CLAIMS_MAX = 1_000  # unique keys released in one transaction


async def delete_expired(core: Core) -> int:
    """Deletes jobs whose retention has ended; returns how many expiry rows were due."""
    now = core.now_ms()
    if core.queues.expiry_at is None or core.queues.expiry_at > now:
        return 0
    # From the first known row: a scan from the start of the index would pass over the tombstones of all earlier
    # deletions, 4 µs each, until SlateDB has compacted them away.
    start, end = keys.key(keys.EXPIRY, core.queues.expiry_at), keys.under(keys.EXPIRY)[1]
    core.queues.expiry_at = None  # jobs that end meanwhile set it
    found = [key async for key, _ in core.store.scan(start, end, limit=DELETED_JOBS_MAX)]
    due = [key for key in found if _expiry_of(key) <= now]
    for key in due:
        await _delete_if_expired(core, key)
    async for key, _ in core.store.scan(start, end, limit=1):
        core.queues.expiry_at = min(_expiry_of(key), core.queues.expiry_at or _expiry_of(key))
    return len(due)


async def _delete_if_expired(core: Core, row: bytes) -> None:
    _, tenant, job = keys.items(row)
    assert isinstance(tenant, str)
    assert isinstance(job, str)
    with core.changes.track([(tenant, job)]) as changed:
        known = await read(core, tenant, job)
        scan = core.store.scan(*keys.under(keys.ATTEMPT, tenant, job), limit=DELETED_ROWS_MAX)
        attempts = [key async for key, _ in scan]
        if changed or (tenant, job) in core.queues.waiters:
            return  # the row stays, and the next tick tries again: dependents must first learn how the job ended
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


def _expiry_of(row: bytes) -> int:
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
