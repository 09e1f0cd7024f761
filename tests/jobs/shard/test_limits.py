"""The limit chain: slots, rates and floating limits that workers report."""

import asyncio

import pytest

from argosy.base.errors import Conflict, NotFound, Unavailable
from argosy.jobs.model import (
    LEASE_MS,
    ConcurrencyLimit,
    FloatingLimit,
    JobStatus,
    Limit,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
    TaskFailure,
    TaskSuccess,
)
from argosy.jobs.shard.limit_chain import GRANTS_MAX
from argosy.throttle.limits.model import Behavior, RateLimitResponse, Status
from tests.jobs.shard.builders import NOW, T, World, new_job

ONE = ConcurrencyLimit("one", 1)
TWO = ConcurrencyLimit("two", 2)
OVER = RateLimitResponse(Status.OVER_LIMIT)


def rate(**retry: float) -> RateLimit:
    return RateLimit("name", "key", 10, 1_000, retry=RateLimitRetry(**retry))  # type: ignore[arg-type]


# -- slots ------------------------------------------------------------------------------------------------------------


async def test_no_more_jobs_run_than_the_limit(world: World) -> None:
    jobs = [await world.put(limits=(TWO,)) for _ in range(4)]
    leased = await world.lease()
    assert [each.job.id for each in leased] == jobs[:2]
    assert leased[0].task.held == ("two",)
    await world.report(leased[0], TaskSuccess())
    assert [each.job.id for each in await world.lease()] == jobs[2:3]


async def test_slots_are_granted_by_start_then_priority_then_id(world: World) -> None:
    running = await world.put(id="z", limits=(ONE,))
    await world.put(id="late", start_at_ms=NOW + 1, limits=(ONE,))
    await world.put(id="b", limits=(ONE,))
    await world.put(id="a", limits=(ONE,))
    await world.put(id="urgent", priority=0, limits=(ONE,))
    await world.pass_time(1)
    leased_ids = []
    for _ in range(5):
        leased = await world.lease_one()
        leased_ids.append(leased.job.id)
        await world.report(leased, TaskSuccess())
    assert leased_ids == [running, "urgent", "a", "b", "late"]


async def test_jobs_due_together_queue_by_priority(world: World) -> None:
    await world.put(id="a", start_at_ms=NOW + 10, priority=9, limits=(ONE,))
    await world.put(id="b", start_at_ms=NOW + 10, priority=1, limits=(ONE,))
    await world.put(id="c", start_at_ms=NOW + 10, priority=5, limits=(ONE,))
    await world.pass_time(10)
    assert (await world.lease_one()).job.id == "b"


async def test_a_future_job_holds_no_slot_until_its_time(world: World) -> None:
    await world.put(start_at_ms=NOW + 1_000, limits=(ONE,))
    now = await world.put(limits=(ONE,))
    assert (await world.lease_one()).job.id == now


async def test_limits_are_acquired_in_the_jobs_order_under_one_task_id(world: World) -> None:
    await world.put(limits=(TWO, ONE))
    leased = await world.lease_one()
    assert leased.task.held == ("two", "one")
    slots = world.shard.queues.slots
    assert set(slots.holders["tenant", "two"]) == set(slots.holders["tenant", "one"]) == {leased.task.id}


async def test_a_job_waiting_for_its_second_slot_keeps_its_first(world: World) -> None:
    await world.put(limits=(ONE,))
    waiting = await world.put(limits=(TWO, ONE))
    slots = world.shard.queues.slots
    assert (slots.count((T, "two")), slots.count((T, "one"))) == (1, 1)
    await world.shard.cancel(T, waiting)
    assert slots.count((T, "two")) == 0


async def test_a_repeated_key_is_held_once(world: World) -> None:
    await world.put(limits=(ONE, ONE))
    assert (await world.lease_one()).task.held == ("one",)


async def test_tenants_do_not_share_slots(world: World) -> None:
    await world.put(limits=(ONE,))
    await world.put(limits=(ONE,), tenant="other")
    assert len(await world.lease()) == 2


