"""Whole nodes in one process, each with its own connection to the store, until every unit is owned."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from argosy.base.errors import Unavailable
from argosy.bench.ownership.store_calls import BenchStore
from argosy.ownership.effects import ServingChange, ServingStarted
from argosy.ownership.model import Lease, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.settings import OwnershipSettings

NODES = 20
TIMEOUT_S = 180.0
UNIT_BYTES = 1 << 20
NODE_BYTES = 64 << 30
# Jitter and the limit on closings protect a store that others share. Here they would be the figure. All other settings
# have their defaults.
SETTINGS = OwnershipSettings(claim_jitter_s=0.02, closings_per_s=1_000)


class FixedCatalog:
    """A fixed number of units."""

    def __init__(self, units: int) -> None:
        self._specs = [UnitSpec(f"unit-{n}", footprint_bytes=UNIT_BYTES) for n in range(units)]

    async def units(self) -> list[UnitSpec]:
        return self._specs


class InstantWorkload:
    """Workload and memory probe in one: a unit is ready at once, so that only ownership itself takes time."""

    def __init__(self) -> None:
        self._units: set[Unit] = set()

    async def warm(self, lease: Lease) -> int:
        self._units.add(lease.unit)
        return UNIT_BYTES

    async def drop(self, unit: Unit) -> None:
        self._units.discard(unit)

    def free_bytes(self) -> int:
        return NODE_BYTES - len(self._units) * UNIT_BYTES


async def all_owned_s(bench_store: BenchStore, units: int) -> float:
    """Seconds from starting twenty nodes until each unit is served by one of them."""
    served: set[Unit] = set()
    are_all_served = asyncio.Event()

    def on_change(change: ServingChange) -> None:
        if isinstance(change, ServingStarted):
            served.add(change.unit)
            if len(served) == units:
                are_all_served.set()

    async with AsyncExitStack() as stack:
        stores = await _open_stores(bench_store, stack)
        nodes = [_create_node(store, number, units) for number, store in enumerate(stores)]
        for node in nodes:
            node.observers.append(on_change)
        started = time.perf_counter()
        running = [asyncio.ensure_future(node.run()) for node in nodes]
        stack.push_async_callback(_cancel, running)
        waiting = asyncio.ensure_future(are_all_served.wait())
        # A node that has ended will own nothing any more: then there is no point in waiting for the timeout.
        await asyncio.wait([waiting, *running], timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            ended = [repr(task.exception()) for task in running if task.done()]
            raise Unavailable(f"only {len(served)} of {units} units are owned; nodes that ended: {ended}")
        return time.perf_counter() - started


async def _open_stores(bench_store: BenchStore, stack: AsyncExitStack) -> list[OwnershipStore]:
    """A connection for each node; in memory they share the only store there is."""
    space = bench_store.new_space(is_auctioned=True)
    if bench_store.server is None:
        return [await stack.enter_async_context(bench_store.open(space))] * NODES
    return [await stack.enter_async_context(bench_store.open(space)) for _ in range(NODES)]


def _create_node(store: OwnershipStore, number: int, units: int) -> OwnershipNode:
    workload = InstantWorkload()
    name = f"n{number}"
    return OwnershipNode(
        store, FixedCatalog(units), workload, workload, node_id=name, address=f"{name}:1", settings=SETTINGS
    )


async def _cancel(running: "Sequence[asyncio.Future[None]]") -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
