"""A deterministic world: real nodes on simulated machines, links, clocks and stores, all from one plan.

async def main(loop): world = World(loop, plan); world.start(); await world.settle(60); return world.violations
run(main)
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from argosy.base.clock import Random, seeded_random
from argosy.ownership.model import LeaseState, Unit
from argosy.sim.checkers import unsettled_units
from argosy.sim.loop import OUTSIDE, SimLoop
from argosy.sim.node import RESTART_S, SimNode, is_expected_exit
from argosy.sim.plan import ClockSkew, Crash, Drain, Fault, Join, Lag, Outage, Partition, Pause, SlowLink, WorldPlan
from argosy.sim.space import SimSpace
from argosy.sim.trace import Trace, ViolationLog

QUERY_BEFORE_S = 0.05  # before each fault, so that it always meets a query that is being answered
SETTLE_STEP_S = 0.25  # between two checks whether everything is served again


class World:
    """Machines, spaces, and the faults that are applied to them."""

    def __init__(self, loop: SimLoop, plan: WorldPlan, *, keeps_trace: bool = False) -> None:
        self.plan = plan
        self.violations = ViolationLog(loop.time)
        self.trace = Trace(loop.time, keeps_all=keeps_trace)
        self.spaces = [SimSpace(space, plan, self.violations, self.trace, self._dice, loop) for space in plan.spaces]
        self.nodes: dict[str, SimNode] = {}
        self._loop = loop
        self._outages = 0
        self._has_lost_data = False
        self._is_healed = False
        self._probe_dice = self._dice("probe")

    def start(self) -> None:
        """Start all nodes and schedule the faults."""
        for name in self.plan.nodes:
            self.start_node(name)
        for fault in self.plan.faults:
            self._at(max(0.0, fault.at - QUERY_BEFORE_S), self._query_all_nodes)
            self._at(fault.at, partial(self._apply_fault, fault))

    def start_node(self, name: str) -> None:
        """Start a machine, unless it is running already."""
        if name not in self.nodes:
            self.nodes[name] = self._create_machine(name)
            self.nodes[name].on_exit = self._on_exit
        if not self.nodes[name].is_running:
            self.trace.add(f"{name} starts")
            self.nodes[name].start()

    def _create_machine(self, name: str) -> SimNode:
        return SimNode(name, self.plan, self.spaces, self._loop, self._dice, self.nodes.get)

    def kill_node(self, name: str) -> None:
        self.trace.add(f"{name} dies")
        self.nodes[name].stop()

    def heal(self) -> None:
        """From now on no message is lost or late, nothing fails and there are no commits."""
        # Faults that are not over yet go on: the schedule ends them before the horizon. What ends here is chance.
        self._is_healed = True
        for space in self.spaces:
            space.heal()
        for node in self.nodes.values():
            node.link.quality = replace(node.link.quality, loss_chance=0.0, late_chance=0.0)

    # -- clients ----------------------------------------------------------------------------------------------------

    def probe(self) -> None:
        """Read from every machine that can answer what it claims to hold, all at the same instant (OWN-1)."""
        running = [node for node in self.nodes.values() if node.is_running]
        for space in self.spaces:
            self._send_queries(space, [self._probe_dice.choice(running)] if running else [])
            answers: dict[Unit, dict[str, int]] = {}
            for node in self.nodes.values():
                for unit, epoch in node.held_leases(space.name):
                    answers.setdefault(unit, {})[node.name] = epoch
            for unit, epochs in answers.items():
                space.on_response(unit, epochs)

    def _send_queries(self, space: SimSpace, machines: Sequence[SimNode]) -> None:
        """Clients query machines for all repositories: each must know which of them it may not return."""
        if space.search is not None:
            for machine in machines:
                machine.run_query(space.name, list(space.search.specs.specs))

    def _query_all_nodes(self) -> None:
        for space in self.spaces:
            self._send_queries(space, list(self.nodes.values()))

    async def run_workload(self, space: SimSpace) -> None:
        """Commits to the repositories of a space, as its plan says, until the world is healed."""
        search, random = space.search, self._dice(f"work {space.name}")
        if search is None or not search.plan.commit_mean_s:
            return
        names = list(search.specs.specs)
        while not self._is_healed:
            await asyncio.sleep(random.uniform(0.0, 2.0 * search.plan.commit_mean_s))
            if not self._is_healed:
                growth = random.uniform(*search.plan.grows)
                search.commit(random.choice(names), growth, is_announced=random.random() < 0.5)

    async def run_probes(self, mean_s: float) -> None:
        while True:
            await asyncio.sleep(self._probe_dice.uniform(0.0, 2.0 * mean_s))
            self.probe()

    def unsettled_units(self) -> dict[str, str]:
        """Each unit that is not held, ready and served, and why."""
        trouble = {}
        for space in self.spaces:
            members = {node.name: node.member(space.name) for node in self.nodes.values() if node.can_answer}
            found = unsettled_units(space.store.snapshot(), space.plan.primaries(), members)
            found = found or self.stale(space)
            trouble.update({f"{space.name}/{unit}": why for unit, why in found.items()})
        return trouble

    def stale(self, space: SimSpace) -> dict[Unit, str]:
        """Each repository of a ready slot whose index is missing or old, and on which node."""
        trouble: dict[Unit, str] = {}
        if (search := space.search) is None:
            return trouble
        for lease in space.store.snapshot().leases:
            node = self.nodes.get(lease.node)
            search_node = None if node is None else node.search_node(space.name)
            if search_node is None or lease.state is not LeaseState.READY:
                continue
            has, wanted = search_node.commit_of(lease.unit.name), search.origins.heads(lease.unit.name)[0].version
            if has != wanted:
                trouble[lease.unit] = f"{lease.node} has {has}, and its origin is at {wanted}"
        return trouble

    async def settle(self, within_s: float) -> float | None:
        """Wait until everything is served; returns how long it took, or None, with a violation, if it takes too
        long."""
        began = self._loop.time()
        # Polled, and not driven by events: an event that is lost would be a bug to find, and must not hang the checker.
        while trouble := self.unsettled_units():
            if self._loop.time() - began > within_s:
                example = ": ".join(next(iter(trouble.items())))
                self.violations.add(
                    "LIVE", f"{len(trouble)} units not served after {within_s:.1f} s without faults: {example}"
                )
                return None
            await asyncio.sleep(SETTLE_STEP_S)
        return self._loop.time() - began

    # -- faults -----------------------------------------------------------------------------------------------------

    def _apply_fault(self, fault: Fault) -> None:
        self.trace.add(f"{fault}")
        match fault:
            case Join(node=name):
                self.start_node(name)
            case Outage(for_s=for_s, loses_data=loses_data):
                self._stop_stores()
                self._in(for_s, lambda: self._start_stores(loses_data))
            case _ if not self.nodes[fault.node].is_running:
                pass  # a fault of a machine that is not running has no effect
            case Crash(node=name, restart_after_s=after_s):
                self.kill_node(name)
                self._restart(name, after_s)
            case Drain(node=name, restart_after_s=after_s):
                self.nodes[name].drain()
                self._restart(name, after_s)
            case Pause(node=name, for_s=for_s):
                self._pause(self.nodes[name], for_s)
            case Partition() | SlowLink() | Lag() | ClockSkew():
                self._degrade(self.nodes[fault.node], fault)

    def _degrade(self, node: SimNode, fault: Partition | SlowLink | Lag | ClockSkew) -> None:
        match fault:
            case Partition(for_s=for_s, directions=directions):
                for direction in directions:
                    node.link.block(direction)
                    self._in(for_s, partial(node.link.heal, direction))
            case SlowLink(for_s=for_s, factor=factor):
                node.link.slowness = factor
                self._in(for_s, lambda: setattr(node.link, "slowness", 1.0))
            case Lag(for_s=for_s, chance=chance):
                node.link.lag_chance = chance
                self._in(for_s, lambda: setattr(node.link, "lag_chance", 0.0))
            case ClockSkew(step_s=step_s):
                node.clock.wall_offset_s += step_s

    def _pause(self, node: SimNode, for_s: float) -> None:
        process = node.process
        assert process is not None
        if process.is_paused:
            return
        process.pause()

        def resume() -> None:
            self.trace.add(f"{process.name} resumes")
            process.resume()
            # A resumed node first answers the request that has been waiting, and must notice that its lease is over.
            self.probe()

        self._in(for_s, resume)

    def _restart(self, name: str, after_s: float | None) -> None:
        """Start a machine again later. If its process is still draining by then, it is killed."""
        if after_s is not None:
            before = self.nodes[name].process

            def again() -> None:
                if self.nodes[name].process is before:
                    self.nodes[name].stop()
                self.start_node(name)

            self._in(after_s, again)

    def _stop_stores(self) -> None:
        self._outages += 1
        for space in self.spaces:
            space.stop()

    def _start_stores(self, loses_data: bool) -> None:
        """Outages may overlap: the store is reachable again when the last one is over."""
        # All stores of a world are on one server, so they fail and come back together.
        self._outages -= 1
        self._has_lost_data |= loses_data
        if self._outages == 0:
            self.trace.add(f"the store is back, data lost: {self._has_lost_data}")
            for space in self.spaces:
                space.start(has_lost_data=self._has_lost_data)
            self._has_lost_data = False

    def _on_exit(self, node: SimNode, why: BaseException) -> None:
        self.trace.add(f"{node.name} ends: {type(why).__name__}: {why}")
        # Restarted in any case, as a supervisor would: other bugs of the same seed should still be found.
        if not is_expected_exit(why):
            self.violations.add("BUG", f"{node.name} failed with {type(why).__name__}: {why}")
        self._in(RESTART_S, lambda: self.start_node(node.name))

    # -- time and randomness ----------------------------------------------------------------------------------------

    def _in(self, delay_s: float, action: Callable[[], object]) -> None:
        self._at(self._loop.time() + delay_s, action)

    def _at(self, when: float, action: Callable[[], object]) -> None:
        self._loop.call_at(when, action, context=OUTSIDE)

    def _dice(self, name: str) -> Random:
        """A random generator for each part of the world, so that a change in one part does not change the others."""
        return seeded_random(f"{self.plan.seed} {name}")
