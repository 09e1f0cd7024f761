"""One simulated machine. Its link and clock last as long as the world; its process is started and stopped.

A process runs one real `OwnershipNode` per space, and where the units are repositories a real `SearchNode`. It ends
when it is killed, when all of them have left, or when one of them gives up; a bug ends it too, and is reported.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.metrics import Metric, Metrics
from argosy.ownership.effects import ServingChange
from argosy.ownership.model import Lease, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.sim.link import Link
from argosy.sim.loop import SimClock, SimLoop, SimProcess
from argosy.sim.network import SimulatedStore
from argosy.sim.plan import SpacePlan, WorldPlan
from argosy.sim.search_node import SimSearchNode
from argosy.sim.space import SimSpace

# -- workload ---------------------------------------------------------------------------------------------------------

WARM_AT_LEAST_S = 0.2  # of any fetch


class SimCatalog:
    """The catalog of a space without repositories; shared by all nodes, and always reachable."""

    def __init__(self, specs: tuple[UnitSpec, ...]) -> None:
        self._specs = list(specs)

    async def units(self) -> list[UnitSpec]:
        return self._specs


class SimMemory:
    """The memory of one process: implements `MemoryProbe`."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.held: dict[str, int] = {}

    def free_bytes(self) -> int:
        return max(0, self.budget_bytes - self.held_bytes())

    def held_bytes(self) -> int:
        return sum(self.held.values())


