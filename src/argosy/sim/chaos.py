"""`argosy sim chaos`: many small worlds, each with faults of its own, in search of a broken invariant.

Small worlds and short periods, because bugs need few nodes and many coincidences: in one with four nodes and a TTL of
four seconds, a fault meets an auction, a handoff or a renewal far more often than in a large one with realistic
settings.

Everything about a world follows from its seed, so a violation is reported with the command that replays it. Some seeds
are run twice and must leave the same trace both times: a world that is not deterministic could not be replayed.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import msgspec

from argosy.base.clock import Random, seeded_random
from argosy.base.errors import Invalid
from argosy.ownership.model import UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.search.settings import SearchSettings
from argosy.sim.link import LinkQuality
from argosy.sim.loop import SimLoop, run
from argosy.sim.plan import SearchPlan, SpacePlan, WorldPlan, draw_schedule
from argosy.sim.trace import Violation
from argosy.sim.world import World

MIB = 1 << 20

TTL_S, RENEW_S, WINDOW_S = 4.0, 1.0, 3.0
RETRY_S = 0.5  # the window where there are no auctions: after it a failed build is retried
HORIZON_S = 8 * TTL_S  # all faults are over by then
LATE_S_MAX = 2 * TTL_S  # a request may take effect this long after it was sent
PATIENT_BIDS = 9  # more than there are nodes, so that such an auction lasts until the end of its window
# After the last fault: the last late message, the expiry of the lease that it may have caused, the store's grace, and 5
# s for builds. Auctions that wait for the ends of their windows, one after another, come on top.
SETTLE_S_MAX = LATE_S_MAX + 2 * TTL_S + 5.0
# Many times within a TTL, so that two claims of one unit at the same instant are seen.
PROBE_MEAN_S = 0.25
INDEX_BYTES_PER_S = 100 * MIB
ROOMY_BYTES = 2_000 * MIB  # of a node
ROOMY_MIB = (1, 80)  # of an index
TIGHT_MIB = (20, 40)
GROWTH_MAX = 3.0  # of an index by commits, in a tight world
TIGHT = 2.2  # memory of a node as a multiple of the largest index: with growth it may fit nowhere
# One seed in so many is run twice: enough to notice nondeterminism, for a tenth more time.
REPEAT_EVERY = 10
SEEDS_MAX = 1_000_000
CHUNK = 4  # seeds that a worker process takes at a time


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed."""

    seed: int
    violations: tuple[Violation, ...]
    fingerprint: str
    settled_after_s: float | None
    trace_tail: tuple[str, ...] = ()  # the end of the trace, if there is a violation


@dataclass(frozen=True)
class SeedViolations:
    """The violations of one seed, and the command that replays it."""

    seed: int
    violations: tuple[str, ...]
    replay: str


@dataclass(frozen=True)
class ChaosReport:
    """The results of all seeds of a run."""

    first_seed: int
    seeds: int
    repeated: int
    violations: tuple[SeedViolations, ...]
    slowest_settling_s: float | None
    fingerprint: str  # of the traces of all seeds

    @property
    def is_clean(self) -> bool:
        return not self.violations

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


