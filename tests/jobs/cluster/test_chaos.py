"""Everything at once, audited from outside: no acknowledged job is lost (JOB-1), none runs under two live leases
(JOB-2), no limit is exceeded (JOB-3)."""

import asyncio
from contextlib import suppress

import pytest

from argosy.base.errors import Conflict, NotFound, NotOwner, Unavailable
from argosy.jobs.model import ConcurrencyLimit, JobStatus, NewJob, RetryPolicy
from tests.jobs.cluster.auditor import Auditor, Run
from tests.jobs.cluster.world import World, run_story

JOBS = 150
TENANTS = [f"t{number}" for number in range(12)]
LIMIT = 2
RETRY = RetryPolicy(retry_count=50, initial_interval_ms=100, max_interval_ms=1000)


async def client(world: World) -> None:
    for number in range(JOBS):
        tenant = world.random.choice(TENANTS)
        limits = (ConcurrencyLimit("few", LIMIT),) if number % 3 == 0 else ()
        await world.enqueue(NewJob("g", tenant=tenant, id=f"j{number}", retry=RETRY, limits=limits))
        await world.clock.sleep(world.random.uniform(0.0, 0.6))


async def split_any(world: World) -> None:
    for shard_id, names in sorted(world.serving().items()):
        with suppress(Conflict, NotFound, NotOwner, Unavailable):
            await world.call(names[0], world.nodes[names[0]].node.split(shard_id, ""))
            return


async def trouble(world: World) -> None:
    """Each kind once, with a little time between: two nodes are always well."""
    for step in (
        lambda: split_any(world), lambda: world.start("d"), lambda: killed(world, "a"), lambda: stopped(world, "b"),
        lambda: split_any(world), lambda: world.start("a"), lambda: cut(world, "c"), lambda: world.drain("d"),
        lambda: split_any(world),
    ):  # fmt: skip
        await world.clock.sleep(world.random.uniform(2.0, 6.0))
        await step()


async def killed(world: World, name: str) -> None:
    world.kill(name)


async def stopped(world: World, name: str) -> None:
    world.stop(name)
    await world.clock.sleep(world.random.uniform(5.0, 25.0))
    world.cont(name)


async def cut(world: World, name: str) -> None:
    world.nodes[name].link.is_cut = True
    await world.clock.sleep(world.random.uniform(5.0, 25.0))
    world.nodes[name].link.is_cut = False


async def story(world: World) -> None:
    await world.start("a", "b", "c")
    workers = [asyncio.ensure_future(world.work(f"w{number}")) for number in range(4)]
    await asyncio.gather(client(world), trouble(world))
    statuses = await world.all_final()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    await world.until(world.all_served, "every shard is served at the end")
    assert len(statuses) == JOBS                                                # JOB-1
    assert set(statuses.values()) == {JobStatus.SUCCEEDED}
    assert world.auditor.twice_at_once() == []                                  # JOB-2
    assert max(world.auditor.most_at_once().values()) == LIMIT                  # JOB-3, and the limit was reached
    assert await world.wrongs() == []
    assert len(next(iter(world.nodes.values())).node.topology().shards) > 4     # splits did happen


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_nothing_is_lost_doubled_or_over_its_limit_whatever_happens(seed: str) -> None:
    run_story(story, seed)
    assert seed


def test_the_auditor_sees_a_job_that_runs_twice_and_a_limit_that_is_exceeded() -> None:
    runs = [Run("j", "t1", 0.0, 5.0, "k"), Run("j", "t2", 4.0, 6.0, "k"), Run("i", "t3", 5.0, 7.0, "k")]
    auditor = Auditor(runs=runs)
    assert [(a.task, b.task) for a, b in auditor.twice_at_once()] == [("t1", "t2")]
    assert auditor.most_at_once() == {"k": 2}
