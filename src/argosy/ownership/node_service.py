"""A node of the fleet: runs the node's state machine on a store, and answers `holds(unit)` from memory.

    node = OwnershipNode(store, catalog, workload, memory, node_id="n1", address="10.0.0.1:6070")
    task = asyncio.create_task(node.run())
    ...
    if node.holds(unit): ...            # on every request
    await node.drain()                  # hand off all units, then leave

Serving code never calls the store: it asks `holds`, and the lease keeper stops answering yes before the lease can have
expired in the store (OWN-4). `WorkloadRunner` warms and drops the units that the node gains and loses."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.driver import Driver
from argosy.base.errors import Conflict, NotOwner, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.tasks import run_until_first_ends
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership import effects, events
from argosy.ownership.autoscale import Autoscaler, ScaleSignal
from argosy.ownership.events import Event, UnitWarmed, WarmingFailed
from argosy.ownership.model import Lease, Member, Session, SessionRole, Unit
from argosy.ownership.node import NodeMachine
from argosy.ownership.ports import MemoryProbe, OwnershipStore, UnitCatalog, Workload
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.store_client import StoreClient
from argosy.ownership.telemetry import OwnershipTelemetry
from argosy.ownership.view import watch_events


class OwnershipNode:
    """One node in one space."""

    def __init__(
        self,
        store: OwnershipStore,
        catalog: UnitCatalog,
        workload: Workload,
        memory: MemoryProbe,
        *,
        node_id: str,
        address: str,
        settings: OwnershipSettings | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: Metrics | None = None,
        tracer: Tracer = NO_TRACER,
        capabilities: tuple[str, ...] = (),
    ) -> None:
        settings = settings or OwnershipSettings()
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._store = store
        self._catalog = catalog
        self._memory = memory
        self._tracer = tracer
        self._telemetry = OwnershipTelemetry(metrics or Metrics(), node=node_id, space=store.space.name)
        self._workload = WorkloadRunner(workload, self._telemetry)
        self._client = StoreClient(store, memory, settings, self._telemetry, clock=self._clock, random=self._random)
        started_at = self._clock.wall()
        self._member = Member(node_id, address, is_bidding=False, started_at=started_at, capabilities=capabilities)
        self._machine = NodeMachine(settings, node_id, self._random)
        # One driver for all parts: they handle each event in the same step (see `node`).
        self._driver: Driver[events.Event, effects.Effect] = Driver(self._machine, self._perform, clock=self._clock)
        self._autoscaler = Autoscaler(settings)
        self._has_left = asyncio.Event()
        self._sessions_ending = 0
        self._is_holder_ended = False
        self.observers: list[Callable[[effects.ServingChange], None]] = []

    @property
    def node_id(self) -> str:
        return self._member.node

    # -- queries, answered from memory ------------------------------------------------------------------------------

    def holds(self, unit: Unit) -> bool:
        """Whether this node, and no other, may serve the unit now."""
        return self._machine.keeper.holds(unit, self._clock.now())

    def holds_any(self, name: str) -> bool:
        """Whether this node may serve any slot of the name now, its primary or a replica."""
        return self._machine.keeper.holds_any(name, self._clock.now())

    def require_lease(self, unit: Unit) -> Lease:
        """The lease under which this node serves the unit; else raises `NotOwner`, with the holder's address if
        known."""
        if self.holds(unit):
            return self._machine.keeper.held_leases[unit].lease
        known = self._machine.view.leases.get(unit)
        if known is None:
            raise NotOwner(f"{str(unit)!r} has no known holder; retry")
        # Warming, leaving, or paused: a redirect would lead back to this node.
        if known.node == self.node_id:
            raise NotOwner(f"{str(unit)!r} is being acquired or released by this node; retry")
        raise NotOwner(f"{str(unit)!r} is held by {known.node!r}", hint=known.address, node=known.node)

    def claim_wait_s(self, unit: Unit) -> float:
        """How long a leased unit had been unowned before, as seen by this node."""
        return self._machine.view.claim_wait_s.get(unit, 0.0)

    def own_leases(self) -> list[Lease]:
        """All leases of this node, including those it may not serve now."""
        return [held.lease for held in self._machine.keeper.held_leases.values()]

    def leases(self) -> list[Lease]:
        """All leases of the space, as of the latest watch event."""
        return list(self._machine.view.leases.values())

    def members(self) -> list[Member]:
        return list(self._machine.view.members.values())

    def is_ready(self) -> bool:
        """Whether this node takes part: its view has synced and its holder session is valid."""
        return self._machine.view.has_synced and self._machine.keeper.keepalive.is_valid(self._clock.now())

    def scale(self) -> ScaleSignal:
        """How many nodes the fleet should have, as seen by this node."""
        return self._autoscaler.signal(self._machine.view, self._clock.now())

    # -- lifecycle --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Takes part until `drain` has finished or this task is cancelled. Raises `Conflict` if the node id is in
        use."""
        try:
            await run_until_first_ends(self._driver.run(), self._watch(), self._has_left.wait())
        # Also after a failure, so that `drain` does not wait for a node that has ended.
        finally:
            self._has_left.set()

    def release(self, unit: Unit) -> None:
        """Releases a unit: stops serving it, lets other nodes acquire it, and does not bid for it again for a while."""
        self._driver.post(events.ReleaseRequested(unit))

    def catalog_changed(self) -> None:
        """Reads the catalog now instead of at the next interval."""
        self._driver.post(events.CatalogChanged())

    async def drain(self) -> None:
        """Drains the node: ends its membership, hands each unit off to a ready successor, then ends its session."""
        self._driver.post(events.DrainRequested())
        await self._has_left.wait()

    async def _watch(self) -> None:
        unreachable = self._telemetry.record_store_unreachable
        async for event in watch_events(self._store, self._clock, self._random, on_unreachable=unreachable):
            # Before the event is posted: afterwards the view no longer has the time at which the unit became unowned.
            self._telemetry.record_watch_event(event, self._machine.view, self._clock.now())
            self._driver.post(event)

    # -- effects ----------------------------------------------------------------------------------------------------

    async def _perform(self, effect: effects.Effect) -> Iterable[events.Event]:
        with self._tracer.span(f"ownership {type(effect).__name__}", node=self.node_id) as span:
            if (unit := getattr(effect, "unit", None)) is not None:
                span.set("unit", str(unit))
            match effect:
                case effects.OpenSession() | effects.RenewSession():
                    return await self._client.open_or_renew(effect, self._member)
                case effects.AnnounceMember():
                    return await self._announce(effect)
                case effects.EndSession(session):
                    await self._end(session)
                case effects.Exit():
                    await self._end(None)
                case effects.PlaceBid():
                    return await self._client.place_bid(effect)
                case effects.CloseAuction():
                    return await self._client.close_auction(effect)
                case effects.ClaimLease():
                    return await self._client.claim(effect)
                case effects.SetLeaseState() | effects.ReleaseLease() | effects.HandOffLease():
                    return await self._client.change_lease(effect)
                case effects.WarmUnit(unit, epoch):
                    held = self._machine.keeper.held_leases.get(unit)
                    # The lease may have been lost, or granted again, while the effect waited to be performed.
                    if held is not None and held.lease.epoch == epoch:
                        return await self._workload.warm(held.lease)
                case effects.DropUnit(unit):
                    await self._workload.drop(unit)
                case effects.SweepSessions():
                    return await self._sweep()
                case effects.ReadCatalog():
                    return await self._read_catalog()
                case effects.Abort(reason):
                    # Ends `run`: two processes under one node id would fence each other in turns.
                    raise Conflict(reason)
                case effects.ServingStarted() | effects.ServingExtended() | effects.ServingStopped():
                    self._telemetry.record_serving_change(effect, wall=self._clock.wall(), now=self._clock.now())
                    for observer in self.observers:
                        observer(effect)
        return ()

    async def _announce(self, effect: effects.AnnounceMember) -> Iterable[events.Event]:
        # Stored first: a retry of `announce` sends the latest record (`lambda`).
        self._member = replace(
            self._member,
            is_bidding=effect.is_bidding,
            held_bytes=effect.held_bytes,
            free_bytes=effect.free_bytes,
        )
        return await self._client.announce(effect.session, lambda: self._member)

    async def _end(self, session: Session | None) -> None:
        """Ends a session, if there is one. `run` returns when the holder session and all others have ended."""
        # The member session ends first and may take longer: `run` must not return while a call is in flight.
        self._sessions_ending += 1
        if session is not None:
            await self._client.end_session(session)
        self._sessions_ending -= 1
        self._is_holder_ended |= session is None or session.role is SessionRole.HOLDER
        if self._is_holder_ended and not self._sessions_ending:
            self._has_left.set()

    async def _sweep(self) -> Iterable[events.Event]:
        try:
            async with self._client.deadline():
                await self._store.sweep()
        except Unavailable as error:
            # At debug level: a sweep is retried in a second, and renewals of the same node warn already.
            self._telemetry.log.debug("store unreachable", error=str(error))
        self._telemetry.set_gauges(self._machine.view, self._machine.keeper, self.scale(), self._clock.now())
        # Measured with the sweep, so that there is one timer for both.
        return [events.MemoryMeasured(self._memory.free_bytes())]

    async def _read_catalog(self) -> Iterable[events.Event]:
        try:
            async with self._client.deadline():
                return [events.CatalogRead(tuple(await self._catalog.units()))]
        except Unavailable as error:
            self._telemetry.record_store_unreachable(error)
            return ()


