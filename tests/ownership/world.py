"""Whole nodes on one memory store in virtual time, so that minutes take milliseconds and every run is the same."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from argosy.base.clock import seeded_random
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metric, Metrics
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.effects import ServingChange, ServingStarted, ServingStopped
from argosy.ownership.events import WatchEvent
from argosy.ownership.model import Lease, LeaseState, Space, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings
from argosy.sim.loop import SimClock, SimLoop, run

MIB = 1 << 20
PATIENCE_S = 600.0  # of virtual time


class IndexSet:
    """A node's workload and its memory: warm units take bytes, and warming takes time."""

    def __init__(self, clock: SimClock, budget_bytes: int, sizes: dict[str, int], warm_s: float = 1.0) -> None:
        self._clock = clock
        self._budget_bytes = budget_bytes
        self._sizes = sizes
        self.warm_s = warm_s
        self.drop_s = 0.0
        self.spoilt: set[str] = set()
        self.kept: dict[str, int] = {}
        self.warmed: list[str] = []
        self.dropped: list[str] = []

    async def warm(self, lease: Lease) -> int:
        name = lease.unit.name
        if name not in self.kept:
            await self._clock.sleep(self.warm_s)
            self.warmed.append(name)
        if name in self.spoilt:
            raise ValueError(f"{name} is spoilt")
        self.kept[name] = self._sizes.get(name, MIB)
        return self.kept[name]

    async def drop(self, unit: Unit) -> None:
        await self._clock.sleep(self.drop_s)
        self.dropped.append(unit.name)
        self.kept.pop(unit.name, None)

    def free_bytes(self) -> int:
        return self._budget_bytes - sum(self.kept.values())


class MutableCatalog:
    """Implements `UnitCatalog`; tests change it as they go."""

    def __init__(self) -> None:
        self.specs: dict[str, UnitSpec] = {}

    async def units(self) -> list[UnitSpec]:
        return list(self.specs.values())


class Link:
    """One node's link to the store: counts the calls, and can be cut."""

    def __init__(self, store: MemoryOwnershipStore) -> None:
        self._store = store
        self.is_cut = False
        self.broken: set[str] = set()  # calls that fail although the link is not cut
        self.failures: Counter[str] = Counter()  # how many of the next calls fail
        self.calls: Counter[str] = Counter()

    @property
    def space(self) -> Space:
        return self._store.space

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            is_failing = self.failures[name] > 0
            self.failures[name] -= is_failing
            if self.is_cut or is_failing or name in self.broken:
                raise Unavailable("the link is cut")
            return await getattr(self._store, name)(*args, **named)

        return call

    async def watch(self) -> AsyncIterator[WatchEvent]:
        if self.is_cut:
            raise Unavailable("the link is cut")
        async for event in self._store.watch():
            if self.is_cut:
                raise Unavailable("the link is cut")
            yield event


