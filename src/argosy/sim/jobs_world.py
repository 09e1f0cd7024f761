"""A world of job brokers: real nodes that hold shards on the ring, storage they share, and what goes wrong with both.

Faults of machines, links and the ownership store are those of any world; here shards are split on top, disks refuse
for a while, and a partition may cut a machine off from its clients, too.
"""

from dataclasses import dataclass
from functools import partial
from typing import cast

from argosy.base.errors import ArgosyError
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.settings import JobsSettings
from argosy.jobs.shard.audit import audit
from argosy.ownership.model import Unit
from argosy.sim.checkers import unsettled_units
from argosy.sim.checkers.jobs import JobsChecker
from argosy.sim.clocks import SimClock
from argosy.sim.faults import ClockSkew, Lag, Partition, SlowLink
from argosy.sim.jobs_node import JobsMachine, JobsPlane, WatchedShards
from argosy.sim.loop import SimLoop
from argosy.sim.node import SimNode
from argosy.sim.plan import WorldPlan
from argosy.sim.world import World
from argosy.throttle.limits.backends.memory import MemoryLimiter

SHARDS_MAX = 10  # a world is small; past that nothing is split


@dataclass(frozen=True)
class DiskFault:
    """One shard's storage takes nothing for a while."""

    at: float
    for_s: float


@dataclass(frozen=True)
class JobsPlan:
    """The world, and what is done to its shards."""

    world: WorldPlan
    settings: JobsSettings
    heights: dict[str, int]  # of the limits that jobs name
    splits: tuple[float, ...] = ()  # when one shard is split
    disks: tuple[DiskFault, ...] = ()


class JobsWorld(World):
    """Machines of the job broker."""

    def __init__(self, loop: SimLoop, plan: JobsPlan, *, keeps_trace: bool = False) -> None:
        super().__init__(loop, plan.world, keeps_trace=keeps_trace)
        self.jobs_plan = plan
        self.checker = JobsChecker(self.findings, plan.heights)
        shards = WatchedShards(self.checker, self.trace, self._dice("disks"))
        self.plane = JobsPlane(plan.settings, shards, MemoryLimiter(clock=SimClock(loop.time)))
        self.plane.on_bug = partial(self.findings.add, "BUG")
        self.splits = 0
        self._cutting = self._dice("cuts")
        self._choosing = self._dice("shards")

    def start(self) -> None:
        super().start()
        for at in self.jobs_plan.splits:
            self._at(at, self._split)
        for fault in self.jobs_plan.disks:
            self._at(fault.at, partial(self._refuse, fault))

    def heal(self) -> None:
        super().heal()
        for machine in self.machines():
            machine.wire.quality = machine.link.quality

    def machines(self) -> list[JobsMachine]:
        return [cast(JobsMachine, node) for node in self.nodes.values()]

    def machine(self, name: str | None) -> JobsMachine | None:
        return cast(JobsMachine, self.nodes[name]) if name is not None and name in self.nodes else None

    def unsettled_units(self) -> dict[str, str]:
        (space,) = self.spaces
        serving = {machine.name: machine.jobs for machine in self.machines() if machine.can_answer and machine.jobs}
        maps = [node.topology().shards for node in serving.values()]
        if not maps:
            return {"all": "nobody runs"}
        units = [Unit(place.id) for place in max(maps, key=len)]  # shards are only ever split
        members = {name: node.ownership for name, node in serving.items()}
        return {str(unit): why for unit, why in unsettled_units(space.store.snapshot(), units, members).items()}

    async def audit(self) -> None:
        """What the shards' own audit finds, once nothing happens any more."""
        for machine in self.machines():
            if machine.jobs is not None:
                for opened in list(machine.jobs._host.open.values()):
                    for wrong in await audit(opened.shard):
                        self.findings.add("AUDIT", f"{machine.name}, shard {opened.spec.id}: {wrong}")

    # -- faults -----------------------------------------------------------------------------------------------------

    def _machine(self, name: str) -> SimNode:
        return JobsMachine(name, self.plan, self.spaces, self._loop, self._dice, self.plane)

    def _impair(self, node: SimNode, fault: Partition | SlowLink | Lag | ClockSkew) -> None:
        wire = cast(JobsMachine, node).wire
        match fault:
            case Partition(for_s=for_s, directions=directions):
                whom = self._cutting.choice(["store", "clients", "both"])
                if whom != "clients":
                    super()._impair(node, fault)
                if whom != "store":
                    for direction in directions:
                        wire.block(direction)
                        self._in(for_s, partial(wire.heal, direction))
            case Lag(for_s=for_s, chance=chance):
                super()._impair(node, fault)
                wire.lag_chance = chance
                self._in(for_s, lambda: setattr(wire, "lag_chance", 0.0))
            case _:
                super()._impair(node, fault)

    def _split(self) -> None:
        """Somebody asks for a split of any shard that is served."""
        served = [
            (machine, machine.jobs, shard_id)
            for machine in self.machines()
            if machine.can_answer and machine.jobs is not None
            for shard_id, _ in machine.jobs.local()
        ]
        if served and len(self.plane.shards.disks) < SHARDS_MAX:
            machine, node, shard_id = self._choosing.choice(served)
            assert machine.process is not None
            machine.process.spawn(self._request_split(node, shard_id))

    async def _request_split(self, node: JobsNode, shard_id: str) -> None:
        try:
            await node.split(shard_id, "")
        except ArgosyError as why:
            self.trace.add(f"{shard_id} is not split: {type(why).__name__}")
        else:
            self.splits += 1
            self.trace.add(f"{shard_id} is being split")

    def _refuse(self, fault: DiskFault) -> None:
        disks = self.plane.shards.disks
        if disks:
            shard = self._choosing.choice(sorted(disks))
            self.trace.add(f"{shard} refuses for {fault.for_s:.3f} s")
            disk = disks[shard]
            disk.call_error = "the storage is away"
            self._in(fault.for_s, lambda: setattr(disk, "call_error", None))

    # -- for whoever loads the world --------------------------------------------------------------------------------

    def now(self) -> float:
        return self._loop.time()
