"""A node that takes part: drives the node's machine on a store, and answers "do I hold this unit?" without asking
anyone.

    node = OwnershipNode(store, catalog, workload, memory, node_id="n1", address="10.0.0.1:6070")
    task = asyncio.create_task(node.run())
    ...
    if node.holds(unit): ...            # on every request
    await node.drain()                  # hand all units on, then leave
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.driver import Driver
from argosy.base.errors import Conflict, NotOwner, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.retry import Backoff
from argosy.base.tasks import run_until_first_ends
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership import effects as do
from argosy.ownership import events as saw
from argosy.ownership.autoscale import Autoscaler, ScaleSignal
from argosy.ownership.model import Lease, Member, Role, Session, Unit
from argosy.ownership.node import NodeMachine
from argosy.ownership.ports import Catalog, MemoryProbe, OwnershipStore, Workload
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.store_client import StoreClient
from argosy.ownership.telemetry import Teller
from argosy.ownership.view import FleetView
from argosy.ownership.workload_runner import Worker

WATCH_BACKOFF = Backoff(first_s=0.1, ceiling_s=2.0)


async def facts(
    store: OwnershipStore, clock: Clock, random: Random, *, on_away: Callable[[Unavailable], None]
) -> AsyncIterator[saw.Fact]:
    """All facts about the store's space, for ever: a watch that breaks is begun again, with a snapshot."""
    failures = 0
    while True:
        try:
            async for fact in store.watch():
                failures = 0
                yield fact
        except Unavailable as why:
            on_away(why)
        failures += 1
        await clock.sleep(WATCH_BACKOFF.delay(failures, random))


class FleetWatcher:
    """Follows a space without taking part in it: what a front door needs to know who holds what."""

    def __init__(self, store: OwnershipStore, *, clock: Clock | None = None, random: Random | None = None) -> None:
        self.view = FleetView()
        self.observers: list[Callable[[], None]] = []  # called after every fact
        self._store = store
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._log = logs.get("ownership").bind(space=store.space.name)
        self._is_current = asyncio.Event()

    async def run(self) -> None:
        """Follows until this task is cancelled."""
        async for fact in facts(self._store, self._clock, self._random, on_away=self._away):
            self.view.apply(fact, self._clock.now())
            self._is_current.set()
            for observer in self.observers:
                observer()

    async def wait_current(self) -> None:
        """Returns once a first snapshot has come."""
        await self._is_current.wait()

    def _away(self, why: Unavailable) -> None:
        self._log.warning("store away", why=str(why))


