"""Warming and dropping, in an order that holds for one unit: nothing is built while its predecessor is torn down.

All slots of a unit are one thing in memory, so the order goes by name. What goes wrong with one unit never stops the
node.
"""

import asyncio
from collections.abc import Iterable

from argosy.ownership.events import Event, Warmed, WarmingFailed
from argosy.ownership.model import Lease, Unit
from argosy.ownership.ports import Workload
from argosy.ownership.telemetry import Teller


class Worker:
    """Runs one node's workload."""

    def __init__(self, workload: Workload, teller: Teller) -> None:
        self._workload = workload
        self._teller = teller
        self._warmings: dict[Unit, asyncio.Task[object]] = {}
        self._drops: dict[str, asyncio.Task[object]] = {}

    async def warm(self, lease: Lease) -> Iterable[Event]:
        unit, task = lease.unit, _this_task()
        self._warmings[unit] = task
        try:
            if (drop := self._drops.get(unit.name)) is not None:
                await asyncio.wait([drop])
            await self._workload.warm(lease)
            return [Warmed(unit, lease.epoch)]
        except Exception as why:
            self._teller.warming_failed(unit, lease.epoch, why)
            return [WarmingFailed(unit, lease.epoch)]
        finally:
            if self._warmings.get(unit) is task:
                del self._warmings[unit]

    async def drop(self, unit: Unit) -> None:
        """After all that still builds or drops the same thing."""
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
