"""Runs a node's workload: warms and drops units, one after another for each name.

All slots of a unit share one thing in memory, so the order is kept by name: nothing is built while its predecessor is
torn down. A failure of one unit never stops the node.
"""

import asyncio
from collections.abc import Iterable

from argosy.ownership.events import Event, UnitWarmed, WarmingFailed
from argosy.ownership.model import Lease, Unit
from argosy.ownership.ports import Workload
from argosy.ownership.telemetry import OwnershipTelemetry


class WorkloadRunner:
    """Runs the workload of one node."""

    def __init__(self, workload: Workload, telemetry: OwnershipTelemetry) -> None:
        self._workload = workload
        self._telemetry = telemetry
        self._warmings: dict[Unit, asyncio.Task[object]] = {}
        self._drops: dict[str, asyncio.Task[object]] = {}

    async def warm(self, lease: Lease) -> Iterable[Event]:
        unit, task = lease.unit, _this_task()
        self._warmings[unit] = task
        try:
            if (drop := self._drops.get(unit.name)) is not None:
                await asyncio.wait([drop])
            await self._workload.warm(lease)
            return [UnitWarmed(unit, lease.epoch)]
        except Exception as error:
            self._telemetry.record_warming_failure(unit, lease.epoch, error)
            return [WarmingFailed(unit, lease.epoch)]
        finally:
            if self._warmings.get(unit) is task:
                del self._warmings[unit]

    async def drop(self, unit: Unit) -> None:
        """Drops the unit after its warming, which is cancelled, and earlier drops of the same name have ended."""
        task = _this_task()
        warming, earlier = self._warmings.pop(unit, None), self._drops.get(unit.name)
        self._drops[unit.name] = task
        if warming is not None:
            warming.cancel()
        for other in (warming, earlier):
            if other is not None:
                await asyncio.wait([other])
        await self._workload.drop(unit)
        if self._drops.get(unit.name) is task:
            del self._drops[unit.name]


def _this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task
