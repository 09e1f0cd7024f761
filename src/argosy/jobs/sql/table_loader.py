"""Loads rows of the store as rows of the tables, through the best index that the pushdown allows."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from argosy.jobs import keys
from argosy.jobs.model import (
    CheckRateLimit,
    ConcurrencyLimit,
    FloatingLimit,
    Job,
    JobState,
    JobStatus,
    RateLimit,
    RefreshLimit,
    RequestTicket,
    RunAttempt,
    SlotRequest,
)
from argosy.jobs.ports import RowReader
from argosy.jobs.shard.rows import (
    METADATA_INDEXED_CHARS_MAX,
    decode_floating,
    decode_job,
    decode_lease,
    decode_request,
    decode_state,
    decode_task,
    decode_time,
    index_value,
)
from argosy.jobs.sql.pushdown import Pushdown
from argosy.jobs.sql.tables import StatementTooLarge, Value

Row = tuple[Value, ...]

CHUNK = 500  # jobs read at once
KINDS = {
    RunAttempt: "RunAttempt",
    RequestTicket: "RequestTicket",
    CheckRateLimit: "CheckRateLimit",
    RefreshLimit: "RefreshFloatingLimit",
}
WAITING = "Waiting"  # a scheduled job whose time has come

_STATUSES = {status.name.capitalize(): status for status in JobStatus} | {WAITING: JobStatus.SCHEDULED}
_LIMIT_KINDS = {ConcurrencyLimit: "concurrency", RateLimit: "rate_limit", FloatingLimit: "floating_concurrency"}


class TableLoader:
    """Reads one shard for one statement; `tenant` None reads all tenants.

    `pause` is called between chunks: it lets the event loop run other tasks, and raises when the time is over.
    """

    def __init__(
        self,
        shard_id: str,
        rows: RowReader,
        *,
        now_ms: int,
        tenant: str | None,
        pushdown: Pushdown,
        scanned_max: int,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._shard_id = shard_id
        self._rows = rows
        self._now_ms = now_ms
        self._pushdown = pushdown
        # A caller restricted to one tenant has named another one in its WHERE.
        self._is_empty = tenant is not None and pushdown.tenant is not None and pushdown.tenant != tenant
        self._tenant = pushdown.tenant if tenant is None else tenant
        self._scanned_max = scanned_max
        self._left = scanned_max
        self._pause = pause

    async def load(self, table: str) -> AsyncIterator[list[Row]]:
        """The rows of a table, some at a time."""
        if self._is_empty:
            return
        loads = {
            "jobs": self._jobs,
            "queues": self._queues,
            "tasks": self._tasks,
            "tenant_counts": self._tenant_counts,
            "queue_counts": self._queue_counts,
        }
        chunk: list[Row] = []
        async for row in loads[table]():
            chunk.append(row)
            if len(chunk) >= CHUNK:
                yield chunk
                chunk = []
        yield chunk

    async def _scan(self, start: bytes, end: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        async for pair in self._rows.scan(start, end):
            self._left -= 1
            if self._left < 0:
                raise StatementTooLarge(
                    f"the statement reads more than {self._scanned_max} rows; select by tenant, id, status or metadata"
                )
            if self._left % CHUNK == 0:  # every 3 ms of reading
                await self._pause()
            yield pair

    def _under(self, kind: int) -> tuple[bytes, bytes]:
        """All rows of a kind whose key begins with the tenant."""
        return keys.under(kind) if self._tenant is None else keys.under(kind, self._tenant)

    async def _jobs(self) -> AsyncIterator[Row]:
        chunk: list[tuple[str, str]] = []
        async for place in self._job_keys():
            chunk.append(place)
            if len(chunk) >= CHUNK:
                for row in await self._read_jobs(chunk):
                    yield row
                chunk = []
        for row in await self._read_jobs(chunk):
            yield row

    async def _job_keys(self) -> AsyncIterator[tuple[str, str]]:
        """Tenant and id of every job that may match."""
        pushdown, tenant = self._pushdown, self._tenant
        if tenant is not None and pushdown.id is not None:
            yield tenant, pushdown.id  # at most one job: no scan at all
            return
        status = _STATUSES.get(pushdown.status or "")
        start, end = self._under(keys.JOB)
        if tenant is not None and pushdown.metadata is not None:
            start, end = keys.under(keys.METADATA, tenant, pushdown.metadata[0], index_value(pushdown.metadata[1]))
        elif tenant is not None and _is_indexed(pushdown.metadata_prefix):
            assert pushdown.metadata_prefix is not None
            # Without the terminator of the last text, the key is a prefix of all keys whose value begins so.
            start = keys.key(keys.METADATA, tenant, *pushdown.metadata_prefix)[:-1]
            end = start + b"\xff"
        elif tenant is not None and status is not None:
            start, end = keys.under(keys.STATUS, tenant, int(status))
        # The best single index; SQLite filters by the other conditions. An id is the best, then metadata, then status.
        async for key, _ in self._scan(start, end):
            of, *_between, job = keys.items(key)
            if pushdown.id is None or pushdown.id == job:
                yield str(of), str(job)

    async def _read_jobs(self, places: Sequence[tuple[str, str]]) -> list[Row]:
        wanted = [keys.key(kind, *place) for place in places for kind in (keys.JOB, keys.LIVE, keys.DONE)]
        values = await self._rows.get_many(wanted)
        rows = []
        for at in range(0, len(values), 3):
            job, live, done = values[at : at + 3]
            state = live if live is not None else done
            # A job that was deleted since its key was read is left out.
            if job is not None and state is not None:
                rows.append(self._job_row(decode_job(job), decode_state(state)))
        return rows

    def _job_row(self, job: Job, state: JobState) -> Row:
        is_scheduled = state.status == JobStatus.SCHEDULED
        is_waiting = is_scheduled and state.next_start_at <= self._now_ms
        return (
            self._shard_id,
            job.tenant,
            job.id,
            job.priority,
            job.enqueued_at,
            as_json(job.payload),
            WAITING if is_waiting else state.status.name.capitalize(),
            state.changed_at,
            job.task_group,
            state.attempt,
            state.next_start_at if is_scheduled else None,
            _json(dict(job.metadata)),
            _limits(job),
        )

    async def _tasks(self) -> AsyncIterator[Row]:
        """Keys of tasks begin with the group, so all are read also for one tenant."""
        async for _, value in self._scan(*keys.under(keys.TASK)):
            queued = decode_task(value)
            task = queued.task
            if self._tenant is None or task.tenant == self._tenant:
                yield (
                    self._shard_id,
                    task.tenant,
                    queued.task_group,
                    queued.start_at,
                    queued.priority,
                    getattr(task, "job", None),
                    getattr(task, "attempt", None),
                    KINDS[type(task)],
                    task.id,
                    _json(list(getattr(task, "held", ()))),
                )

    async def _queues(self) -> AsyncIterator[Row]:
        jobs = await self._jobs_by_task()
        async for key, value in self._scan(*self._under(keys.HOLDER)):
            tenant, name, task_id = (str(item) for item in keys.items(key))
            job, priority = jobs.get(task_id, (None, None))
            yield self._shard_id, tenant, name, "holder", task_id, job, priority, decode_time(value)
        async for request in self._requests():
            yield (
                self._shard_id,
                request.tenant,
                request.key,
                "requester",
                request.task_id,
                request.job,
                request.priority,
                request.start_at,
            )

    async def _jobs_by_task(self) -> dict[str, tuple[str | None, int | None]]:
        """Job and priority of every task that may hold a slot: leased, queued, or waiting for a further slot."""
        found: dict[str, tuple[str | None, int | None]] = {}
        async for request in self._requests():
            found[request.task_id] = request.job, request.priority
        async for _, value in self._scan(*keys.under(keys.TASK)):
            queued = decode_task(value)
            found[queued.task.id] = getattr(queued.task, "job", None), queued.priority
        async for _, value in self._scan(*keys.under(keys.LEASE)):
            task = decode_lease(value).task
            # A lease does not carry the priority, and reading the job for it would cost a read per running task.
            found[task.id] = getattr(task, "job", None), None
        return found

    async def _requests(self) -> AsyncIterator[SlotRequest]:
        async for _, value in self._scan(*self._under(keys.REQUEST)):
            yield decode_request(value)

    async def _tenant_counts(self) -> AsyncIterator[Row]:
        counts: Counter[tuple[str, int]] = Counter()
        async for key, _ in self._scan(*self._under(keys.STATUS)):
            tenant, status, *_rest = keys.items(key)
            assert isinstance(status, int)
            counts[str(tenant), status] += 1
        for (tenant, status), count in sorted(counts.items()):
            yield self._shard_id, tenant, JobStatus(status).name.capitalize(), count

    async def _queue_counts(self) -> AsyncIterator[Row]:
        holders: Counter[tuple[str, str]] = Counter()
        requesters: Counter[tuple[str, str]] = Counter()
        most: dict[tuple[str, str], int] = {}
        floating: set[tuple[str, str]] = set()
        async for key, _ in self._scan(*self._under(keys.HOLDER)):
            tenant, name, *_task = (str(item) for item in keys.items(key))
            holders[tenant, name] += 1
        async for request in self._requests():
            requesters[request.tenant, request.key] += 1
            if request.rest and isinstance(request.rest[0], ConcurrencyLimit):
                # The maximum of a fixed limit is part of each job, so it is known only while one waits.
                most[request.tenant, request.key] = request.rest[0].max_concurrency
        async for key, value in self._scan(*self._under(keys.FLOATING)):
            tenant, name = (str(item) for item in keys.items(key))
            floating.add((tenant, name))
            most[tenant, name] = decode_floating(value).max_concurrency
        for queue in sorted({*holders, *requesters, *floating}):
            kind = "floating" if queue in floating else "concurrency"
            yield self._shard_id, *queue, holders[queue], requesters[queue], most.get(queue), kind


def as_json(payload: bytes) -> str | None:
    """A msgpack payload as JSON text; None for other bytes, or values that JSON cannot represent."""
    try:
        return _json(msgspec.msgpack.decode(payload))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None


def _is_indexed(prefix: tuple[str, str] | None) -> bool:
    return prefix is not None and len(prefix[1]) <= METADATA_INDEXED_CHARS_MAX


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _limits(job: Job) -> str:
    return _json([{"type": _LIMIT_KINDS[type(limit)], **_fields(limit)} for limit in job.limits])


def _fields(limit: msgspec.Struct) -> dict[str, Any]:
    return {name: _plain(getattr(limit, name)) for name in limit.__struct_fields__}


def _plain(value: Any) -> Any:
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
