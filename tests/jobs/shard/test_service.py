"""A running shard: background ticks, and workers that wait."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Fenced, Invalid, Throttled, Unavailable
from argosy.jobs.model import WORKER_CRASHED, JobStatus, NewJob, RateLimit, Schedule, ShardOptions, TaskSuccess
from argosy.jobs.shard import shard as shard_module
from argosy.jobs.shard.lease_tasks import Leased
from argosy.jobs.shard.shard import ShardService
from tests.jobs.shard.builders import Limiter, StagedStore, T, new_job

WAIT_S = 20.0  # far longer than anything here takes


class Live:
    """A service on the real clock."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.store = StagedStore()
        self.limiter = Limiter()
        self.numbers = 0
        self.shard = ShardService(
            self.store,
            now_ms=self.now_ms,
            new_id=self.new_id,
            random=seeded_random(1),
            limiter=self.limiter,
            options=ShardOptions(lease_ms=50),
        )

    def now_ms(self) -> int:
        return int(self.clock.wall() * 1000)

    def new_id(self) -> str:
        self.numbers += 1
        return f"id-{self.numbers}"


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    live = Live()
    await live.shard.start()
    yield live
    await live.shard.close()


async def start_waiting(live: Live, count: int) -> "list[asyncio.Task[Leased]]":
    """`count` waiting workers."""
    calls = [asyncio.ensure_future(live.shard.lease("g", f"w{n}", 1, wait_s=WAIT_S)) for n in range(count)]
    await wait_until(lambda: live.shard.waiting == count)
    return calls


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 -- the condition has no event
            await asyncio.sleep(0)


async def test_a_worker_that_waits_gets_a_job_as_soon_as_it_is_enqueued(live: Live) -> None:
    (call,) = await start_waiting(live, 1)
    await live.shard.enqueue([new_job(id="a")])
    assert [each.job.id for each in (await call)[0]] == ["a"]


async def test_a_worker_that_waits_gets_a_job_when_its_time_comes_and_not_before(live: Live) -> None:
    (call,) = await start_waiting(live, 1)
    start = live.now_ms() + 40
    await live.shard.enqueue([new_job(id="a", start_at_ms=start)])
    assert [each.job.id for each in (await call)[0]] == ["a"]
    assert live.now_ms() >= start


async def test_many_waiting_workers_get_one_job_each(live: Live) -> None:
    calls = await start_waiting(live, 200)
    await live.shard.enqueue([new_job() for _ in range(200)])
    leased = [await call for call in calls]
    assert len({each.task.id for tasks, _ in leased for each in tasks}) == 200


async def test_many_jobs_due_together_wake_many_workers(live: Live) -> None:
    calls = await start_waiting(live, 50)
    start = live.now_ms() + 30
    await live.shard.enqueue([new_job(start_at_ms=start) for _ in range(50)])
    assert len([each for call in calls for each in (await call)[0]]) == 50


async def test_a_wait_without_a_job_returns_empty(live: Live) -> None:
    assert await live.shard.lease("g", "w", 1, wait_s=0.01) == ([], [])
    assert live.shard.waiting == 0


async def test_a_cancelled_wait_leaves_its_job_to_the_next(live: Live) -> None:
    first, second = await start_waiting(live, 2)
    await live.shard.enqueue([new_job(id="a")])
    first.cancel()
    leased = [each.job.id for each in (await second)[0]]
    await asyncio.gather(first, return_exceptions=True)
    assert leased == ["a"] or not first.cancelled()


async def test_leases_expire_without_a_call(live: Live) -> None:
    await live.shard.enqueue([new_job(id="a")])
    await live.shard.lease("g", "w", 1)
    await wait_until(lambda: not live.shard.queues.leases.by_task)
    view = await live.shard.get(T, "a", with_attempts=True)
    assert (view.state.status, view.attempts[0].error_code) == (JobStatus.FAILED, WORKER_CRASHED)


async def test_rates_are_checked_without_a_call(live: Live) -> None:
    (call,) = await start_waiting(live, 1)
    await live.shard.enqueue([new_job(id="a", limits=(RateLimit("n", "k", 1, 1),))])
    assert [each.job.id for each in (await call)[0]] == ["a"]
    assert len(live.limiter.requests) == 1


async def test_dependents_are_released_without_a_call(live: Live) -> None:
    await live.shard.enqueue([new_job(id="a"), new_job(id="b", after=("a",))])
    (leased,), _ = await live.shard.lease("g", "w", 1)
    (call,) = await start_waiting(live, 1)
    await live.shard.report([(leased.task.id, TaskSuccess())])
    assert [each.job.id for each in (await call)[0]] == ["b"]


async def test_schedules_are_read_when_the_shard_is_opened(live: Live) -> None:
    await live.shard.put_schedule(Schedule("s", T, "* * * * *", "UTC", NewJob("g"), 0))
    again = Live()
    again.store = StagedStore(live.store.durable)
    again.shard = ShardService(
        again.store,
        now_ms=lambda: live.now_ms() + 120_000,
        new_id=again.new_id,
        random=seeded_random(1),
        limiter=again.limiter,
    )
    await again.shard.start()
    (leased,), _ = await again.shard.lease("g", "w", 1, wait_s=WAIT_S)
    assert leased.job.schedule == "s"
    await again.shard.close()


async def test_a_fenced_shard_stops_at_once_and_fails_waiting_calls(live: Live) -> None:
    calls = await start_waiting(live, 3)
    live.store.is_manual = True
    enqueued = asyncio.ensure_future(live.shard.enqueue([new_job(task_group="other")]))
    await wait_until(lambda: live.store.staged > 0)
    live.store.fail(Fenced("another has it"))
    for call in (enqueued, *calls):
        with pytest.raises(Fenced):
            await call
    await live.shard.wait_stopped()
    assert isinstance(live.shard.failure, Fenced)


async def test_closing_fails_waiting_calls_and_is_idempotent(live: Live) -> None:
    (call,) = await start_waiting(live, 1)
    await live.shard.close()
    await live.shard.close()
    with pytest.raises(Unavailable, match="closed"):
        await call


async def test_waiting_workers_and_their_wait_are_bounded(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "WAITERS_MAX", 1)
    (call,) = await start_waiting(live, 1)
    with pytest.raises(Throttled):
        await live.shard.lease("g", "w", 1, wait_s=1.0)
    with pytest.raises(Invalid, match="wait_s"):
        await live.shard.lease("g", "w", 1, wait_s=1e9)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
