"""Acknowledgement only after durability; crashes; races between calls about one job."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Conflict, Fenced, Unavailable
from argosy.jobs.model import ConcurrencyLimit, JobStatus, RetryPolicy, TaskCancelled, TaskFailure, TaskSuccess
from argosy.jobs.shard.audit import audit
from tests.jobs.shard.builders import T, World, let_tasks_run, new_job


async def start_call(call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    task = asyncio.ensure_future(call)
    await let_tasks_run()
    return task


async def test_nothing_is_acknowledged_before_it_is_durable(world: World) -> None:
    world.store.is_manual = True
    enqueued = await start_call(world.put(id="a"))
    leased = await start_call(world.lease_one())
    assert world.store.staged == 2
    assert not enqueued.done()
    assert not leased.done()
    world.store.flush(1)
    assert await enqueued == "a"
    assert not leased.done()
    world.store.flush()
    assert (await leased).job.id == "a"


async def test_a_rejection_waits_until_its_cause_is_durable(world: World) -> None:
    world.store.is_manual = True
    first = await start_call(world.put(id="a", unique_key="u"))
    rejection = await start_call(world.shard.enqueue([new_job(id="a")]))
    claimed = await start_call(world.put(unique_key="u"))
    viewed = await start_call(world.view("a"))
    assert not rejection.done()
    assert not claimed.done()
    assert not viewed.done()
    world.store.is_manual = False
    world.store.flush()
    await first
    assert isinstance((await rejection)[0], Conflict)
    assert await claimed == "a"
    assert (await viewed).job.id == "a"


async def test_a_fenced_shard_serves_no_more_calls() -> None:
    world = World()
    await world.shard.open()
    world.store.is_manual = True
    enqueued = await start_call(world.put())
    world.store.fail(Fenced("another has it"))
    with pytest.raises(Fenced):
        await enqueued
    for call in (world.put(), world.lease(), world.view("a"), world.shard.cancel(T, "a"), world.shard.tick()):
        with pytest.raises(Fenced):
            await call


async def test_a_failed_stage_ends_the_shard() -> None:
    world = World()
    await world.shard.open()
    world.store.failure = Unavailable("full")
    with pytest.raises(Unavailable):
        await world.put()
    world.store.failure = None
    with pytest.raises(Unavailable, match="full"):
        await world.put()


async def test_a_cancelled_lease_call_returns_its_tasks(world: World) -> None:
    await world.put(id="a")
    call = asyncio.ensure_future(world.lease())
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [each.job.id for each in await world.lease()] == ["a"]


@pytest.mark.parametrize("head_start", range(4))
async def test_a_job_is_either_leased_or_cancelled_in_any_interleaving(world: World, head_start: int) -> None:
    await world.put(id="a")
    cancelling = asyncio.ensure_future(world.shard.cancel(T, "a"))
    await let_tasks_run(head_start)
    leased = await world.lease()
    await cancelling
    status = await world.status("a")
    assert (len(leased), status) in ((0, JobStatus.CANCELLED), (1, JobStatus.RUNNING))


async def test_concurrent_enqueues_of_one_id_have_one_winner(world: World) -> None:
    answers = await asyncio.gather(*(world.shard.enqueue([new_job(id="a", payload=bytes([n]))]) for n in range(20)))
    assert sum(answer == ["a"] for answer in answers) == 1
    assert sum(isinstance(answer[0], Conflict) for answer in answers) == 19


async def test_concurrent_changes_of_one_job_are_serialized(world: World) -> None:
    await world.put(id="a")
    calls = [world.shard.cancel(T, "a") for _ in range(5)] + [world.shard.restart(T, "a") for _ in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(answer) for answer in answers} <= {type(None), Conflict}
    cancelled, restarted = (sum(answer is None for answer in some) for some in (answers[:5], answers[5:]))
    is_cancelled = await world.status("a") == JobStatus.CANCELLED
    assert cancelled - restarted == is_cancelled


async def test_concurrent_leases_never_get_the_same_task(world: World) -> None:
    for _ in range(50):
        await world.put()
    answers = await asyncio.gather(*(world.lease(7, worker=f"w{n}") for n in range(10)))
    ids = [each.task.id for answer in answers for each in answer]
    assert len(ids) == len(set(ids)) == 50  # JOB-2


ONE = ConcurrencyLimit("one", 1)
RETRY = RetryPolicy(retry_count=1)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_everything_acknowledged_survives_a_crash(data: st.DataObject) -> None:
    """JOB-1, JOB-2 and JOB-3 over crashes that lose any tail of the staged writes."""
    asyncio.run(_check_crashes(data))


async def _check_crashes(data: st.DataObject) -> None:
    world = World()
    await world.shard.open()
    acknowledged: set[str] = set()
    finished: dict[str, JobStatus] = {}
    for life in range(3):
        world.store.is_manual = True
        calls: list[asyncio.Task[Any]] = []
        for number in range(data.draw(st.integers(1, 12))):
            calls.append(await start_call(_some_call(world, data, f"{life}-{number}", acknowledged, finished)))
            if data.draw(st.booleans()):
                world.store.flush(data.draw(st.integers(1, 3)))
                await let_tasks_run()
        world.store.flush(data.draw(st.integers(0, world.store.staged)))
        await let_tasks_run()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await world.reopen()
        assert await audit(world.shard) == []
        there = {view.job.id: view.state.status for view in await world.shard.find(T, limit=1_000)}
        assert acknowledged <= there.keys()  # JOB-1
        assert {job: there[job] for job in finished} == finished
        assert world.shard.queues.slots.count((T, "one")) <= 1  # JOB-3


async def _some_call(
    world: World, data: st.DataObject, id: str, acknowledged: set[str], finished: dict[str, JobStatus]
) -> None:
    shard = world.shard
    match data.draw(st.sampled_from(["put", "put", "lease", "lease", "cancel", "report", "expire"])):
        case "put":
            limits = (ONE,) if data.draw(st.booleans()) else ()
            answers = await shard.enqueue([new_job(id=f"{id}{n}", limits=limits, retry=RETRY) for n in range(2)])
            acknowledged.update(answer for answer in answers if isinstance(answer, str))
        case "lease":
            await world.lease(2)
        case "cancel":
            if acknowledged:
                job = data.draw(st.sampled_from(sorted(acknowledged)))
                try:
                    await shard.cancel(T, job)
                except Conflict:
                    return
                if (await shard.get(T, job)).state.status == JobStatus.CANCELLED:
                    finished[job] = JobStatus.CANCELLED
        case "report":
            running = {task_id: each.job.id for task_id, each in shard.queues.leases.by_task.items() if each.job}
            outcome = data.draw(st.sampled_from([TaskSuccess(), TaskFailure("E"), TaskCancelled()]))
            if running:
                task_id = data.draw(st.sampled_from(sorted(running)))
                if await shard.report([(task_id, outcome)]) == [None] and isinstance(outcome, TaskSuccess):
                    finished[running[task_id]] = JobStatus.SUCCEEDED
        case "expire":
            world.now += data.draw(st.sampled_from([1, 20_000]))
            await shard.tick()
