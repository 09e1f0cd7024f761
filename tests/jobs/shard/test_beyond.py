"""Job dependencies, unique keys, schedules, retention."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.jobs import keys
from argosy.jobs.model import (
    AFTER_FAILED,
    ConcurrencyLimit,
    JobStatus,
    NewJob,
    Schedule,
    ShardOptions,
    TaskCancelled,
    TaskFailure,
    TaskSuccess,
)
from tests.jobs.shard.builders import NOW, T, World, new_job

MINUTE_MS = 60_000

# -- after ------------------------------------------------------------------------------------------------------------


async def test_a_job_runs_after_all_its_dependencies_succeeded(world: World) -> None:
    first, second = await world.put(), await world.put()
    third = await world.put(after=(first, second))
    leased = await world.lease()
    assert {each.job.id for each in leased} == {first, second}
    await world.report(leased[0], TaskSuccess())
    await world.pass_time(0)
    assert await world.lease() == []
    await world.report(leased[1], TaskSuccess())
    await world.pass_time(0)
    assert (await world.lease_one()).job.id == third


@pytest.mark.parametrize("outcome", [TaskFailure("E"), TaskCancelled()])
async def test_a_failed_dependency_fails_its_dependents_transitively(
    world: World, outcome: TaskFailure | TaskCancelled
) -> None:
    first = await world.put()
    second = await world.put(after=(first,))
    third = await world.put(after=(second,))
    await world.report(await world.lease_one(), outcome)
    await world.pass_time(0)
    for job in (second, third):
        view = await world.view(job)
        assert (view.state.status, view.attempts[0].error_code) == (JobStatus.FAILED, AFTER_FAILED)


async def test_a_completed_dependency_is_not_waited_for(world: World) -> None:
    first = await world.put()
    await world.report(await world.lease_one(), TaskSuccess())
    second = await world.put(after=(first,))
    assert (await world.lease_one()).job.id == second


async def test_a_job_after_a_failed_one_fails_at_once(world: World) -> None:
    first = await world.put()
    await world.report(await world.lease_one(), TaskFailure("E"))
    second = await world.put(after=(first,))
    assert await world.status(second) == JobStatus.FAILED
    await world.shard.restart(T, second)
    assert (await world.lease_one()).job.id == second


async def test_a_job_after_a_missing_one_is_rejected(world: World) -> None:
    answers = await world.shard.enqueue([new_job(after=("nothing",)), new_job(id="a"), new_job(id="b", after=("a",))])
    assert isinstance(answers[0], NotFound)
    assert answers[1:] == ["a", "b"]


async def test_waiting_survives_a_crash_between_the_dependencys_end_and_the_start(world: World) -> None:
    first = await world.put()
    second = await world.put(after=(first,))
    await world.report(await world.lease_one(), TaskSuccess())
    await world.reopen()
    await world.pass_time(0)
    assert (await world.lease_one()).job.id == second


async def test_deleting_a_job_first_resolves_its_dependents(world: World) -> None:
    first = await world.put()
    second = await world.put(after=(first,))
    await world.report(await world.lease_one(), TaskSuccess())
    await world.shard.delete(T, first)
    assert (await world.lease_one()).job.id == second


async def test_a_waiting_job_can_be_cancelled_but_not_leased_or_expedited(world: World) -> None:
    first = await world.put(start_at_ms=NOW + 1_000)
    second = await world.put(after=(first,), start_at_ms=NOW + 1_000)
    with pytest.raises(Conflict, match="runs after"):
        await world.shard.lease_job(T, second, "w")
    with pytest.raises(Conflict, match="runs after"):
        await world.shard.expedite(T, second)
    await world.shard.cancel(T, second)
    assert await world.status(second) == JobStatus.CANCELLED
    assert world.shard.queues.waiters == {}


async def test_a_job_with_dependencies_passes_its_limits(world: World) -> None:
    first = await world.put(limits=(ConcurrencyLimit("one", 1),))
    second = await world.put(after=(first,), limits=(ConcurrencyLimit("one", 1),))
    await world.put(limits=(ConcurrencyLimit("one", 1),), start_at_ms=NOW - 1)
    await world.report(await world.lease_one(), TaskSuccess())
    await world.pass_time(0)
    leased = await world.lease()
    assert len(leased) == 1
    assert leased[0].job.id != second


# -- unique -----------------------------------------------------------------------------------------------------------


async def test_a_taken_unique_key_returns_the_job_that_holds_it(world: World) -> None:
    first = await world.put(unique_key="u")
    assert await world.put(unique_key="u") == first
    assert await world.put(unique_key="u", tenant="other") != first
    for leased in await world.lease():
        await world.report(leased, TaskSuccess())
    assert await world.put(unique_key="u") != first


async def test_a_unique_key_is_kept_for_its_time_after_the_job_is_done(world: World) -> None:
    first = await world.put(unique_key="u", unique_for_ms=1_000)
    await world.report(await world.lease_one(), TaskSuccess())
    await world.pass_time(999)
    assert await world.put(unique_key="u") == first
    await world.reopen()
    assert await world.put(unique_key="u") == first
    await world.pass_time(1)
    assert world.shard.queues.claims == {}
    assert await world.put(unique_key="u") != first


async def test_an_unfinished_job_keeps_its_unique_key_past_its_time(world: World) -> None:
    first = await world.put(unique_key="u", unique_for_ms=10, start_at_ms=NOW + 5_000)
    await world.pass_time(100)
    assert await world.put(unique_key="u") == first


async def test_a_job_whose_unique_key_is_taken_is_not_restarted(world: World) -> None:
    first = await world.put(unique_key="u")
    await world.shard.cancel(T, first)
    second = await world.put(unique_key="u")
    with pytest.raises(Conflict, match=second):
        await world.shard.restart(T, first)
    await world.shard.cancel(T, second)
    await world.shard.restart(T, first)
    assert await world.put(unique_key="u") == first


# -- schedules --------------------------------------------------------------------------------------------------------


def every_five_minutes(**fields: object) -> Schedule:
    defaults = {"name": "s", "tenant": T, "cron": "*/5 * * * *", "timezone": "UTC", "job": NewJob("g"), "next_at": 0}
    return Schedule(**{**defaults, **fields})  # type: ignore[arg-type]


async def test_a_schedule_enqueues_a_job_at_each_due_time(world: World) -> None:
    await world.shard.put_schedule(every_five_minutes())
    (schedule,) = await world.shard.schedules(T)
    assert schedule.next_at % (5 * MINUTE_MS) == 0
    assert schedule.next_at > NOW
    await world.pass_time(schedule.next_at - NOW)
    leased = await world.lease_one()
    assert (leased.job.id, leased.job.tenant, leased.job.schedule) == (f"s@{schedule.next_at}", T, "s")
    await world.pass_time(5 * MINUTE_MS)
    assert len(await world.lease()) == 1


async def test_missed_schedule_times_run_once_after_downtime(world: World) -> None:
    await world.shard.put_schedule(every_five_minutes())
    world.now += 60 * MINUTE_MS
    await world.reopen()
    await world.pass_time(0)
    assert len(await world.lease()) == 1
    (schedule,) = await world.shard.schedules(T)
    assert schedule.next_at > world.now


async def test_a_paused_schedule_does_not_run_and_a_deleted_one_is_gone(world: World) -> None:
    await world.shard.put_schedule(every_five_minutes(is_paused=True))
    await world.pass_time(60 * MINUTE_MS)
    assert await world.lease() == []
    await world.shard.put_schedule(every_five_minutes())
    await world.shard.delete_schedule(T, "s")
    await world.pass_time(60 * MINUTE_MS)
    assert await world.lease() == []
    with pytest.raises(NotFound):
        await world.shard.delete_schedule(T, "s")


async def test_a_schedule_skips_a_time_while_its_unique_job_exists(world: World) -> None:
    await world.shard.put_schedule(every_five_minutes(job=NewJob("g", unique_key="only")))
    await world.pass_time(15 * MINUTE_MS)
    await world.pass_time(15 * MINUTE_MS)
    assert len(await world.lease()) == 1


@pytest.mark.parametrize(
    "fields", [{"cron": "* * * *"}, {"timezone": "Nowhere/Land"}, {"name": ""}, {"cron": "0 0 31 2 *"}]
)
async def test_an_invalid_schedule_is_rejected(world: World, fields: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        await world.shard.put_schedule(every_five_minutes(**fields))
    assert await world.shard.schedules(T) == []


# -- retention --------------------------------------------------------------------------------------------------------


async def world_with_retention(retention_ms: int) -> World:
    world = World(options=ShardOptions(retention_ms=retention_ms))
    await world.shard.open()
    return world


async def test_a_finished_job_is_deleted_after_its_retention() -> None:
    world = await world_with_retention(1_000)
    job = await world.put(metadata={"k": "v"})
    await world.report(await world.lease_one(), TaskSuccess())
    await world.pass_time(999)
    assert await world.status(job) == JobStatus.SUCCEEDED
    await world.pass_time(1)
    with pytest.raises(NotFound):
        await world.view(job)
    assert [key for key in world.store.visible if key[0] != keys.META] == []


async def test_a_job_may_set_its_own_retention() -> None:
    world = await world_with_retention(1_000)
    long, short = await world.put(retention_ms=5_000), await world.put(retention_ms=10)
    for leased in await world.lease():
        await world.report(leased, TaskSuccess())
    await world.reopen()
    await world.pass_time(10)
    assert [view.job.id for view in await world.shard.find(T)] == [long]
    await world.pass_time(4_989)
    assert await world.status(long) == JobStatus.SUCCEEDED
    await world.pass_time(1)
    assert await world.shard.find(T) == []
    assert short != long


async def test_a_restarted_job_is_not_deleted() -> None:
    world = await world_with_retention(1_000)
    job = await world.put(start_at_ms=NOW + 50_000)
    await world.shard.cancel(T, job)
    await world.shard.restart(T, job)
    await world.pass_time(5_000)
    assert await world.status(job) == JobStatus.SCHEDULED
    await world.check()


async def test_a_longer_retention_applies_to_finished_jobs() -> None:
    world = await world_with_retention(1_000)
    job = await world.put()
    await world.report(await world.lease_one(), TaskSuccess())
    world.options = ShardOptions(retention_ms=5_000)
    await world.reopen()
    await world.pass_time(1_000)
    assert await world.status(job) == JobStatus.SUCCEEDED
    await world.pass_time(4_000)
    assert await world.shard.find(T) == []


async def test_a_lease_expires_in_time_on_a_node_with_a_slow_clock(world: World) -> None:
    job = await world.put()
    await world.lease_one()
    world.now -= 3_600_000
    await world.reopen()
    await world.pass_time(world.options.lease_ms - 1)
    assert await world.status(job) == JobStatus.RUNNING
    await world.pass_time(1)
    assert await world.status(job) != JobStatus.RUNNING


async def test_a_longer_lease_keeps_its_duration_after_a_settings_change(world: World) -> None:
    job, long_ms = await world.put(), world.options.lease_ms
    leased = await world.lease_one()
    world.options = ShardOptions(lease_ms=long_ms // 10)
    await world.reopen()
    await world.pass_time(long_ms - 1)
    await world.shard.heartbeat("w", leased.task.id)
    await world.pass_time(long_ms - 1)
    assert await world.status(job) == JobStatus.RUNNING
    await world.pass_time(1)
    assert await world.status(job) != JobStatus.RUNNING


async def test_many_expired_jobs_are_deleted_in_bounded_steps() -> None:
    world = await world_with_retention(1_000)
    for _ in range(250):
        await world.put()
    await world.shard.report([(each.task.id, TaskSuccess()) for each in await world.lease(1_000)])
    world.now += 1_000
    await world.shard.tick()
    assert len(await world.shard.find(T, limit=1_000)) == 150
    await world.pass_time(0)
    assert await world.shard.find(T) == []
