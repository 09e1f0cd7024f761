"""Whole nodes in one process, each with its own connection, until every unit is owned."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from argosy.base.errors import Unavailable
from argosy.bench.ownership.site import Site
from argosy.ownership.effects import ServingChange, ServingStarted
from argosy.ownership.model import Lease, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.settings import OwnershipSettings

NODES = 20
GIVE_UP_S = 180.0
UNIT_BYTES = 1 << 20
NODE_BYTES = 64 << 30
# Pacing spares a shared store; here it would only measure itself. All else is as it comes.
SETTINGS = OwnershipSettings(claim_jitter_s=0.02, closings_per_s=1_000)


class Catalog:
    """Wants a fixed number of units."""

    def __init__(self, units: int) -> None:
        self._specs = [UnitSpec(f"unit-{n}", footprint_bytes=UNIT_BYTES) for n in range(units)]

    async def units(self) -> list[UnitSpec]:
        return self._specs


class Memory:
    """Workload and memory probe in one: a unit is ready at once and takes its bytes."""

    def __init__(self) -> None:
        self._units: set[Unit] = set()

    async def warm(self, lease: Lease) -> int:
        self._units.add(lease.unit)
        return UNIT_BYTES

    async def drop(self, unit: Unit) -> None:
        self._units.discard(unit)

    def free_bytes(self) -> int:
        return NODE_BYTES - len(self._units) * UNIT_BYTES


async def all_owned_s(site: Site, units: int) -> float:
    """Seconds from starting twenty nodes until each unit is served by one of them."""
    served: set[Unit] = set()
    are_all_served = asyncio.Event()

    def note(change: ServingChange) -> None:
        if isinstance(change, ServingStarted):
            served.add(change.unit)
            if len(served) == units:
                are_all_served.set()

    async with AsyncExitStack() as stack:
        nodes = [node_on(store, n, units) for n, store in enumerate(await stores(site, stack))]
        for node in nodes:
            node.observers.append(note)
        started = time.perf_counter()
        running = [asyncio.ensure_future(node.run()) for node in nodes]
        stack.push_async_callback(end, running)
        waiting = asyncio.ensure_future(are_all_served.wait())
        await asyncio.wait([waiting, *running], timeout=GIVE_UP_S, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            ended = [repr(task.exception()) for task in running if task.done()]
            raise Unavailable(f"given up with {len(served)} of {units} units owned; nodes that ended: {ended}")
        return time.perf_counter() - started


async def stores(site: Site, stack: AsyncExitStack) -> list[OwnershipStore]:
    """A connection for each node; in memory they share the one store there is."""
    space = site.new_space(is_auctioned=True)
    if site.server is None:
        return [await stack.enter_async_context(site.opened(space))] * NODES
    return [await stack.enter_async_context(site.opened(space)) for _ in range(NODES)]


def node_on(store: OwnershipStore, number: int, units: int) -> OwnershipNode:
    memory = Memory()
    name = f"n{number}"
    return OwnershipNode(store, Catalog(units), memory, memory, node_id=name, address=f"{name}:1", settings=SETTINGS)


async def end(running: "Sequence[asyncio.Future[None]]") -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