class World:
    """A store, a catalog, and the nodes that were started."""

    def __init__(self, loop: SimLoop, *, is_auctioned: bool = True, **changes: Any) -> None:
        placement = "auction" if is_auctioned else "claim"
        self.settings = OwnershipSettings(**{"placement": placement, **changes})
        self.clock = SimClock(loop.time)
        self.store = MemoryOwnershipStore(Space("repos", is_auctioned), clock=self.clock, random=seeded_random("store"))
        self.events: list[tuple[float, WatchEvent]] = []
        self.store.observers.append(lambda event: self.events.append((self.clock.now(), event)))
        self.catalog = MutableCatalog()
        self.sizes: dict[str, int] = {}
        self.nodes: dict[str, OwnershipNode] = {}
        self.shelves: dict[str, IndexSet] = {}
        self.links: dict[str, Link] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.metrics: dict[str, Metrics] = {}
        self.crashed: dict[str, float] = {}
        self.serving: list[tuple[float, str, ServingChange]] = []

    def add_units(self, *names: str, **changes: Any) -> None:
        for name in names:
            self.catalog.specs[name] = UnitSpec(name, **changes)
            self.sizes[name] = changes.get("footprint_bytes") or MIB

    def start(self, node_id: str, *, budget_bytes: int = 1024 * MIB, warm_s: float = 1.0) -> OwnershipNode:
        index_set = self.shelves[node_id] = IndexSet(self.clock, budget_bytes, self.sizes, warm_s)
        link = self.links[node_id] = Link(self.store)
        self.metrics[node_id] = Metrics()
        node = self.nodes[node_id] = OwnershipNode(
            link,
            self.catalog,
            index_set,
            index_set,
            node_id=node_id,
            address=f"http://{node_id}",
            settings=self.settings,
            clock=self.clock,
            random=seeded_random(f"{node_id}{len(self.tasks)}"),
            metrics=self.metrics[node_id],
        )
        node.observers.append(lambda change: self.serving.append((self.clock.now(), node_id, change)))
        self.tasks[node_id] = asyncio.ensure_future(node.run())
        return node

    async def crash(self, node_id: str) -> None:
        """The process dies at once: its sessions stay until they expire."""
        self.links[node_id].is_cut = True
        self.tasks[node_id].cancel()
        await asyncio.gather(self.tasks[node_id], return_exceptions=True)
        del self.nodes[node_id]
        self.crashed[node_id] = self.clock.now()

    async def until(self, is_so: Callable[[], bool], *, within_s: float = PATIENCE_S) -> float:
        """Lets time pass until the condition holds; returns the instant."""
        deadline = self.clock.now() + within_s
        while not is_so():
            if self.clock.now() > deadline:
                raise AssertionError(f"not so within {within_s} s; leases: {self.store.snapshot().leases}")
            for node, task in self.tasks.items():
                assert node not in self.nodes or not task.done() or task.exception() is None, task
            await self.clock.sleep(0.05)
        return self.clock.now()

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def holder(self, name: str, replica: int = 0) -> str | None:
        found = (lease.node for lease in self.store.snapshot().leases if lease.unit == Unit(name, replica))
        return next(found, None)

    def ready(self) -> dict[str, str]:
        """Primary units that are ready, and where."""
        leases = self.store.snapshot().leases
        return {x.unit.name: x.node for x in leases if x.unit.replica == 0 and x.state is LeaseState.READY}

    def all_ready(self) -> bool:
        return self.ready().keys() == self.catalog.specs.keys()

    def value(self, node: str, metric: Metric) -> float:
        return self.metrics[node].value(metric, space="repos")

    def total(self, metric: Metric) -> float:
        return sum(self.value(node, metric) for node in self.metrics)

    def spans(self, name: str, replica: int = 0) -> list[tuple[float, float, str]]:
        """When each node served the unit: (from, to, node); still serving is to infinity."""
        began: dict[str, float] = {}
        spans: list[tuple[float, float, str]] = []
        for at, node, change in self.serving:
            match change:
                case ServingStarted(unit) if unit == Unit(name, replica):
                    began[node] = at
                case ServingStopped(unit) if unit == Unit(name, replica):
                    spans.append((began.pop(node), at, node))
        return sorted([*spans, *((at, self.crashed.get(node, float("inf")), node) for node, at in began.items())])


def in_virtual_time(
    *, is_auctioned: bool = True, **changes: Any
) -> Callable[[Callable[[World], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Makes a test of an `async def test_…(world)`: all of it runs on the simulator's loop."""

    def decorate(story: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def main(loop: SimLoop) -> None:
            world = World(loop, is_auctioned=is_auctioned, **changes)
            await story(world)
            for task in world.tasks.values():
                task.cancel()
            await asyncio.gather(*world.tasks.values(), return_exceptions=True)

        def run_scenario() -> None:
            run(main)

        run_scenario.__name__, run_scenario.__doc__, run_scenario.__module__ = (
            story.__name__,
            story.__doc__,
            story.__module__,
        )
        return run_scenario

    return decorate
