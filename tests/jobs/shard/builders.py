"""Builders for the shard's tests: a manual clock, a ledger that can crash, a rate limiter with a scripted response."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from itertools import count, islice

from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from argosy.base.clock import seeded_random
from argosy.base.errors import ArgosyError
from argosy.base.kv import Batch
from argosy.jobs.model import JobStatus, JobView, LeasedTask, NewJob, ShardOptions
from argosy.jobs.shard.audit import audit
from argosy.jobs.shard.shard import Shard, ShardService
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse

NOW = 1_700_000_000_000
T = "tenant"


class StagedStore:
    """Rows in this process: staged at once, and durable on `flush`; by default also at once."""

    def __init__(self, durable: SortedDict | None = None) -> None:
        self.durable = SortedDict(durable or {})
        self.visible = SortedDict(self.durable)
        self.is_manual = False
        self.failure: ArgosyError | None = None
        self._staged: list[tuple[Batch, asyncio.Future[None]]] = []

    def stage(self, batch: Batch) -> Awaitable[None]:
        if self.failure is not None:
            raise self.failure
        _apply(self.visible, batch)
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._staged.append((batch, durable))
        if not self.is_manual:
            self.flush()
        return durable

    async def wait_capacity(self) -> None:
        """Memory accepts everything."""

    def flush(self, stages: int | None = None) -> None:
        """The first `stages` batches become durable."""
        for _ in range(len(self._staged) if stages is None else min(stages, len(self._staged))):
            batch, durable = self._staged.pop(0)
            _apply(self.durable, batch)
            if not durable.done():
                durable.set_result(None)

    def fail(self, error: ArgosyError) -> None:
        """Lose everything that is not durable."""
        self.failure = error
        for _, durable in self._staged:
            if not durable.done():
                durable.set_exception(error)
        self._staged.clear()

    @property
    def staged(self) -> int:
        return len(self._staged)

    async def get(self, key: bytes) -> bytes | None:
        (value,) = await self.get_many([key])
        return value

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values = [self.visible.get(key) for key in keys]
        await asyncio.sleep(0)  # as in any store, other tasks run here, so the result may be stale
        return values

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        places = self.visible.irange(start, end, inclusive=(True, False), reverse=reverse)
        values = [(key, self.visible[key]) for key in islice(places, limit)]
        await asyncio.sleep(0)
        for pair in values:
            yield pair


def _apply(rows: SortedDict, batch: Batch) -> None:
    for key, value in batch.ops():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


class Limiter:
    """Returns a scripted response for each request, or raises a scripted error for the whole call."""

    def __init__(self) -> None:
        self.requests: list[list[RateLimitRequest]] = []
        self.response: RateLimitResponse | ArgosyError = RateLimitResponse()

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        self.requests.append(list(requests))
        await asyncio.sleep(0)
        if isinstance(self.response, ArgosyError):
            raise self.response
        return [self.response] * len(requests)

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


class World:
    """A shard with scripted dependencies; `reopen` reads it again from the durable rows."""

    def __init__(self, *, options: ShardOptions | None = None) -> None:
        self.now = NOW
        self.options = options or ShardOptions()
        self.store = StagedStore()
        self.limiter = Limiter()
        self._ids = count(1)
        self.shard = self._create_shard(Shard)

    def _create_shard(self, kind: type[Shard]) -> Shard:
        return kind(
            self.store,
            now_ms=lambda: self.now,
            new_id=lambda: f"id-{next(self._ids):06}",
            random=seeded_random(7),
            limiter=self.limiter,
            options=self.options,
        )

    async def reopen(self) -> Shard:
        """As after a crash: writes that were not durable are lost."""
        self.store = StagedStore(self.store.durable)
        self.shard = self._create_shard(Shard)
        await self.shard.open()
        return self.shard

    def service(self) -> ShardService:
        made = self._create_shard(ShardService)
        assert isinstance(made, ShardService)
        self.shard = made
        return made

    async def pass_time(self, ms: int) -> None:
        """Advance the clock, and process everything due by then."""
        self.now += ms
        for _ in range(20):
            await self.shard.tick()
            checked = await self.shard.check_rates()
            at = self.shard.deadline()
            if not checked and (at is None or at > self.now):
                return
        raise AssertionError("due work never ends")

    async def put(self, **fields: object) -> str:
        (answer,) = await self.shard.enqueue([new_job(**fields)])
        assert isinstance(answer, str), answer
        return answer

    async def lease(self, tasks_max: int = 10, *, group: str = "g", worker: str = "w") -> list[LeasedTask]:
        return (await self.shard.lease(group, worker, tasks_max))[0]

    async def lease_one(self, *, worker: str = "w") -> LeasedTask:
        (leased,) = await self.lease(1, worker=worker)
        return leased

    async def report(self, leased: LeasedTask, outcome: object) -> None:
        (error,) = await self.shard.report([(leased.task.id, outcome)])  # type: ignore[list-item]
        assert error is None, error

    async def view(self, job: str, *, tenant: str = T) -> JobView:
        return await self.shard.get(tenant, job, with_attempts=True)

    async def status(self, job: str, *, tenant: str = T) -> JobStatus:
        return (await self.view(job, tenant=tenant)).state.status

    async def check(self) -> None:
        assert await audit(self.shard) == []


def new_job(**fields: object) -> NewJob:
    return NewJob(**{"task_group": "g", "tenant": T, **fields})  # type: ignore[arg-type]


async def let_tasks_run(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)
