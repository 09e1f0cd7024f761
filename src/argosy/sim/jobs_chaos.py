"""`argosy sim jobs`: many small worlds of job brokers, in search of a job that is lost, runs twice or exceeds a limit.

A seed runs until every acknowledged job is final, and then the audit of the shards must find nothing: rows that
contradict each other break no invariant that a client can see until later.
"""

import asyncio
from collections.abc import Callable

from argosy.base.clock import seeded_random
from argosy.jobs.settings import JobsSettings
from argosy.ownership.settings import OwnershipSettings
from argosy.sim.chaos import ChaosReport, SeedResult, judge_run, run_seeds
from argosy.sim.jobs_load import HEIGHTS, JobsLoad, LoadPlan
from argosy.sim.jobs_world import DiskFault, JobsPlan, JobsWorld
from argosy.sim.link import LinkQuality
from argosy.sim.loop import SimLoop, run
from argosy.sim.plan import ClockSkew, SpacePlan, WorldPlan, draw_schedule

TTL_S, RENEW_S = 4.0, 1.0
LEASE_MS = 3_000  # shorter than many faults, so that task leases expire while nodes are unreachable
HORIZON_S = 40.0  # all faults are over by then
LATE_S_MAX = 2 * TTL_S
SETTLE_S_MAX = LATE_S_MAX + 2 * TTL_S + 20.0
FINAL_S = 120.0  # after that, for all jobs that still wait, run or are retried


def draw_plan(seed: int) -> tuple[JobsPlan, LoadPlan]:
    """A small world with many faults."""
    random = seeded_random(f"jobs chaos {seed}")
    nodes = tuple(f"n{i}" for i in range(1, random.randrange(2, 5) + 1))
    newcomers = tuple(f"x{i}" for i in range(random.randrange(0, 2)))
    settings = JobsSettings(
        # Few shards and short task leases: splits, moves and expired leases meet the same jobs.
        shards=random.randrange(1, 4),
        with_tenants=True,
        retention_ms=0,
        lease_ms=LEASE_MS,
        ttl_s=TTL_S,
        renew_s=RENEW_S,
        handoff_wait_s=0.3,
        quiesce_s=0.3,
        reopen_s=0.5,
        map_s=1.0,
    )
    shared = OwnershipSettings(claim_retry_s=0.5, claim_jitter_s=0.1, drain_timeout_s=1.5 * TTL_S, sweep_s=1.0)
    faults = draw_schedule(random, nodes, newcomers, faults=random.randrange(4, 11), horizon_s=HORIZON_S, ttl_s=TTL_S)
    world = WorldPlan(
        seed=seed,
        nodes=nodes,
        spaces=(SpacePlan(settings.ownership(shared), (), {}),),
        node_bytes=0,
        index_bytes_per_s=1.0,
        quality=LinkQuality(
            latency_s=0.001,
            jitter_s=random.choice([0.002, 0.02]),
            loss_chance=random.choice([0.0, 0.02, 0.05]),
            late_chance=random.choice([0.0, 0.03]),
            late_s_max=LATE_S_MAX,
            keepalive_s=random.choice([1.0, 3.0]),
        ),
        call_timeout_s=2 * RENEW_S,
        faults=faults,
    )
    splits = tuple(sorted(random.uniform(3.0, HORIZON_S) for _ in range(random.randrange(0, 4))))
    disks = tuple(
        DiskFault(random.uniform(1.0, HORIZON_S - 3.0), random.uniform(0.05, 2.0))
        for _ in range(random.randrange(0, 3))
    )
    load = LoadPlan(
        jobs=random.randrange(30, 60),
        tenants=random.randrange(2, 7),
        workers=random.randrange(4, 9),
        mean_s=0.5,
        longest_s=random.choice([1.0, 3.0, 8.0]),
    )
    return JobsPlan(world, settings, HEIGHTS, splits, disks), load


def run_seed(seed: int, *, keeps_trace: bool = False) -> SeedResult:
    """Run one world until every job is final."""

    async def main(loop: SimLoop) -> SeedResult:
        plan, load_plan = draw_plan(seed)
        world = JobsWorld(loop, plan, keeps_trace=keeps_trace)
        load = JobsLoad(world, load_plan, seeded_random(f"{seed} load"))
        world.start()
        probing = asyncio.ensure_future(world.run_probes(0.25))
        workers = [asyncio.ensure_future(load.work(f"w{number}")) for number in range(load_plan.workers)]
        enqueueing = asyncio.ensure_future(load.enqueue_all())
        await asyncio.sleep(HORIZON_S)
        world.heal()
        settled_after_s = await world.settle(SETTLE_S_MAX)
        # A world that has not settled is reported already, and its jobs could not become final.
        if settled_after_s is not None:
            await enqueueing
            # The audit is about rows at rest, so it waits until no job runs any more.
            if await load.wait_all_final(FINAL_S + _steps_s(plan.world)):
                await world.audit()
        # Workers never return, so one that is done has failed.
        for ended in [worker for worker in workers if worker.done()]:
            world.violations.add("LIVE", f"a worker failed: {ended.exception()}")
        for task in (probing, enqueueing, *workers):
            task.cancel()
        await asyncio.gather(probing, enqueueing, *workers, return_exceptions=True)
        world.trace.add(f"{len(world.checker.acknowledged)} jobs, {world.checker.runs} runs, {world.splits} splits")
        violations = tuple(world.violations.entries)
        trace_tail = tuple(world.trace.trace_tail()) if violations or keeps_trace else ()
        return SeedResult(seed, violations, world.trace.fingerprint(), settled_after_s, trace_tail)

    return run(main)


def _steps_s(plan: WorldPlan) -> float:
    """By how much the clocks may differ in the end: a job is due by the clock of the node that has it, so it may be
    that late."""
    return sum(abs(fault.step_s) for fault in plan.faults if isinstance(fault, ClockSkew))


def judge_seed(seed: int) -> SeedResult:
    return judge_run(run_seed, seed)


def run_jobs_chaos(
    first_seed: int = 1,
    seeds: int = 50,
    *,
    jobs: int = 2,
    progress: Callable[[float, str], None] = lambda fraction, text: None,
) -> ChaosReport:
    """Run `seeds` worlds, `jobs` at a time, and collect the violations."""
    return run_seeds(judge_seed, "argosy sim jobs", first_seed, seeds, jobs=jobs, progress=progress)
