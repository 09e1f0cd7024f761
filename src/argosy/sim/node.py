"""One simulated machine: its link and clock last, its process comes and goes.

A process runs one real `OwnershipNode` per space, and where the units are repositories a real `SearchNode`. It ends
when it is killed, when all of them have left, or when one of them gives up; a bug ends it too, and is reported.
"""

import asyncio
from collections.abc import Callable, Iterator

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError
from argosy.base.metrics import Metric, Metrics
from argosy.ownership.effects import ServingChange
from argosy.ownership.model import Unit
from argosy.ownership.node_service import OwnershipNode
from argosy.sim.clocks import SimClock
from argosy.sim.link import Link
from argosy.sim.loop import Process, SimLoop
from argosy.sim.network import SimulatedStore
from argosy.sim.plan import SpacePlan, WorldPlan
from argosy.sim.search_node import SimSearchNode
from argosy.sim.space import SimSpace
from argosy.sim.workload import SimCatalog, SimMemory, SimWorkload

GAVE_UP_RESTART_S = 1.0  # a supervisor starts a node again that gave up


class Uncounted(Metrics):
    """A world is measured from outside; figures that nobody reads only take time."""

    def inc(self, metric: Metric, /, by: float = 1.0, **labels: object) -> None: ...

    def set(self, metric: Metric, value: float, /, **labels: object) -> None: ...

    def observe(self, metric: Metric, value: float, /, **labels: object) -> None: ...

    def remove(self, metric: Metric, /, **labels: object) -> None: ...


class SimNode:
    """A machine with an id."""

    def __init__(
        self,
        name: str,
        plan: WorldPlan,
        spaces: list[SimSpace],
        loop: SimLoop,
        dice: Callable[[str], Random],
        machines: "Callable[[str], SimNode | None]" = lambda name: None,
    ) -> None:
        random = dice(f"machine {name}")
        self.name = name
        self.link = Link(loop, dice(f"link {name}"), plan.quality)
        self.clock = SimClock(
            loop.time,
            drift=random.uniform(-plan.drift_max, plan.drift_max),
            started_at=random.uniform(0.0, 1e6),
            wall_offset_s=random.uniform(-30.0, 30.0),
        )
        self.process: Process | None = None
        self.memory = SimMemory(plan.node_bytes)
        self.calls = 0  # of all runs that have ended
        self._plan = plan
        self._spaces = spaces
        self._loop = loop
        self._dice = dice
        self._run = 0
        self._machines = machines
        self._members: dict[str, OwnershipNode] = {}
        self._searching: dict[str, SimSearchNode] = {}
        self._stores: list[SimulatedStore] = []
        self.on_trouble: Callable[[SimNode, BaseException], None] = lambda node, why: None

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def can_answer(self) -> bool:
        return self.process is not None and not self.process.is_paused

    def member(self, space: str) -> OwnershipNode:
        """This machine's part in a space; only while it is running."""
        return self._members[space]

    def searching(self, space: str) -> SimSearchNode | None:
        """This machine's search node of a space, if there is one and it is running."""
        return self._searching.get(space)

    def held_bytes(self) -> int:
        return self.memory.held_bytes() + sum(each.node.held_bytes() for each in self._searching.values())

    def store_calls(self) -> int:
        return self.calls + sum(store.calls for store in self._stores)

    def start(self) -> None:
        assert self.process is None
        self._run += 1
        self.memory = SimMemory(self._plan.node_bytes)
        self.process = Process(f"{self.name} run {self._run}", self._loop)
        self._members = {space.name: self._take_part(space) for space in self._spaces}
        for searching in self._searching.values():
            self.process.spawn(self._search(self.process, searching))
        self.process.spawn(self._live(self.process))

    def stop(self) -> None:
        """The process is gone from one instant to the next."""
        if self.process is None:
            return
        self.process.kill()
        self.process = None
        self.calls, self._stores = self.store_calls(), []
        self._members, self._searching = {}, {}
        self.memory = SimMemory(self._plan.node_bytes)
        for space in self._spaces:
            space.on_node_death(self.name, self.link)

    def drain(self) -> None:
        """Asks the process to leave in good order; it ends by itself when it has."""
        if self.process is not None:
            for member in self._members.values():
                self.process.spawn(member.drain())

    def _take_part(self, space: SimSpace) -> OwnershipNode:
        plan: SpacePlan = space.plan
        random = self._dice(f"node {self.name} run {self._run} space {space.name}")
        store = SimulatedStore(self.name, space.server, self.link, self._loop, timeout_s=self._plan.call_timeout_s)
        self._stores.append(store)
        searching = self._search_of(space, random)
        workload = searching.node if searching is not None else self._workload_of(space, random)
        member = OwnershipNode(
            store,
            SimCatalog(plan.specs) if searching is None else searching.catalog,
            workload,
            self.memory if searching is None else searching.node,
            node_id=self.name,
            address=f"{self.name}:6070",
            settings=plan.settings,
            clock=self.clock,
            random=random,
            metrics=Uncounted(),
        )
        if searching is not None:
            searching.join(member)
        member.observers.append(self._reporter(space))
        return member

    def _workload_of(self, space: SimSpace, random: Random) -> SimWorkload:
        return SimWorkload(
            space.plan.sizes,
            self.memory,
            clock=self.clock,
            random=random,
            bytes_per_s=self._plan.index_bytes_per_s,
            failure_chance=lambda: space.failure_chance,
        )

    def _search_of(self, space: SimSpace, random: Random) -> SimSearchNode | None:
        if space.search is None:
            return None
        searching = self._searching[space.name] = SimSearchNode(
            self.name,
            space.search,
            space.search.plan,
            self.link,
            self._machines,
            clock=self.clock,
            random=random,
            metrics=Uncounted(),
        )
        return searching

    def _reporter(self, space: SimSpace) -> Callable[[ServingChange], None]:
        return lambda change: space.on_serving_change(self.name, self.clock, change)

    async def _live(self, process: Process) -> None:
        try:
            await asyncio.gather(*[member.run() for member in self._members.values()])
        except Exception as why:  # for the world to judge
            self._loop.call_soon(self._ended, process, why)
        else:
            self._loop.call_soon(self._ended, process, None)  # all have left

    async def _search(self, process: Process, searching: SimSearchNode) -> None:
        try:
            await searching.node.run()
        except Exception as why:  # for the world to judge
            self._loop.call_soon(self._ended, process, why)

    def ask(self, space: str, names: list[str]) -> None:
        """A client's question, answered whenever the process gets to it."""
        if self.process is not None and (searching := self._searching.get(space)) is not None:
            self.process.spawn(searching.ask(names))

    def _ended(self, process: Process, why: BaseException | None) -> None:
        if self.process is not process:
            return
        self.stop()
        if why is not None:
            self.on_trouble(self, why)

    def held_leases(self, space: str) -> Iterator[tuple[Unit, int]]:
        """What this machine says it holds at this instant."""
        if self.can_answer:
            member = self._members[space]
            for lease in member.own_leases():
                if member.holds(lease.unit):
                    yield lease.unit, member.require_lease(lease.unit).epoch


def is_lawful_end(why: BaseException) -> bool:
    """A node may give up (its id is in use); anything that is no `ArgosyError` is a bug."""
    return isinstance(why, ArgosyError)
