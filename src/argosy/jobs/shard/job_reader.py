"""Reads jobs from their rows: one by id, many by status or metadata; and changes one job without a race."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from argosy.base.errors import Conflict, Gone, Invalid, NotFound, Unavailable
from argosy.jobs import keys
from argosy.jobs.model import FIND_MAX, Attempt, Job, JobState, JobStatus, JobView, QueuedTask
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.rows import (
    decode_attempt,
    decode_job,
    decode_state,
    decode_task,
    index_value,
    scheduled_task_key,
    status_at,
)
from argosy.jobs.shard.txn import ShardTxn, StatusIndexKey
from argosy.jobs.shard.validation import check_number

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
    # In one call: all three as of one moment.
    row, live, done = await core.store.get_many(
        [keys.key(kind, tenant, job) for kind in (keys.JOB, keys.LIVE, keys.DONE)]
    )
    # Both kinds are read because the id does not show which one exists; a job has exactly one of them.
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
                continue  # what was read is out of date
            try:
                if known is None:
                    raise NotFound("job not found")
                with core.begin_txn() as txn:
                    answer = act(txn, known)
            except (Conflict, NotFound):
                await core.wait_staged_durable()  # the rejection may rest on a change that a crash could undo
                raise
        await core.commit(txn)
        return answer
    raise too_many_changes(job)


def too_many_changes(job: str) -> Unavailable:
    return Unavailable(f"job {job} changed {READS_MAX} times while it was read; retry")


async def attempts(core: Core, tenant: str, job: str) -> tuple[Attempt, ...]:
    """Oldest first; if there are too many, the latest."""
    scan = core.store.scan(*keys.under(keys.ATTEMPT, tenant, job), limit=ATTEMPTS_SHOWN_MAX, reverse=True)
    latest_first = [decode_attempt(value) async for _, value in scan]
    return tuple(reversed(latest_first))


# Few enough to hold their payloads in memory at a time, and many enough that the cost of a call does not matter.
SCAN_CHUNK = 256
SCANNED_MAX = 100_000  # index rows read for one response: half a second of reading, by 5 µs a row

IndexPosition = tuple[int, str]  # position in the status index: newest first, then the job


async def get(core: Core, tenant: str, job: str, *, with_attempts: bool = False) -> JobView:
    for _ in range(READS_MAX):
        core.check_open()
        with core.changes.track([(tenant, job)]) as changed:
            known = await read(core, tenant, job)
            tried = await attempts(core, tenant, job) if with_attempts else ()
            if changed:
                continue
        await core.wait_staged_durable()
        if known is None:
            raise NotFound("job not found")
        return JobView(known.job, known.state, tried)
    raise too_many_changes(job)


async def find(
    core: Core,
    tenant: str,
    *,
    status: JobStatus | None = None,
    metadata: tuple[str, str] | None = None,
    is_dead: bool = False,
    after: str = "",
    limit: int = 100,
) -> list[JobView]:
    """Jobs with the metadata in the order of their ids; otherwise newest first in the status index."""
    core.check_open()
    check_number("limit", limit, FIND_MAX, least=1)
    if is_dead and status not in (None, JobStatus.FAILED):
        raise Invalid(f"only failed jobs are dead letters; got {status.name if status is not None else ''}")
    statuses = [JobStatus.FAILED] if is_dead else [status] if status is not None else list(JobStatus)
    if metadata is not None:
        found = await _find_by_metadata(core, tenant, metadata, set(statuses), is_dead, after, limit)
    else:
        found = await _find_by_status(core, tenant, statuses, is_dead, after, limit)
    await core.wait_staged_durable()
    return found


async def _find_by_status(
    core: Core, tenant: str, statuses: Sequence[JobStatus], is_dead: bool, after: str, limit: int
) -> list[JobView]:
    place = await _index_position(core, tenant, after) if after else None
    found: list[JobView] = []
    for _ in range(SCANNED_MAX // SCAN_CHUNK):
        rows: list[IndexPosition] = []
        for status in statuses:
            rows += await _page(core, tenant, status, place, min(SCAN_CHUNK, limit))
        # A merge of the statuses by time. A set, because a job that changes its status during the scan is met twice.
        page = sorted(set(rows))[: min(SCAN_CHUNK, limit)]
        views = await _views(core, tenant, [job for _, job in page])
        found += [view for view in views if view.state.status in statuses and (view.state.is_dead or not is_dead)]
        if len(found) >= limit or not page:
            break
        place = page[-1]
    return found[:limit]


async def _index_position(core: Core, tenant: str, job: str) -> IndexPosition:
    known = await read(core, tenant, job)
    if known is None:
        # The position in the index was that of the job's state; without the job it is unknown.
        raise Gone(f"job {job}, the last of the previous page, was deleted; list again from the start")
    return keys.NEWEST_FIRST - status_at(known.state), job


async def _page(
    core: Core, tenant: str, status: JobStatus, place: IndexPosition | None, limit: int
) -> list[IndexPosition]:
    start, end = keys.under(keys.STATUS, tenant, int(status))
    if place is not None:
        start = keys.key(keys.STATUS, tenant, int(status), *place) + b"\x00"
    page: list[IndexPosition] = []
    async for row, _ in core.store.scan(start, end, limit=limit):
        _, _, at, job = keys.items(row)
        assert isinstance(at, int)
        assert isinstance(job, str)
        page.append((at, job))
    return page


async def _find_by_metadata(
    core: Core, tenant: str, pair: tuple[str, str], statuses: set[JobStatus], is_dead: bool, after: str, limit: int
) -> list[JobView]:
    name, value = pair
    start, end = keys.under(keys.METADATA, tenant, name, index_value(value))
    if after:
        start = keys.key(keys.METADATA, tenant, name, index_value(value), after) + b"\x00"
    found: list[JobView] = []
    for _ in range(SCANNED_MAX // SCAN_CHUNK):
        rows = [key async for key, _ in core.store.scan(start, end, limit=SCAN_CHUNK)]
        views = await _views(core, tenant, [str(keys.items(row)[3]) for row in rows])
        found += [
            view
            for view in views
            if view.state.status in statuses
            and (view.state.is_dead or not is_dead)
            and view.job.metadata.get(name) == value  # long values are indexed by prefix and hash
        ]
        if len(found) >= limit or len(rows) < SCAN_CHUNK:
            break
        # The smallest key after the last one.
        start = rows[-1] + b"\x00"
    return found[:limit]


async def _views(core: Core, tenant: str, jobs: Sequence[str]) -> list[JobView]:
    """Those of the jobs that still exist."""
    kinds = (keys.JOB, keys.LIVE, keys.DONE)
    rows = await core.store.get_many([keys.key(kind, tenant, job) for job in jobs for kind in kinds])
    views: list[JobView] = []
    for at in range(0, len(rows), len(kinds)):
        row, live, done = rows[at : at + len(kinds)]
        state_row = live if live is not None else done
        if row is not None and state_row is not None:
            job: Job = decode_job(row)
            state: JobState = decode_state(state_row)
            views.append(JobView(job, state))
    return views
