"""Reads jobs from their rows, and changes one job without a race."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from argosy.base.errors import Conflict, NotFound, Unavailable
from argosy.jobs import keys
from argosy.jobs.model import Attempt, Job, JobState, JobStatus, QueuedTask
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.rows import decode_attempt, decode_job, decode_state, decode_task, scheduled_task_key, status_at
from argosy.jobs.shard.txn import ShardTxn, StatusIndexKey

T = TypeVar("T")

ATTEMPTS_SHOWN_MAX = 1_000  # the latest


class StoredJob(NamedTuple):
    """A job as stored; `queued` is its task while it waits, unless it is parked, running or done."""

    job: Job
    state: JobState
    queued: QueuedTask | None

    @property
    def index_key(self) -> StatusIndexKey:
        return self.state.status, status_at(self.state)


async def read(core: Core, tenant: str, job: str) -> StoredJob | None:
    row, live, done = await core.store.get_many(
        [keys.key(kind, tenant, job) for kind in (keys.JOB, keys.LIVE, keys.DONE)]
    )
    state_row = live if live is not None else done
    if row is None or state_row is None:
        return None
    known, state = decode_job(row), decode_state(state_row)
    if state.status != JobStatus.SCHEDULED:
        return StoredJob(known, state, None)
    task_row = await core.store.get(scheduled_task_key(known, state))
    return StoredJob(known, state, decode_task(task_row) if task_row is not None else None)


async def change(core: Core, tenant: str, job: str, act: Callable[[ShardTxn, StoredJob], T]) -> T:
    """Reads a job, lets `act` change it in one transaction; returns when that is durable. NotFound if there is none."""
    for _ in range(READS_MAX):
        core.check_open()
        with core.changes.track([(tenant, job)]) as changed:
            known = await read(core, tenant, job)
            if changed:
                continue
            try:
                if known is None:
                    raise NotFound("job not found")
                with core.begin_txn() as txn:
                    answer = act(txn, known)
            except (Conflict, NotFound):
                await core.wait_staged_durable()  # the refusal may rest on a change that a crash could undo
                raise
        await core.commit(txn)
        return answer
    raise too_many_changes(job)


def too_many_changes(job: str) -> Unavailable:
    return Unavailable(f"job {job} changed {READS_MAX} times while it was read: try again")


async def attempts(core: Core, tenant: str, job: str) -> tuple[Attempt, ...]:
    """Oldest first; if there are too many, the latest."""
    scan = core.store.scan(*keys.under(keys.ATTEMPT, tenant, job), limit=ATTEMPTS_SHOWN_MAX, reverse=True)
    latest_first = [decode_attempt(value) async for _, value in scan]
    return tuple(reversed(latest_first))
