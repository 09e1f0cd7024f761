"""Two nodes in one process: they bid for a unit, one wins and serves, and when it leaves the other takes over.

    python examples/hold_a_unit.py

With `open_ownership_store("redis://…")` or `open_ownership_store("etcd://…")` the same code is a fleet of many
machines."""

# ruff: noqa: T201  (an example prints)

import asyncio
from functools import partial

from argosy.base.clock import SystemClock, system_random
from argosy.ownership import open_ownership_store
from argosy.ownership.effects import ServingChange, ServingStarted, ServingStopped
from argosy.ownership.model import Lease, Space, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings

UNIT = Unit("https://example.org/code.git")
SETTINGS = OwnershipSettings(ttl_s=2.0, renew_s=0.5, window_s=1.0, sweep_s=0.1, catalog_s=0.5)


class FixedCatalog:
    """Desired units. A real catalog reads a database."""

    async def units(self) -> list[UnitSpec]:
        return [UnitSpec(UNIT.name, footprint_bytes=1000)]


class Indexes:
    """The workload. Here a unit is ready at once; a real workload clones and indexes it."""

    async def warm(self, lease: Lease) -> int:
        return 1000

    async def drop(self, unit: Unit) -> None:
        return None


class Memory:
    """Free memory to bid with. `argosy.ownership.backends.cgroup.CgroupMemory` measures the real one."""

    def __init__(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes

    def free_bytes(self) -> int:
        return self._free_bytes


async def main() -> None:
    space = Space("repos", is_auctioned=True)
    store = await open_ownership_store("memory://", space, clock=SystemClock(), random=system_random(), grace_s=0)
    changes: asyncio.Queue[str] = asyncio.Queue()
    nodes, running = {}, []
    for name, free_bytes in (("small", 10_000), ("large", 90_000)):
        node = OwnershipNode(
            store,
            FixedCatalog(),
            Indexes(),
            Memory(free_bytes),
            node_id=name,
            address=f"{name}:6070",
            settings=SETTINGS,
        )
        node.observers.append(partial(record, changes, name))
        nodes[name] = node
        running.append(asyncio.create_task(node.run()))

    print(await changes.get())  # the first holder
    holder = next(node for node in nodes.values() if node.holds(UNIT))
    print(f"{holder.node_id} holds it: {holder.holds(UNIT)}, epoch {holder.require_lease(UNIT).epoch}")

    await holder.drain()  # returns once the other node is ready and has the unit
    print(await changes.get())
    print(await changes.get())
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def record(changes: asyncio.Queue[str], name: str, change: ServingChange) -> None:
    match change:
        case ServingStarted(unit, epoch, _) if unit == UNIT:
            changes.put_nowait(f"{name} serves it under epoch {epoch}")
        case ServingStopped(unit, epoch) if unit == UNIT:
            changes.put_nowait(f"{name} has stopped serving it")


if __name__ == "__main__":
    asyncio.run(main())