class WorkloadRunner:
    """Runs a node's workload: warms and drops units, one after another for each name.

    All slots of a unit share one thing in memory, so the order is kept by name: nothing is built while its predecessor
    is torn down. A failure of one unit never stops the node.
    """

    def __init__(self, workload: Workload, telemetry: OwnershipTelemetry) -> None:
        self._workload = workload
        self._telemetry = telemetry
        self._warmings: dict[Unit, asyncio.Task[object]] = {}
        self._drops: dict[str, asyncio.Task[object]] = {}

    async def warm(self, lease: Lease) -> Iterable[Event]:
        unit, task = lease.unit, _this_task()
        self._warmings[unit] = task
        try:
            # A unit that was lost and won again must not be built while its predecessor is still being removed.
            if (drop := self._drops.get(unit.name)) is not None:
                await asyncio.wait([drop])
            await self._workload.warm(lease)
            return [UnitWarmed(unit, lease.epoch)]
        # Whatever the workload raises: the unit is released and the node goes on.
        except Exception as error:
            self._telemetry.record_warming_failure(unit, lease.epoch, error)
            return [WarmingFailed(unit, lease.epoch)]
        finally:
            # A later warming of the same unit may have replaced this task.
            if self._warmings.get(unit) is task:
                del self._warmings[unit]

    async def drop(self, unit: Unit) -> None:
        """Cancels the unit's warming, and drops the unit when that and earlier drops of the same name have ended."""
        task = _this_task()
        warming, earlier = self._warmings.pop(unit, None), self._drops.get(unit.name)
        self._drops[unit.name] = task
        if warming is not None:
            warming.cancel()
        # Waited for, not only cancelled: the workload frees its resources while it ends.
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