async def test_a_retry_frees_its_slot_during_backoff(world: World) -> None:
    retry = RetryPolicy(retry_count=1, initial_interval_ms=500, max_interval_ms=1_000)
    first = await world.put(limits=(ONE,), retry=retry)
    second = await world.put(limits=(ONE,))
    await world.report(await world.lease_one(), TaskFailure("E"))
    leased = await world.lease_one()
    assert leased.job.id == second
    await world.pass_time(1_000)
    assert await world.lease() == []
    await world.report(leased, TaskSuccess())
    assert (await world.lease_one()).job.id == first


async def test_a_crashed_worker_frees_its_slot(world: World) -> None:
    await world.put(limits=(ONE,))
    second = await world.put(limits=(ONE,))
    await world.lease_one()
    await world.pass_time(LEASE_MS)
    assert (await world.lease_one()).job.id == second


async def test_a_job_waiting_for_a_slot_cannot_be_expedited(world: World) -> None:
    await world.put(limits=(ONE,))
    find_parked = await world.put(limits=(ONE,))
    with pytest.raises(Conflict, match="slot"):
        await world.shard.expedite(T, find_parked)


async def test_an_operator_can_free_all_slots_of_a_tenant(world: World) -> None:
    await world.put(limits=(ONE,))
    second = await world.put(limits=(ONE,))
    await world.put(limits=(ONE,), tenant="other")
    leased = await world.lease()
    assert await world.shard.drop_holders(T) == 1
    assert [each.job.id for each in await world.lease()] == [second]
    assert world.shard.queues.slots.count(("other", "one")) == 1
    for each in leased:
        await world.report(each, TaskSuccess())


async def test_a_waiting_request_survives_reopening(world: World) -> None:
    await world.put(limits=(ONE,))
    second = await world.put(limits=(ONE,))
    leased = await world.lease_one()
    await world.reopen()
    await world.report(leased, TaskSuccess())
    assert (await world.lease_one()).job.id == second


# -- rates ------------------------------------------------------------------------------------------------------------


async def test_a_job_under_its_rate_runs(world: World) -> None:
    await world.put(limits=(rate(),))
    assert await world.lease() == []
    await world.pass_time(0)
    assert len(await world.lease()) == 1
    ((requests,),) = world.limiter.requests
    assert (requests.name, requests.unique_key, requests.hits, requests.limit, requests.duration) == (
        "name",
        "key",
        1,
        10,
        1_000,
    )


async def test_checks_are_batched_by_at_most_a_hundred(world: World) -> None:
    for _ in range(150):
        await world.put(limits=(rate(),))
    await world.pass_time(0)
    assert [len(requests) for requests in world.limiter.requests] == [100, 50]


async def test_a_job_over_its_rate_waits_until_the_bucket_is_reset(world: World) -> None:
    job = await world.put(limits=(rate(),))
    world.limiter.response = RateLimitResponse(Status.OVER_LIMIT, reset_time=NOW + 700)
    await world.pass_time(0)
    assert (await world.view(job)).state.next_start_at == NOW + 700


async def test_without_a_reset_it_backs_off(world: World) -> None:
    job = await world.put(limits=(rate(initial_backoff_ms=100, backoff_multiplier=3.0, max_backoff_ms=500),))
    world.limiter.response = RateLimitResponse(Status.OVER_LIMIT, reset_time=NOW + 999_999)
    waits = []
    for _ in range(4):
        await world.pass_time(0)
        waits.append((await world.view(job)).state.next_start_at - world.now)
        world.now += waits[-1]
    assert waits == [100, 300, 500, 500]


@pytest.mark.parametrize("response", [Unavailable("away"), RateLimitResponse(error="bad")])
async def test_a_limiter_error_is_retried_without_bound(
    world: World, response: RateLimitResponse | Unavailable
) -> None:
    job = await world.put(limits=(rate(initial_backoff_ms=100, max_retries=1),))
    world.limiter.response = response
    for _ in range(5):
        await world.pass_time(0)
        assert (await world.view(job)).state.next_start_at == world.now + 100
        world.now += 100
    world.limiter.response = RateLimitResponse()
    await world.pass_time(0)
    assert len(await world.lease()) == 1


async def test_a_slot_is_freed_when_the_job_exhausts_its_rate_retries(world: World) -> None:
    first = await world.put(limits=(ONE, rate(max_retries=1)))
    second = await world.put(limits=(ONE,))
    world.limiter.response = OVER
    for _ in range(2):
        await world.pass_time(30_000)
    assert await world.status(first) == JobStatus.FAILED
    assert (await world.lease_one()).job.id == second