def draw_world(seed: int) -> WorldPlan:
    """A small world with many faults.

    Half of the worlds are tight: their nodes have hardly enough memory, which leads to evictions.
    """
    random = seeded_random(f"chaos {seed}")
    nodes = tuple(f"n{i}" for i in range(1, random.randrange(3, 7) + 1))
    newcomers = tuple(f"x{i}" for i in range(random.randrange(0, 2)))
    margin = random.choice([0.02, 0.1])
    is_tight = random.random() < 0.5
    repos = _draw_space(
        random,
        "repos",
        "auction",
        margin,
        units=random.randrange(4, 10),
        failing=(0.0, 0.0, 0.05),
        mib=TIGHT_MIB if is_tight else ROOMY_MIB,
    )
    budget_bytes = _tight_bytes(repos, len(nodes)) if is_tight else ROOMY_BYTES
    spaces = (
        replace(repos, search=_draw_search(random, budget_bytes, is_tight=is_tight)),
        # Builds fail often here and are retried soon by the same node: a late release must not end its next lease.
        _draw_space(
            random,
            "shards",
            random.choice(["ring", "ring", "claim"]),
            margin,
            units=random.randrange(2, 6),
            failing=(0.0, 0.3, 0.7),
        ),
    )
    return WorldPlan(
        seed=seed,
        nodes=nodes,
        spaces=spaces,
        node_bytes=ROOMY_BYTES,
        index_bytes_per_s=INDEX_BYTES_PER_S,
        quality=LinkQuality(
            # From a network that loses nothing to one where every tenth message is late by up to two TTLs.
            latency_s=0.001,
            jitter_s=random.choice([0.002, 0.05]),
            loss_chance=random.choice([0.0, 0.02, 0.05]),
            late_chance=random.choice([0.0, 0.05, 0.1]),
            late_s_max=LATE_S_MAX,
            keepalive_s=random.choice([1.0, 3.0, 6.0]),
        ),
        call_timeout_s=2 * RENEW_S,
        faults=draw_schedule(
            random, nodes, newcomers, faults=random.randrange(4, 13), horizon_s=HORIZON_S, ttl_s=TTL_S
        ),
    )


def _draw_search(random: Random, budget_bytes: int, *, is_tight: bool) -> SearchPlan:
    """Repositories with commits, and periods so short that each occurs many times in a world."""
    search = SearchSettings(
        builds_max=2,
        fetches_max=3,
        origin_checks_max=2,
        refresh_s=3.0,
        verify_s=4.0,
        retry_first_s=0.5,
        retry_ceiling_s=2.0,
        evict_by=random.choice(["lru", "cost"]),
    )
    return SearchPlan(
        budget_bytes=budget_bytes,
        index_bytes_per_s=INDEX_BYTES_PER_S,
        fetch_bytes_per_s=4 * INDEX_BYTES_PER_S,
        stream_bytes_per_s=10 * INDEX_BYTES_PER_S,
        search=search,
        damage_chance=random.choice([0.0, 0.05]),
        commit_mean_s=random.choice([0.5, 2.0]),
        grows=(1.0, GROWTH_MAX) if is_tight else (1.0, 1.0),
    )


def _tight_bytes(space: SpacePlan, nodes: int) -> int:
    """Memory of a node: all indexes fit on all nodes together until they grow."""
    slots_bytes = sum(space.sizes[spec.name] * (1 + spec.replicas) for spec in space.specs)
    return int(max(TIGHT * max(space.sizes.values()), 1.4 * slots_bytes / nodes))


def _draw_space(
    random: Random,
    name: str,
    placement: str,
    margin: float,
    *,
    units: int,
    failing: tuple[float, ...],
    mib: tuple[int, int] = ROOMY_MIB,
) -> SpacePlan:
    settings = OwnershipSettings(
        space=name,
        placement=placement,
        ttl_s=TTL_S,
        renew_s=RENEW_S,
        stop_margin=margin,
        window_s=WINDOW_S if placement == "auction" else RETRY_S,
        max_bids=random.choice(["live", "live", "1", "2"]),
        claim_jitter_s=0.1,
        warming_max=4,
        handoff_wait_s=0.5,
        claim_retry_s=0.5,
        quiesce_s=0.3,
        drain_timeout_s=1.5 * TTL_S,
        catalog_s=4.0,
        sweep_s=1.0,
    )
    sizes = {f"{name}-{i:02}": int(random.uniform(*mib)) * MIB for i in range(units)}
    specs = tuple(
        UnitSpec(
            unit,
            footprint_bytes=random.choice([None, size]),
            max_bids=random.choice([None, None, 2, PATIENT_BIDS]),
            replicas=random.choice([0, 0, 0, 1]),
        )
        for unit, size in sizes.items()
    )
    return SpacePlan(settings, specs, sizes, warm_failure_chance=random.choice(failing))


