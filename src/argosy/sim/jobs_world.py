"""A world of job brokers: real nodes that hold shards on the ring, on shared storage.

It has the faults of machines, links and the ownership store that any world has. In addition shards are split, disks
fail for a while, and a partition may cut a machine off from its clients.
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
from argosy.sim.jobs_node import JobsMachine, ObservedShards, SharedJobsState
from argosy.sim.loop import SimClock, SimLoop
from argosy.sim.node import SimNode
from argosy.sim.plan import ClockSkew, Lag, Partition, SlowLink, WorldPlan
from argosy.sim.world import World
from argosy.throttle.limits.backends.memory import MemoryLimiter

SHARDS_MAX = 10  # after which no shard is split


@dataclass(frozen=True)
class DiskFault:
    """The storage of one shard fails for a while."""

    at: float
    for_s: float


@dataclass(frozen=True)
class JobsPlan:
    """The world, and the faults of its shards."""

    world: WorldPlan
    settings: JobsSettings
    heights: dict[str, int]  # of the limits that jobs name
    splits: tuple[float, ...] = ()  # when a shard is split
    disks: tuple[DiskFault, ...] = ()


class JobsWorld(World):
    """Machines of the job broker."""

    def __init__(self, loop: SimLoop, plan: JobsPlan, *, keeps_trace: bool = False) -> None:
        super().__init__(loop, plan.world, keeps_trace=keeps_trace)
        self.jobs_plan = plan
        self.checker = JobsChecker(self.violations, plan.heights)
        shards = ObservedShards(self.checker, self.trace, self._dice("disks"))
        self.shared_state = SharedJobsState(plan.settings, shards, MemoryLimiter(clock=SimClock(loop.time)))
        self.shared_state.on_bug = partial(self.violations.add, "BUG")
        self.splits = 0
        self._partition_dice = self._dice("cuts")
        self._shard_dice = self._dice("shards")

    def start(self) -> None:
        super().start()
        for at in self.jobs_plan.splits:
            self._at(at, self._split)
        for fault in self.jobs_plan.disks:
            self._at(fault.at, partial(self._fail_disk, fault))

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
            return {"all": "no node is running"}
        units = [Unit(place.id) for place in max(maps, key=len)]  # the newest map, because shards are only ever split
        members = {name: node.ownership for name, node in serving.items()}
        return {str(unit): why for unit, why in unsettled_units(space.store.snapshot(), units, members).items()}

    async def audit(self) -> None:
        """Run the audit of all shards, once nothing happens any more."""
        for machine in self.machines():
            if machine.jobs is not None:
                # A copy, because shards may be closed while the audit awaits.
                for opened in list(machine.jobs._host.open.values()):
                    for wrong in await audit(opened.shard):
                        self.violations.add("AUDIT", f"{machine.name}, shard {opened.spec.id}: {wrong}")

    # -- faults -----------------------------------------------------------------------------------------------------

    def _create_machine(self, name: str) -> SimNode:
        return JobsMachine(name, self.plan, self.spaces, self._loop, self._dice, self.shared_state)

    def _degrade(self, node: SimNode, fault: Partition | SlowLink | Lag | ClockSkew) -> None:
        wire = cast(JobsMachine, node).wire
        match fault:
            case Partition(for_s=for_s, directions=directions):
                side = self._partition_dice.choice(["store", "clients", "both"])
                if side != "clients":
                    super()._degrade(node, fault)
                if side != "store":
                    for direction in directions:
                        wire.block(direction)
                        self._in(for_s, partial(wire.heal, direction))
            case Lag(for_s=for_s, chance=chance):
                super()._degrade(node, fault)
                wire.lag_chance = chance
                self._in(for_s, lambda: setattr(wire, "lag_chance", 0.0))
            case _:
                super()._degrade(node, fault)

    def _split(self) -> None:
        """Request a split of any shard that is served."""
        served = [
            (machine, machine.jobs, shard_id)
            for machine in self.machines()
            if machine.can_answer and machine.jobs is not None
            for shard_id, _ in machine.jobs.local()
        ]
        if served and len(self.shared_state.shards.disks) < SHARDS_MAX:
            machine, node, shard_id = self._shard_dice.choice(served)
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

    def _fail_disk(self, fault: DiskFault) -> None:
        disks = self.shared_state.shards.disks
        if disks:
            shard = self._shard_dice.choice(sorted(disks))
            self.trace.add(f"{shard} fails for {fault.for_s:.3f} s")
            disk = disks[shard]
            disk.call_error = "the storage is unreachable"
            self._in(fault.for_s, lambda: setattr(disk, "call_error", None))

    # -- for clients and workers ------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._loop.time()