class SimWorkload:
    """Warms a unit by sleeping in proportion to its size; some attempts fail."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        memory: SimMemory,
        *,
        clock: Clock,
        random: Random,
        bytes_per_s: float,
        failure_chance: Callable[[], float],
    ) -> None:
        self._sizes = sizes
        self._memory = memory
        self._clock = clock
        self._random = random
        self._bytes_per_s = bytes_per_s
        self._failure_chance = failure_chance

    async def warm(self, lease: Lease) -> int:
        name = lease.unit.name
        size = self._sizes[name]
        if name not in self._memory.held:
            await self._clock.sleep(WARM_AT_LEAST_S + size / self._bytes_per_s)
            if self._random.random() < self._failure_chance():
                raise Unavailable(f"the mirror of {name!r} is unreachable")
            self._memory.held[name] = size
        return size

    async def drop(self, unit: Unit) -> None:
        self._memory.held.pop(unit.name, None)


# -- node -------------------------------------------------------------------------------------------------------------

RESTART_S = 1.0  # after which a supervisor restarts a node that exited


class NoMetrics(Metrics):
    """Drops everything: a world is observed from outside, and metrics would only take time."""

    def inc(self, metric: Metric, /, by: float = 1.0, **labels: object) -> None: ...

    def set(self, metric: Metric, value: float, /, **labels: object) -> None: ...

    def observe(self, metric: Metric, value: float, /, **labels: object) -> None: ...

    def remove(self, metric: Metric, /, **labels: object) -> None: ...


class SimNode:
    """A machine with an id, and the process of the node on it."""

    def __init__(
        self,
        name: str,
        plan: WorldPlan,
        spaces: list[SimSpace],
        loop: SimLoop,
        dice: Callable[[str], Random],
        machines: "Callable[[str], SimNode | None]" = lambda name: None,
    ) -> None:
        # Drawn from the name: adding a machine to a world does not change the clocks of the others.
        random = dice(f"machine {name}")
        self.name = name
        self.link = Link(loop, dice(f"link {name}"), plan.quality)
        self.clock = SimClock(
            loop.time,
            drift=random.uniform(-plan.drift_max, plan.drift_max),
            # Anywhere, so that times of two nodes are never comparable by luck (decision 0005).
            started_at=random.uniform(0.0, 1e6),
            wall_offset_s=random.uniform(-30.0, 30.0),
        )
        self.process: SimProcess | None = None
        self.memory = SimMemory(plan.node_bytes)
        self.calls = 0  # of all processes that have ended
        self._plan = plan
        self._spaces = spaces
        self._loop = loop
        self._dice = dice
        self._run = 0
        self._machines = machines
        self._members: dict[str, OwnershipNode] = {}
        self._search_nodes: dict[str, SimSearchNode] = {}
        self._stores: list[SimulatedStore] = []
        self.on_exit: Callable[[SimNode, BaseException], None] = lambda node, why: None

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def can_answer(self) -> bool:
        return self.process is not None and not self.process.is_paused

    def member(self, space: str) -> OwnershipNode:
        """The ownership node of a space; only while the process is running."""
        return self._members[space]

    def search_node(self, space: str) -> SimSearchNode | None:
        """The search node of a space, if there is one and the process is running."""
        return self._search_nodes.get(space)

    def held_bytes(self) -> int:
        return self.memory.held_bytes() + sum(each.node.held_bytes() for each in self._search_nodes.values())

    def store_calls(self) -> int:
        return self.calls + sum(store.calls for store in self._stores)

    def start(self) -> None:
        assert self.process is None
        self._run += 1
        self.memory = SimMemory(self._plan.node_bytes)
        self.process = SimProcess(f"{self.name} run {self._run}", self._loop)
        self._members = {space.name: self._create_member(space) for space in self._spaces}
        for search_node in self._search_nodes.values():
            self.process.spawn(self._search(self.process, search_node))
        self.process.spawn(self._run_members(self.process))

    def stop(self) -> None:
        """Kill the process, from one instant to the next."""
        if self.process is None:
            return
        # The process object is dropped and not reused: a late timer of it must not run in its successor.
        self.process.kill()
        self.process = None
        self.calls, self._stores = self.store_calls(), []
        self._members, self._search_nodes = {}, {}
        self.memory = SimMemory(self._plan.node_bytes)
        for space in self._spaces:
            space.on_node_death(self.name, self.link)

    def drain(self) -> None:
        """Start an orderly departure; the process ends by itself when it is done."""
        if self.process is not None:
            for member in self._members.values():
                self.process.spawn(member.drain())

    def _create_member(self, space: SimSpace) -> OwnershipNode:
        plan: SpacePlan = space.plan
        # With the number of the run: a restarted process must not repeat what the previous one drew.
        random = self._dice(f"node {self.name} run {self._run} space {space.name}")
        store = SimulatedStore(self.name, space.server, self.link, self._loop, timeout_s=self._plan.call_timeout_s)
        self._stores.append(store)
        search_node = self._create_search_node(space, random)
        workload = search_node.node if search_node is not None else self._create_workload(space, random)
        member = OwnershipNode(
            store,
            SimCatalog(plan.specs) if search_node is None else search_node.catalog,
            workload,
            self.memory if search_node is None else search_node.node,
            node_id=self.name,
            address=f"{self.name}:6070",
            settings=plan.settings,
            clock=self.clock,
            random=random,
            metrics=NoMetrics(),
        )
        if search_node is not None:
            search_node.join(member)
        member.observers.append(self._serving_observer(space))
        return member

    def _create_workload(self, space: SimSpace, random: Random) -> SimWorkload:
        return SimWorkload(
            space.plan.sizes,
            self.memory,
            clock=self.clock,
            random=random,
            bytes_per_s=self._plan.index_bytes_per_s,
            failure_chance=lambda: space.failure_chance,
        )

    def _create_search_node(self, space: SimSpace, random: Random) -> SimSearchNode | None:
        if space.search is None:
            return None
        search_node = self._search_nodes[space.name] = SimSearchNode(
            self.name,
            space.search,
            space.search.plan,
            self.link,
            self._machines,
            clock=self.clock,
            random=random,
            metrics=NoMetrics(),
        )
        return search_node

    def _serving_observer(self, space: SimSpace) -> Callable[[ServingChange], None]:
        return lambda change: space.on_serving_change(self.name, self.clock, change)

    async def _run_members(self, process: SimProcess) -> None:
        try:
            await asyncio.gather(*[member.run() for member in self._members.values()])
        except Exception as why:  # the world reports it if it is a bug
            # Not directly: that would kill the process from within one of its own tasks.
            self._loop.call_soon(self._on_end, process, why)
        else:
            self._loop.call_soon(self._on_end, process, None)  # all have left in order

    async def _search(self, process: SimProcess, search_node: SimSearchNode) -> None:
        try:
            await search_node.node.run()
        except Exception as why:  # the world reports it if it is a bug
            self._loop.call_soon(self._on_end, process, why)

    def run_query(self, space: str, names: list[str]) -> None:
        """A client's query, which runs whenever the process gets to it."""
        if self.process is not None and (search_node := self._search_nodes.get(space)) is not None:
            self.process.spawn(search_node.run_query(names))

    def _on_end(self, process: SimProcess, why: BaseException | None) -> None:
        if self.process is not process:
            return  # killed and maybe restarted in the meantime
        self.stop()
        if why is not None:
            self.on_exit(self, why)

    def held_leases(self, space: str) -> Iterator[tuple[Unit, int]]:
        """The units that this machine claims to hold at this instant, with their epochs."""
        if self.can_answer:
            member = self._members[space]
            for lease in member.own_leases():
                if member.holds(lease.unit):
                    yield lease.unit, member.require_lease(lease.unit).epoch


def is_expected_exit(why: BaseException) -> bool:
    """A node may exit with an `ArgosyError`, for example because its id is in use; any other exception is a bug."""
    return isinstance(why, ArgosyError)