def run_seed(seed: int, *, keeps_trace: bool = False) -> SeedResult:
    """Run one world to its end."""

    async def main(loop: SimLoop) -> SeedResult:
        world = World(loop, draw_world(seed), keeps_trace=keeps_trace)
        world.start()
        probing = asyncio.ensure_future(world.run_probes(PROBE_MEAN_S))
        working = [asyncio.ensure_future(world.run_workload(space)) for space in world.spaces]
        await asyncio.sleep(HORIZON_S)
        # Liveness can only be required without faults, so they end before it is checked.
        world.heal()
        settled_after_s = await world.settle(SETTLE_S_MAX + WINDOW_S * _patient_auctions(world.plan))
        # They would never end by themselves.
        for task in (probing, *working):
            task.cancel()
        violations = tuple(world.violations.entries)
        trace_tail = tuple(world.trace.trace_tail()) if violations or keeps_trace else ()
        return SeedResult(seed, violations, world.trace.fingerprint(), settled_after_s, trace_tail)

    return run(main)


def _patient_auctions(plan: WorldPlan) -> int:
    return 1 + sum(spec.max_bids == PATIENT_BIDS for space in plan.spaces for spec in space.specs)


def run_chaos(
    first_seed: int = 1,
    seeds: int = 200,
    *,
    jobs: int = 2,
    progress: Callable[[float, str], None] = lambda fraction, text: None,
) -> ChaosReport:
    """Run `seeds` worlds, `jobs` at a time, and collect the violations."""
    return run_seeds(judge_seed, "argosy sim chaos", first_seed, seeds, jobs=jobs, progress=progress)


def judge_seed(seed: int) -> SeedResult:
    return judge_run(run_seed, seed)


# -- seeds of any kind of world ---------------------------------------------------------------------------------------


def run_seeds(
    judge: Callable[[int], SeedResult],
    command: str,
    first_seed: int,
    seeds: int,
    *,
    jobs: int,
    progress: Callable[[float, str], None],
) -> ChaosReport:
    """Run seeds; `command` is the one that replays a seed."""
    if not (first_seed >= 0 and 1 <= seeds <= SEEDS_MAX and jobs >= 1):
        raise Invalid(f"chaos needs seeds from 1 to {SEEDS_MAX} and at least one job; got {seeds} and {jobs}")
    chosen = range(first_seed, first_seed + seeds)
    results: list[SeedResult] = []
    broken = 0
    for outcome in _results(judge, chosen, jobs):
        results.append(outcome)
        broken += bool(outcome.violations)
        progress(len(results) / seeds, f"{len(results)} of {seeds} worlds, {broken} with violations")
    return _report(command, first_seed, results)


def judge_run(run_seed: Callable[[int], SeedResult], seed: int) -> SeedResult:
    """Run a seed, some seeds twice. An exception is a violation too, so that the other seeds are still run."""
    try:
        outcome = run_seed(seed)
        if seed % REPEAT_EVERY == 0 and run_seed(seed).fingerprint != outcome.fingerprint:
            differs = Violation("SAME", 0.0, "two runs of this seed left different traces")
            return replace(outcome, violations=(*outcome.violations, differs))
        return outcome
    except Exception as bug:
        return SeedResult(seed, (Violation("BUG", 0.0, f"{type(bug).__name__}: {bug}"),), "", None)


def _results(judge: Callable[[int], SeedResult], seeds: range, jobs: int) -> Iterator[SeedResult]:
    """In the order of the seeds, whichever is done first: the report must not depend on scheduling."""
    if jobs == 1:
        yield from map(judge, seeds)
        return
    # Fresh interpreters and not forks: a world must not depend on what its parent has imported, hashed or run.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(judge, seeds, chunksize=CHUNK)


def _report(command: str, first_seed: int, results: list[SeedResult]) -> ChaosReport:
    trouble = [
        SeedViolations(o.seed, tuple(map(str, o.violations)), f"{command} --first-seed {o.seed} --seeds 1")
        for o in results
        if o.violations
    ]
    return ChaosReport(
        first_seed=first_seed,
        seeds=len(results),
        repeated=sum(o.seed % REPEAT_EVERY == 0 for o in results),
        violations=tuple(trouble),
        slowest_settling_s=max((o.settled_after_s for o in results if o.settled_after_s is not None), default=None),
        fingerprint=_combine(o.fingerprint for o in results),
    )


def _combine(fingerprints: Iterator[str]) -> str:
    from hashlib import blake2b

    # One value for a whole run: two machines that print the same have run the same worlds.
    return blake2b(" ".join(fingerprints).encode(), digest_size=16).hexdigest()
