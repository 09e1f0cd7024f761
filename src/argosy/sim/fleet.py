"""`argosy sim fleet`: a fleet in virtual time, from the first bid until every repository is served, and then through
commits, crashes, a rolling restart, and indexes that outgrow their node.

Real search nodes, a good network, and indexes whose sizes vary as those of real repositories do. There are no other
faults than these: the figures are for tuning, and `argosy sim chaos` is for finding bugs. The same plan gives the same
report, byte for byte.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

from argosy.ownership.model import UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.sim.fleet_counters import FleetCounters
from argosy.sim.link import LinkQuality
from argosy.sim.loop import SimLoop, run
from argosy.sim.plan import SearchPlan, SpacePlan, WorldPlan
from argosy.sim.report import MIB, FleetPlan, FleetReport, ProvisionCounts, failover_figures, memory_figures
from argosy.sim.world import World

SPACE = "repos"
SIZE_SPREAD = 1.0  # sigma of the logarithm: one index in forty is more than seven times the median
STEP_S = 0.5  # between two samples of the fleet
SCALE_STEP_S = 10.0  # how often the autoscale signal is read
STALLED_PERIODS_MAX = 10  # TTLs and windows without progress, after which the fleet counts as stuck
REST_S = 30.0  # between the end of one trial and a crash
LEAVE_AFTER_S = 5.0  # between the end of one trial and a drain
RENEW_SHARE = 8.0 / 30.0  # of the TTL, as in the default settings
RAMP_SHARE = 0.6  # of the progress bar: until everything is ready for the first time
COMMITS_WITHIN_S = 30.0  # in which all commits arrive
DRAIN_S_MAX = 600.0  # longer than a node waits for its successors
QUERY_PAUSE_S = 0.5  # between two queries
QUERY_REPOS = 20  # in one query; half of them held by the node
FULL = 0.8  # of the fleet's memory: indexes do not grow beyond that

Progress = Callable[[float, str], None]


def run_fleet(plan: FleetPlan, progress: Progress = lambda fraction, text: None) -> FleetReport:
    """Simulate a fleet; an hour of virtual time takes seconds."""

    async def main(loop: SimLoop) -> FleetReport:
        return await _FleetRun(loop, plan, progress).run()

    return run(main)


def world_plan(plan: FleetPlan) -> WorldPlan:
    # Sizes of repositories are about log-normally distributed: many small ones and a few that hardly fit.
    draw = random.Random(f"{plan.seed} sizes")
    sizes = {
        f"repo-{i:04}": int(plan.median_mib * MIB * draw.lognormvariate(0.0, SIZE_SPREAD)) for i in range(plan.repos)
    }
    settings = OwnershipSettings(
        # One source of random numbers per purpose, here and below: another number of commits does not change which
        # nodes crash.
        space=SPACE,
        ttl_s=plan.ttl_s,
        renew_s=plan.ttl_s * RENEW_SHARE,
        window_s=plan.window_s,
        max_bids=str(plan.max_bids or "live"),
        catalog_s=30.0,  # changes are notified at once
        grace_s=0.0,  # the store is older than the fleet and keeps its data
    )
    specs = tuple(UnitSpec(name, footprint_bytes=size, replicas=plan.replicas) for name, size in sizes.items())
    node_bytes = int(sum(sizes.values()) * (1 + plan.replicas) * plan.headroom / plan.nodes)
    search = SearchPlan(
        budget_bytes=node_bytes,
        index_bytes_per_s=plan.index_mib_per_s * MIB,
        fetch_bytes_per_s=plan.fetch_mib_per_s * MIB,
        stream_bytes_per_s=plan.stream_mib_per_s * MIB,
    )
    return WorldPlan(
        seed=plan.seed,
        nodes=tuple(f"node-{i:02}" for i in range(1, plan.nodes + 1)),
        spaces=(SpacePlan(settings, specs, sizes, search=search),),
        node_bytes=node_bytes,
        index_bytes_per_s=plan.index_mib_per_s * MIB,
        quality=LinkQuality(),
    )


class _FleetRun:
    """One run."""

    def __init__(self, loop: SimLoop, plan: FleetPlan, progress: Progress) -> None:
        self._loop = loop
        self._plan = plan
        self._progress = progress
        self._part_done = 0.0  # a progress bar does not move backwards when a node crashes
        self._world = World(loop, world_plan(plan))
        self._counters = FleetCounters(plan.repos, loop.time)
        self._scale: list[tuple[float, int, int]] = []
        self._kills = 0
        space = self._world.spaces[0]
        assert space.search is not None
        self._search = space.search
        space.store.observers.append(self._counters.on_event)
        space.server.call_observers.append(self._counters.on_call)
        self._search.put_observers.append(self._counters.on_put)
        self._search.eviction_observers.append(self._counters.on_evicted)

    async def run(self) -> FleetReport:
        self._world.start()
        background = [asyncio.ensure_future(task) for task in (self._read_scale(), self._run_queries())]
        is_settled = await self._wait_ready("first start", 0.0, RAMP_SHARE)
        trials = self._trials()
        share = (1 - RAMP_SHARE) / max(1, len(trials))
        for i, (phase, trial) in enumerate(trials):
            if not is_settled:
                break
            await trial()
            is_settled = await self._wait_ready(phase, RAMP_SHARE + i * share, share)
        for task in background:
            task.cancel()
        self._progress(1.0, "done")
        return self._report(is_settled)

    def _trials(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """The trials of the fleet, in order."""
        draw, plan = random.Random(f"{self._plan.seed} victims"), self._plan
        victims = draw.sample(list(self._world.nodes), plan.kill)
        alive = [name for name in self._world.nodes if name not in victims]
        leavers = draw.sample(alive, min(plan.drain, len(alive))) if len(alive) > 1 else []
        trials: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        if plan.commits:
            trials.append(("commits", self._commit))
        trials += [(f"{name} was killed", partial(self._kill, name)) for name in victims]
        trials += [(f"{name} was drained", partial(self._drain, name)) for name in leavers]
        if plan.grow and len(alive) > 1:
            trials.append(("indexes grew", self._grow))
        return trials

    async def _wait_ready(self, phase: str, begin: float, share: float) -> bool:
        """Wait until all repositories are served at the commits of their origins; False if there is no progress."""
        stalled_s = STALLED_PERIODS_MAX * (self._plan.ttl_s + self._plan.window_s)
        counters = self._counters
        best, best_at = 0, self._loop.time()
        # Progress counts and not time: a large fleet takes long, but never without progress.
        while not (is_done := self._is_settled()) and self._loop.time() < best_at + stalled_s:
            await asyncio.sleep(STEP_S)
            counters.sample()
            if counters.ready + counters.fresh > best:
                best, best_at = counters.ready + counters.fresh, self._loop.time()
            text = f"{phase}: {counters.ready} of {self._plan.repos} repos ready at {self._loop.time():.0f} s"
            self._part_done = max(self._part_done, begin + share * counters.ready / self._plan.repos)
            self._progress(self._part_done, text)
        return is_done

    def _is_settled(self) -> bool:
        counters = self._counters
        return counters.is_all_ready and counters.is_all_fresh and not self._world.stale(self._world.spaces[0])

    # -- trials -----------------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        """Commits to some repositories, without a push notification: the nodes find them by checking the origins."""
        draw = random.Random(f"{self._plan.seed} commits")
        names = draw.sample(list(self._search.specs.specs), max(1, int(self._plan.commits * self._plan.repos)))
        for name in names:
            await asyncio.sleep(COMMITS_WITHIN_S / len(names))
            self._search.commit(name)
            self._counters.on_commit(name, self._search.origins.heads(name)[0].version)

    async def _kill(self, victim: str) -> None:
        await asyncio.sleep(REST_S)
        self._kills += 1
        self._counters.on_node_death(victim)
        self._counters.sample()
        self._world.kill_node(victim)

    async def _drain(self, leaver: str) -> None:
        """A rolling restart: the node departs in order, and comes back empty."""
        await asyncio.sleep(LEAVE_AFTER_S)
        began = self._loop.time()
        self._counters.on_drain_started(leaver)
        self._world.nodes[leaver].drain()
        while self._world.nodes[leaver].is_running and self._loop.time() < began + DRAIN_S_MAX:
            await asyncio.sleep(STEP_S)
            self._counters.sample()
        self._counters.on_drain_ended(self._loop.time() - began)
        # It has exited by itself or, after DRAIN_S_MAX, is stuck.
        self._world.kill_node(leaver)
        self._world.start_node(leaver)

    async def _grow(self) -> None:
        """Commits make the indexes of the fullest node larger than its memory, with push notifications."""
        alive = [node for node in self._world.nodes.values() if node.is_running]
        fullest = max(alive, key=lambda node: node.held_bytes())
        budget_bytes, held_bytes = self._world.plan.node_bytes, fullest.held_bytes()
        growth = self._plan.grow * budget_bytes / max(1, held_bytes)
        # Not beyond what the rest of the fleet can take: evicted repositories that fit nowhere would never settle.
        total_bytes = sum(node.held_bytes() for node in alive)
        if growth <= 1 or total_bytes + (growth - 1) * held_bytes > FULL * budget_bytes * len(alive):
            return
        for name in self._counters.repos_of(fullest.name):
            self._search.commit(name, growth, is_announced=True)

    async def _read_scale(self) -> None:
        while True:
            await asyncio.sleep(SCALE_STEP_S)
            # Any node: the signal follows from what all of them see.
            node = next(node for node in self._world.nodes.values() if node.is_running)
            signal = node.member(SPACE).scale()
            self._scale.append((round(self._loop.time(), 3), signal.desired_nodes, signal.current_nodes))

    async def _run_queries(self) -> None:
        """Clients query any node, for repositories that it has and for ones that it does not have."""
        draw, names = random.Random(f"{self._plan.seed} queries"), list(self._search.specs.specs)
        while True:
            await asyncio.sleep(QUERY_PAUSE_S)
            node = draw.choice([each for each in self._world.nodes.values() if each.is_running])
            own = self._counters.repos_of(node.name)
            some = [*draw.sample(own, min(len(own), QUERY_REPOS // 2)), *draw.choices(names, k=QUERY_REPOS // 2)]
            node.run_query(SPACE, list(dict.fromkeys(some)))

    def _report(self, is_settled: bool) -> FleetReport:
        world, counters, now = self._world, self._counters, self._loop.time()
        calls = sum(node.store_calls() for node in world.nodes.values())
        held = {node.name: node.held_bytes() for node in world.nodes.values() if node.is_running}
        return FleetReport(
            plan=self._plan,
            is_settled=is_settled,
            duration_s=round(now, 3),
            first_owned_s=counters.first_owned_s,
            all_owned_s=counters.all_owned_s,
            all_ready_s=counters.all_ready_s,
            auctions=counters.auctions(),
            failover=failover_figures(self._kills, counters.failovers_s),
            refresh=counters.refresh(),
            evictions=counters.evictions(),
            drain=counters.drain(),
            provisioned=ProvisionCounts(
                *(self._search.provisioned[how] for how in ("built", "incremental", "received"))
            ),
            moves=counters.moves,
            memory=memory_figures(world.plan.node_bytes, held),
            store_calls=calls,
            store_calls_per_node_s=round(calls / now / self._plan.nodes, 3),
            owned=tuple(counters.owned),
            scale=tuple(self._scale),
            violations=tuple(map(str, world.violations.entries)),
            fingerprint=world.trace.fingerprint(),
        )
