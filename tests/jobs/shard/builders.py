"""What the tests of the shard are made of: a clock to turn, a ledger that can crash, a limiter to tell what to say."""

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
    """Rows in this process: staged at once, durable when `flush` says so; by default that is at once, too."""

    def __init__(self, kept: SortedDict | None = None) -> None:
        self.kept = SortedDict(kept or {})
        self.seen = SortedDict(self.kept)
        self.is_manual = False
        self.failure: ArgosyError | None = None
        self._staged: list[tuple[Batch, asyncio.Future[None]]] = []

    def stage(self, batch: Batch) -> Awaitable[None]:
        if self.failure is not None:
            raise self.failure
        _apply(self.seen, batch)
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._staged.append((batch, durable))
        if not self.is_manual:
            self.flush()
        return durable

    async def wait_capacity(self) -> None:
        """Memory takes all."""

    def flush(self, stages: int | None = None) -> None:
        """The first so many stages become durable."""
        for _ in range(len(self._staged) if stages is None else min(stages, len(self._staged))):
            batch, durable = self._staged.pop(0)
            _apply(self.kept, batch)
            if not durable.done():
                durable.set_result(None)

    def fail(self, error: ArgosyError) -> None:
        """Nothing that was not durable ever will be."""
        self.failure = error
        for _, durable in self._staged:
            if not durable.done():
                durable.set_exception(error)
        self._staged.clear()

    @property
    def staged(self) -> int:
        return len(self._staged)

    async def get(self, key: bytes) -> bytes | None:
        (found,) = await self.get_many([key])
        return found

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found = [self.seen.get(key) for key in keys]
        await asyncio.sleep(0)  # as any store would, it lets others in, and what was read may be old
        return found

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        places = self.seen.irange(start, end, inclusive=(True, False), reverse=reverse)
        found = [(key, self.seen[key]) for key in islice(places, limit)]
        await asyncio.sleep(0)
        for pair in found:
            yield pair


def _apply(rows: SortedDict, batch: Batch) -> None:
    for key, value in batch.ops():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


class Limiter:
    """Says what it was told to say: an answer for each request, or an error for the whole call."""

    def __init__(self) -> None:
        self.asked: list[list[RateLimitRequest]] = []
        self.says: RateLimitResponse | ArgosyError = RateLimitResponse()

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        self.asked.append(list(requests))
        await asyncio.sleep(0)
        if isinstance(self.says, ArgosyError):
            raise self.says
        return [self.says] * len(requests)

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


class World:
    """A shard and all it was given; `reopen` reads it anew from what is durable."""

    def __init__(self, *, options: ShardOptions | None = None) -> None:
        self.now = NOW
        self.options = options or ShardOptions()
        self.store = StagedStore()
        self.limiter = Limiter()
        self._ids = count(1)
        self.shard = self._made(Shard)

    def _made(self, kind: type[Shard]) -> Shard:
        return kind(
            self.store,
            now_ms=lambda: self.now,
            new_id=lambda: f"id-{next(self._ids):06}",
            random=seeded_random(7),
            limiter=self.limiter,
            options=self.options,
        )

    async def reopen(self) -> Shard:
        """As after a crash: what was not durable is gone."""
        self.store = StagedStore(self.store.kept)
        self.shard = self._made(Shard)
        await self.shard.open()
        return self.shard

    def service(self) -> ShardService:
        made = self._made(ShardService)
        assert isinstance(made, ShardService)
        self.shard = made
        return made

    async def pass_time(self, ms: int) -> None:
        """Later, with all done that is due by then."""
        self.now += ms
        for _ in range(20):
            await self.shard.tick()
            checked = await self.shard.check_rates()
            at = self.shard.deadline()
            if not checked and (at is None or at > self.now):
                return
        raise AssertionError("there is no end to what is due")

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


async def turns(count: int = 20) -> None:
    """Lets everybody go on a little."""
    for _ in range(count):
        await asyncio.sleep(0)