class OwnershipNode:
    """One node in one space."""

    def __init__(
        self,
        store: OwnershipStore,
        catalog: Catalog,
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
        self._teller = Teller(metrics or Metrics(), node=node_id, space=store.space.name)
        self._worker = Worker(workload, self._teller)
        self._client = StoreClient(store, memory, settings, self._teller, clock=self._clock, random=self._random)
        started_at = self._clock.wall()
        self._member = Member(node_id, address, is_bidding=False, started_at=started_at, capabilities=capabilities)
        self._machine = NodeMachine(settings, node_id, self._random)
        self._driver: Driver[saw.Event, do.Effect] = Driver(self._machine, self._perform, clock=self._clock)
        self._autoscaler = Autoscaler(settings)
        self._has_left = asyncio.Event()
        self._endings = 0  # sessions being ended
        self._is_holder_ended = False
        self.observers: list[Callable[[do.ServingChange], None]] = []

    @property
    def node_id(self) -> str:
        return self._member.node

    # -- questions that ask nobody ----------------------------------------------------------------------------------

    def holds(self, unit: Unit) -> bool:
        """Whether this node alone may answer for the unit at this instant."""
        return self._machine.keeper.holds(unit, self._clock.now())

    def holds_any(self, name: str) -> bool:
        """Whether this node may answer for any slot of the thing at this instant, its primary or a replica."""
        return self._machine.keeper.holds_any(name, self._clock.now())

    def serving(self, unit: Unit) -> Lease:
        """The lease under which to serve the unit; NotOwner, with a hint from the watched map, if there is none."""
        if self.holds(unit):
            return self._machine.keeper.holdings[unit].lease
        known = self._machine.view.leases.get(unit)
        if known is None:
            raise NotOwner(f"nobody is known to hold {str(unit)!r}: try again shortly")
        if known.node == self.node_id:
            raise NotOwner(f"{str(unit)!r} is on its way to or from this node: try again shortly")
        raise NotOwner(f"{str(unit)!r} is held by {known.node!r}", hint=known.address, node=known.node)

    def waited_s(self, unit: Unit) -> float:
        """How long a leased unit had been open before, as far as this node saw it."""
        return self._machine.view.waited_s.get(unit, 0.0)

    def held(self) -> list[Lease]:
        """All leases of this node, whether it may serve them just now or not."""
        return [holding.lease for holding in self._machine.keeper.holdings.values()]

    def leases(self) -> list[Lease]:
        """Every lease in the space, as the watch last told."""
        return list(self._machine.view.leases.values())

    def members(self) -> list[Member]:
        return list(self._machine.view.members.values())

    def is_ready(self) -> bool:
        """Whether this node takes part: it knows the space and its promise stands."""
        return self._machine.view.is_current and self._machine.keeper.promise.is_valid(self._clock.now())

    def scale(self) -> ScaleSignal:
        """How many nodes the fleet should have, as this node sees it."""
        return self._autoscaler.signal(self._machine.view, self._clock.now())

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Takes part until `drain` has finished or this task is cancelled; Conflict if the node id is taken."""
        try:
            await run_until_first_ends(self._driver.run(), self._watch(), self._has_left.wait())
        finally:
            self._has_left.set()

    def release(self, unit: Unit) -> None:
        """Gives a unit up: serving stops, others may have it, and this node does not bid for it again for a while."""
        self._driver.post(saw.ReleaseRequested(unit))

    def catalog_changed(self) -> None:
        """Reads the catalog now rather than at the next turn."""
        self._driver.post(saw.CatalogChanged())

    async def drain(self) -> None:
        """Leaves in good order: membership first, then each unit to a ready successor, then the session."""
        self._driver.post(saw.DrainRequested())
        await self._has_left.wait()

    async def _watch(self) -> None:
        async for fact in facts(self._store, self._clock, self._random, on_away=self._teller.store_away):
            self._teller.fact(fact, self._machine.view, self._clock.now())
            self._driver.post(fact)

    # -- effects ----------------------------------------------------------------------------------------------------

    async def _perform(self, effect: do.Effect) -> Iterable[saw.Event]:
        with self._tracer.span(f"ownership {type(effect).__name__}", node=self.node_id) as span:
            if (unit := getattr(effect, "unit", None)) is not None:
                span.set("unit", str(unit))
            return await self._carry_out(effect)

    async def _carry_out(self, effect: do.Effect) -> Iterable[saw.Event]:
        match effect:
            case do.OpenSession() | do.RenewSession():
                return await self._client.keep_session(effect, self._member)
            case do.Announce():
                return await self._announce(effect)
            case do.EndSession(session):
                await self._end(session)
            case do.Left():
                await self._end(None)
            case do.PlaceBid():
                return await self._client.bid(effect)
            case do.CloseAuction():
                return await self._client.close_auction(effect)
            case do.Claim():
                return await self._client.claim(effect)
            case do.SetState() | do.Release() | do.HandOver():
                return await self._client.change_lease(effect)
            case do.Warm(unit, epoch):
                holding = self._machine.keeper.holdings.get(unit)
                if holding is not None and holding.lease.epoch == epoch:
                    return await self._worker.warm(holding.lease)
            case do.Drop(unit):
                await self._worker.drop(unit)
            case do.Sweep():
                return await self._sweep()
            case do.ReadCatalog():
                return await self._read_catalog()
            case do.GiveUp(why):
                raise Conflict(why)
            case do.ServingStarted() | do.ServingExtended() | do.ServingStopped():
                self._teller.serving(effect, wall=self._clock.wall(), now=self._clock.now())
                for observer in self.observers:
                    observer(effect)
        return ()

    async def _announce(self, effect: do.Announce) -> Iterable[saw.Event]:
        self._member = replace(
            self._member,
            is_bidding=effect.is_bidding,
            held_bytes=effect.held_bytes,
            free_bytes=effect.free_bytes,
        )
        return await self._client.announce(effect.session, lambda: self._member)

    async def _end(self, session: Session | None) -> None:
        """Ends a session, if there is one; `run` returns when the holder's and all others are done."""
        self._endings += 1
        if session is not None:
            await self._client.end_session(session)
        self._endings -= 1
        self._is_holder_ended |= session is None or session.role is Role.HOLDER
        if self._is_holder_ended and not self._endings:
            self._has_left.set()

    async def _sweep(self) -> Iterable[saw.Event]:
        try:
            async with self._client.deadline():
                await self._store.sweep()
        except Unavailable as why:
            self._teller.log.debug("store away", why=str(why))
        self._teller.figures(self._machine.view, self._machine.keeper, self.scale(), self._clock.now())
        return [saw.MemoryMeasured(self._memory.free_bytes())]

    async def _read_catalog(self) -> Iterable[saw.Event]:
        try:
            async with self._client.deadline():
                return [saw.CatalogRead(tuple(await self._catalog.units()))]
        except Unavailable as why:
            self._teller.store_away(why)
            return ()