async def test_a_job_cancelled_during_the_rate_check_stays_cancelled(world: World) -> None:
    job = await world.put(limits=(rate(),))
    checking = asyncio.ensure_future(world.shard.check_rates())
    await asyncio.sleep(0)  # up to the limiter's first await
    await world.shard.cancel(T, job)
    assert await checking == 1
    assert await world.lease() == []
    assert await world.status(job) == JobStatus.CANCELLED


async def test_the_drain_flag_is_sent_with_gubernators_number(world: World) -> None:
    await world.put(limits=(RateLimit("n", "k", 1, 1, behavior=16 | 8),))
    await world.pass_time(0)
    assert world.limiter.requests[0][0].behavior == Behavior.DRAIN_OVER_LIMIT | Behavior.RESET_REMAINING == 40


# -- floating ---------------------------------------------------------------------------------------------------------

FLOATING: tuple[Limit, ...] = (FloatingLimit("f", 1, 1_000, {"why": "test"}),)


async def lease_refresh(world: World) -> str:
    """Three jobs, one of them running; returns the leased refresh task."""
    for _ in range(3):
        await world.put(limits=FLOATING)
    assert len(await world.lease()) == 1
    await world.pass_time(999)
    assert (await world.shard.lease("g", "w", 1))[1] == []
    await world.pass_time(1)
    (refresh,) = (await world.shard.lease("g", "w", 1))[1]
    assert (refresh.task.key, refresh.state.max_concurrency, refresh.state.metadata) == ("f", 1, {"why": "test"})
    return refresh.task.id


async def test_a_raised_floating_limit_releases_waiting_jobs(world: World) -> None:
    await world.shard.report_refresh(await lease_refresh(world), 3)
    assert len(await world.lease()) == 2
    state = world.shard.queues.floating[T, "f"]
    assert (state.max_concurrency, state.refreshed_at, state.failures) == (3, NOW + 1_000, 0)


async def test_a_limit_raised_by_many_is_granted_in_durable_steps(world: World) -> None:
    await world.shard.enqueue([new_job(limits=FLOATING) for _ in range(GRANTS_MAX + 101)])
    await world.lease()
    await world.pass_time(1_000)
    (refresh,) = (await world.shard.lease("g", "w", 1))[1]
    await world.shard.report_refresh(refresh.task.id, 10_000)
    assert world.shard.queues.tasks.waiting == GRANTS_MAX
    await world.reopen()
    await world.pass_time(0)
    assert world.shard.queues.tasks.waiting == GRANTS_MAX + 100


async def test_a_failed_refresh_is_retried_with_growing_delays(world: World) -> None:
    task_id = await lease_refresh(world)
    for wait_ms in (1_000, 2_000, 4_000):
        await world.shard.report_refresh(task_id, None, why="no idea")
        await world.pass_time(wait_ms - 1)
        assert (await world.shard.lease("g", "w", 1))[1] == []
        await world.pass_time(1)
        ((refresh,)) = (await world.shard.lease("g", "w", 1))[1]
        task_id = refresh.task.id


async def test_a_refresh_of_a_crashed_worker_is_retried(world: World) -> None:
    await lease_refresh(world)
    await world.pass_time(LEASE_MS)
    assert len((await world.shard.lease("g", "w", 10))[1]) == 1


async def test_no_refresh_is_requested_without_waiting_jobs(world: World) -> None:
    first = await world.put(limits=FLOATING)
    second = await world.put(limits=FLOATING)
    await world.shard.cancel(T, second)
    await world.pass_time(1_000)
    assert [each.job.id for each in await world.lease()] == [first]
    assert not world.shard.queues.floating[T, "f"].is_refreshing


async def test_an_unleased_refresh_cannot_be_reported(world: World) -> None:
    with pytest.raises(NotFound, match="lease not found"):
        await world.shard.report_refresh("nothing", 3)
    task_id = await lease_refresh(world)
    (error,) = await world.shard.report([(task_id, TaskSuccess())])
    assert isinstance(error, NotFound)


async def test_later_jobs_do_not_change_a_floating_limit(world: World) -> None:
    await world.put(limits=FLOATING)
    await world.put(limits=(FloatingLimit("f", 99, 5, {}),))
    assert len(await world.lease()) == 1
