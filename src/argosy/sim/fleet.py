"""`argosy sim fleet`: a whole fleet in virtual time, from the first bid until every repo is served, and through deaths.

Real nodes, a good network, and indexes whose sizes are spread as those of real repositories are. The same plan gives
the same report, to the byte.
"""

import asyncio
import random
from collections.abc import Callable

from argosy.ownership.model import UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.sim.link import LinkQuality
from argosy.sim.loop import SimLoop, run
from argosy.sim.plan import SpacePlan, WorldPlan
from argosy.sim.report import MIB, FleetPlan, FleetReport, failover_figures, memory_figures
from argosy.sim.tally import Tally
from argosy.sim.world import World

SPACE = "repos"
SIZE_SPREAD = 1.0               # sigma of the logarithm: one index in forty is more than seven times the median
STEP_S = 0.5                    # how often the fleet is looked at
SCALE_STEP_S = 10.0             # how often the autoscale signal is read
PATIENCE = 10                   # TTLs and windows without progress after which a fleet will never be settled
REST_S = 30.0                   # between one death's end and the next
RENEW_SHARE = 8.0 / 30.0        # of the TTL, as the default settings have it
RAMP_SHARE = 0.7                # of the progress bar: until everything is ready for the first time

Progress = Callable[[float, str], None]


def run_fleet(plan: FleetPlan, progress: Progress = lambda fraction, text: None) -> FleetReport:
    """Simulates a fleet; takes seconds of real time for an hour of virtual time."""

    async def main(loop: SimLoop) -> FleetReport:
        return await _Fleet(loop, plan, progress).run()

    return run(main)


def world_plan(plan: FleetPlan) -> WorldPlan:
    draw = random.Random(f"{plan.seed} sizes")
    sizes = {
        f"repo-{i:04}": int(plan.median_mib * MIB * draw.lognormvariate(0.0, SIZE_SPREAD)) for i in range(plan.repos)
    }
    settings = OwnershipSettings(
        space=SPACE,
        ttl_s=plan.ttl_s,
        renew_s=plan.ttl_s * RENEW_SHARE,
        window_s=plan.window_s,
        max_bids=str(plan.max_bids or "live"),
        grace_s=0.0,            # this store was there before the fleet, and forgets nothing
    )
    specs = tuple(UnitSpec(name, footprint_bytes=size) for name, size in sizes.items())
    return WorldPlan(
        seed=plan.seed,
        nodes=tuple(f"node-{i:02}" for i in range(1, plan.nodes + 1)),
        spaces=(SpacePlan(settings, specs, sizes),),
        node_bytes=int(sum(sizes.values()) * plan.headroom / plan.nodes),
        index_bytes_per_s=plan.index_mib_per_s * MIB,
        quality=LinkQuality(),
    )


class _Fleet:
    """One run."""

    def __init__(self, loop: SimLoop, plan: FleetPlan, progress: Progress) -> None:
        self._loop = loop
        self._plan = plan
        self._progress = progress
        self._world = World(loop, world_plan(plan))
        self._tally = Tally(plan.repos, loop.time)
        self._scale: list[tuple[float, int, int]] = []
        self._kills = 0
        space = self._world.spaces[0]
        space.store.observers.append(self._tally.saw)
        space.server.taps.append(self._tally.tapped)

    async def run(self) -> FleetReport:
        self._world.start()
        reading = asyncio.ensure_future(self._read_scale())
        is_settled = await self._until_ready("first start", 0.0, RAMP_SHARE)
        victims = random.Random(f"{self._plan.seed} victims").sample(list(self._world.nodes), self._plan.kill)
        for i, victim in enumerate(victims):
            if not is_settled:
                break
            await asyncio.sleep(REST_S)
            self._kill(victim)
            share = (1 - RAMP_SHARE) / len(victims)
            is_settled = await self._until_ready(f"{victim} was killed", RAMP_SHARE + i * share, share)
        reading.cancel()
        self._progress(1.0, "done")
        return self._report(is_settled)

    async def _until_ready(self, phase: str, begin: float, share: float) -> bool:
        """Whether all repos came to be served before patience ran out."""
        patience_s = PATIENCE * (self._plan.ttl_s + self._plan.window_s)
        best, best_at = 0, self._loop.time()
        while not self._tally.is_all_ready and self._loop.time() < best_at + patience_s:
            await asyncio.sleep(STEP_S)
            self._tally.sample()
            if self._tally.ready > best:
                best, best_at = self._tally.ready, self._loop.time()
            text = f"{phase}: {self._tally.ready} of {self._plan.repos} repos ready at {self._loop.time():.0f} s"
            self._progress(begin + share * self._tally.ready / self._plan.repos, text)
        return self._tally.is_all_ready

    def _kill(self, victim: str) -> None:
        self._kills += 1
        self._tally.node_died(victim)
        self._tally.sample()
        self._world.kill_node(victim)

    async def _read_scale(self) -> None:
        while True:
            await asyncio.sleep(SCALE_STEP_S)
            node = next(node for node in self._world.nodes.values() if node.is_running)
            signal = node.member(SPACE).scale()
            self._scale.append((round(self._loop.time(), 3), signal.desired_nodes, signal.current_nodes))

    def _report(self, is_settled: bool) -> FleetReport:
        world, tally, now = self._world, self._tally, self._loop.time()
        calls = sum(node.store_calls() for node in world.nodes.values())
        held = {node.name: node.memory.held_bytes() for node in world.nodes.values() if node.is_running}
        return FleetReport(
            plan=self._plan,
            is_settled=is_settled,
            duration_s=round(now, 3),
            first_owned_s=tally.first_owned_s,
            all_owned_s=tally.all_owned_s,
            all_ready_s=tally.all_ready_s,
            auctions=tally.auctions(),
            failover=failover_figures(self._kills, tally.failovers_s),
            moves=tally.moves,
            memory=memory_figures(world.plan.node_bytes, held),
            store_calls=calls,
            store_calls_per_node_s=round(calls / now / self._plan.nodes, 3),
            owned=tuple(tally.owned),
            scale=tuple(self._scale),
            violations=tuple(map(str, world.findings.violations)),
            fingerprint=world.trace.fingerprint(),
        )
