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
from contextlib import asynccontextmanager
from dataclasses import replace

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.driver import Driver
from argosy.base.errors import Conflict, Fenced, NotOwner, Throttled, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.retry import Backoff, retry
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership import effects as do
from argosy.ownership import events as saw
from argosy.ownership import metrics as m
from argosy.ownership.autoscale import Autoscaler, ScaleSignal
from argosy.ownership.model import BidOutcome, BidReceipt, CloseOutcome, Closing, Lease, Member, Role, Session, Unit
from argosy.ownership.node import NodeMachine
from argosy.ownership.ports import Catalog, MemoryProbe, OwnershipStore, Workload
from argosy.ownership.settings import OwnershipSettings

CALL_TIMEOUT_S = 10.0           # for one call to the store, unless a renewal is due earlier

log = logs.get("ownership.service")


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
        self._settings = settings or OwnershipSettings()
        self._store = store
        self._catalog = catalog
        self._workload = workload
        self._memory = memory
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._metrics = metrics or Metrics()
        self._tracer = tracer
        started_at = self._clock.wall()
        self._member = Member(node_id, address, is_bidding=False, started_at=started_at, capabilities=capabilities)
        self._machine = NodeMachine(self._settings, node_id, self._random)
        self._driver: Driver[saw.Event, do.Effect] = Driver(self._machine, self._perform, clock=self._clock)
        self._autoscaler = Autoscaler(self._settings)
        self._warmings: dict[Unit, asyncio.Task[object]] = {}
        self._drops: dict[str, asyncio.Task[object]] = {}       # by name: all slots of a unit are one thing in memory
        self._has_left = asyncio.Event()
        self._call_timeout_s = min(CALL_TIMEOUT_S, self._settings.renew_s)
        self._log = log.bind(node=node_id, space=store.space.name)
        self._pauses_told = 0
        self._endings = 0               # sessions being ended
        self._is_holder_ended = False
        self.observers: list[Callable[[do.ServingChange], None]] = []

    @property
    def node_id(self) -> str:
        return self._member.node

    # -- questions that ask nobody ----------------------------------------------------------------------------------

    def holds(self, unit: Unit) -> bool:
        """Whether this node alone may answer for the unit at this instant."""
        return self._machine.keeper.holds(unit, self._clock.now())

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
        tasks = [asyncio.ensure_future(task) for task in (self._driver.run(), self._watch(), self._has_left.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._has_left.set()

    async def drain(self) -> None:
        """Leaves in good order: membership first, then each unit to a ready successor, then the session."""
        self._driver.tell(saw.DrainRequested())
        await self._has_left.wait()

    async def _watch(self) -> None:
        backoff, failures = Backoff(first_s=0.1, ceiling_s=2.0), 0
        while True:
            try:
                async for fact in self._store.watch():
                    failures = 0
                    self._driver.tell(fact)
                    self._note_fact(fact)
            except Unavailable as why:
                self._log.warning("watch lost", why=str(why))
            failures += 1
            await self._clock.sleep(backoff.delay(failures, self._random))

    # -- effects ----------------------------------------------------------------------------------------------------

    async def _perform(self, effect: do.Effect) -> Iterable[saw.Event]:
        with self._tracer.span(f"ownership {type(effect).__name__}", node=self.node_id, space=self._space) as span:
            if (unit := getattr(effect, "unit", None)) is not None:
                span.set("unit", str(unit))
            return await self._carry_out(effect)

    async def _carry_out(self, effect: do.Effect) -> Iterable[saw.Event]:
        match effect:
            case do.OpenSession() | do.RenewSession() | do.Announce():
                return await self._keep_session(effect)
            case do.EndSession(session):
                return await self._end(session)
            case do.Left():
                return await self._end(None)
            case do.PlaceBid() | do.CloseAuction() | do.Claim():
                return await self._place(effect)
            case do.SetState() | do.Release() | do.HandOver():
                return await self._change_lease(effect)
            case do.Warm() | do.Drop():
                return await self._work(effect)
            case do.Sweep() | do.ReadCatalog():
                return await self._look_around(effect)
            case do.GiveUp(why):
                raise Conflict(why)
            case change:
                self._tell(change)
                return ()

    async def _keep_session(self, effect: do.OpenSession | do.RenewSession | do.Announce) -> Iterable[saw.Event]:
        sent_at = self._clock.now()
        try:
            match effect:
                case do.OpenSession(role):
                    async with self._deadline():
                        session = await self._store.open_session(role, self._member, ttl_s=self._settings.ttl_s)
                    self._log.info("session opened", role=role)
                    return [saw.SessionOpened(session, sent_at)]
                case do.RenewSession(session):
                    async with self._deadline():
                        held = await self._store.renew(session)
                    return [saw.SessionRenewed(session, sent_at, held)]
                case do.Announce(session, is_bidding, held_bytes, free_bytes):
                    figures = {"is_bidding": is_bidding, "held_bytes": held_bytes, "free_bytes": free_bytes}
                    self._member = replace(self._member, **figures)  # type: ignore[arg-type]
                    # A retry tells the latest, lest it overtake and undo a newer announcement.
                    await self._try_hard(lambda: self._store.announce(session, self._member))
            return ()
        except Conflict as why:
            assert isinstance(effect, do.OpenSession)
            return [saw.SessionRefused(effect.role, str(why))]
        except Fenced:
            assert not isinstance(effect, do.OpenSession)
            self._metrics.inc(m.SESSIONS_LOST, space=self._space, role=effect.session.role)
            self._log.warning("session lost", role=effect.session.role)
            return [saw.SessionEnded(effect.session)]
        except Unavailable as why:
            role = effect.role if isinstance(effect, do.OpenSession) else effect.session.role
            self._log.warning("store away", role=role, why=str(why))
            return [] if isinstance(effect, do.Announce) else [saw.SessionMissed(role)]

    async def _end(self, session: Session | None) -> Iterable[saw.Event]:
        """Ends a session, if there is one; `run` returns when the holder's and all others are done."""
        self._endings += 1
        try:
            if session is not None:
                await self._try_hard(lambda: self._store.end_session(session))
        except Unavailable as why:
            self._log.warning("session left to expire", why=str(why))
        finally:
            self._endings -= 1
        self._is_holder_ended |= session is None or session.role is Role.HOLDER
        if self._is_holder_ended and not self._endings:
            self._has_left.set()
        return ()

    async def _place(self, effect: do.PlaceBid | do.CloseAuction | do.Claim) -> Iterable[saw.Event]:
        unit = effect.unit
        try:
            match effect:
                case do.PlaceBid():
                    receipt = await self._bid(effect)
                    return [saw.BidAnswered(unit, receipt)]
                case do.CloseAuction():
                    async with self._deadline():
                        closing = await self._store.close_auction(unit)
                    self._note_closing(unit, closing)
                    return [saw.ClosingAnswered(unit, closing)]
                case do.Claim(session):
                    async with self._deadline():
                        await self._store.claim(session, unit)
                    return [saw.ClaimAnswered(unit, None)]
        except Conflict:
            return [saw.ClaimAnswered(unit, None)]
        except Throttled as later:
            return [saw.ClaimAnswered(unit, later.retry_after_s)]
        except Unavailable as why:
            ended = [] if isinstance(effect, do.CloseAuction) or not isinstance(why, Fenced) else [effect.session]
            events: list[saw.Event] = [saw.SessionEnded(session) for session in ended]
            match effect:
                case do.PlaceBid():
                    return [*events, saw.BidMissed(unit)]
                case do.CloseAuction():
                    return [saw.ClosingMissed(unit)]
                case do.Claim():
                    return [*events, saw.ClaimAnswered(unit, None)]

    async def _bid(self, effect: do.PlaceBid) -> BidReceipt:
        offer = self._memory.free_bytes() - effect.reserved_bytes
        async with self._deadline():
            receipt = await self._store.place_bid(
                effect.session,
                effect.unit,
                free_bytes=max(0, offer),
                min_bytes=max(1, effect.min_bytes),
                max_bids=effect.max_bids,
                window_s=self._settings.window_s,
            )
        self._note_bid(receipt)
        return receipt

    async def _change_lease(self, effect: do.SetState | do.Release | do.HandOver) -> Iterable[saw.Event]:
        session, unit, epoch = effect.session, effect.unit, effect.epoch
        try:
            async with self._deadline():
                match effect:
                    case do.SetState(state=state):
                        await self._store.set_state(session, unit, epoch, state)
                        return ()
                    case do.Release():
                        await self._store.release(session, unit, epoch)
                        return [saw.LetGoAnswered(unit, epoch, is_done=True)]
                    case do.HandOver(to=to):
                        lease = await self._store.hand_over(session, unit, epoch, to)
                        return [saw.LetGoAnswered(unit, epoch, is_done=lease is not None)]
        except Fenced:
            return ()       # no longer ours: the watch or the next renewal tells
        except Unavailable:
            is_state = isinstance(effect, do.SetState)
            return [saw.StateMissed(unit, epoch) if is_state else saw.LetGoAnswered(unit, epoch, is_done=False)]

    async def _work(self, effect: do.Warm | do.Drop) -> Iterable[saw.Event]:
        unit = effect.unit
        if isinstance(effect, do.Drop):
            await self._drop(unit)
            return ()
        holding = self._machine.keeper.holdings.get(unit)
        if holding is None or holding.lease.epoch != effect.epoch:
            return ()
        task = asyncio.current_task()
        assert task is not None
        self._warmings[unit] = task
        try:
            if (drop := self._drops.get(unit.name)) is not None:
                await asyncio.wait([drop])      # else it would tear down what is built here
            await self._workload.warm(holding.lease)
            return [saw.Warmed(unit, effect.epoch)]
        except Exception as why:    # whatever went wrong with one unit must not stop the node
            self._metrics.inc(m.WARMINGS_FAILED, space=self._space)
            self._log.error("warming failed", unit=str(unit), epoch=effect.epoch, why=str(why))
            return [saw.WarmingFailed(unit, effect.epoch)]
        finally:
            if self._warmings.get(unit) is task:
                del self._warmings[unit]

    async def _drop(self, unit: Unit) -> None:
        """After all that still builds or drops the same thing."""
        task = asyncio.current_task()
        assert task is not None
        earlier = [self._warmings.pop(unit, None), self._drops.get(unit.name)]
        self._drops[unit.name] = task
        if earlier[0] is not None:
            earlier[0].cancel()
        for other in earlier:
            if other is not None:
                await asyncio.wait([other])
        await self._workload.drop(unit)
        if self._drops.get(unit.name) is task:
            del self._drops[unit.name]

    async def _look_around(self, effect: do.Sweep | do.ReadCatalog) -> Iterable[saw.Event]:
        try:
            async with self._deadline():
                if isinstance(effect, do.ReadCatalog):
                    return [saw.CatalogRead(tuple(await self._catalog.units()))]
                await self._store.sweep()
        except Unavailable as why:
            self._log.debug("store away", why=str(why))
        self._note_view()
        return [saw.MemoryMeasured(self._memory.free_bytes())] if isinstance(effect, do.Sweep) else ()

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        """No call outlasts a renewal: what has not answered by then is as good as lost."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                yield
        except TimeoutError:
            raise Unavailable(f"the store did not answer within {self._call_timeout_s} s") from None

    async def _try_hard(self, call: Callable[[], object]) -> None:
        async def attempt() -> None:
            async with self._deadline():
                await call()  # type: ignore[misc]

        await retry(attempt, Backoff(), clock=self._clock, random=self._random)

    # -- telling ----------------------------------------------------------------------------------------------------

    @property
    def _space(self) -> str:
        return self._store.space.name

    def _tell(self, change: do.ServingChange) -> None:
        for observer in self.observers:
            observer(change)
        match change:
            case do.ServingStarted(unit, epoch, until):
                self._log.info("serving", unit=str(unit), epoch=epoch, for_s=round(until - self._clock.now(), 3))
            case do.ServingStopped(unit, epoch):
                self._log.info("stopped", unit=str(unit), epoch=epoch)
            case do.ServingExtended(until):
                self._log.debug("extended", for_s=round(until - self._clock.now(), 3))

    def _note_bid(self, receipt: BidReceipt) -> None:
        if receipt.outcome is BidOutcome.PLACED:
            self._metrics.inc(m.BIDS_PLACED, space=self._space)
            self._metrics.set(m.CONFIGURED_MAX_BIDS, receipt.max_bids, space=self._space)
            self._metrics.inc(m.AUCTIONS_STARTED, by=float(receipt.has_opened), space=self._space)
        elif receipt.outcome is BidOutcome.ALREADY_PENDING:
            self._metrics.inc(m.BIDS_REJECTED_ALREADY_PENDING, space=self._space)

    def _note_closing(self, unit: Unit, closing: Closing) -> None:
        if closing.outcome not in (CloseOutcome.WON, CloseOutcome.NO_WINNER):
            return
        space, lease = self._space, closing.lease
        self._metrics.inc(m.AUCTIONS_NO_WINNER if lease is None else m.AUCTIONS_WON, space=space)
        self._metrics.inc(
            m.AUCTIONS_SHORT_CIRCUITED if closing.is_short_circuit else m.AUCTIONS_TIMED_OUT, space=space
        )
        self._metrics.inc(m.BIDS_RECEIVED, by=closing.bids, space=space)
        self._metrics.observe(m.BID_WINDOW_MS, closing.open_for_s * 1000, space=space)
        winner = None if lease is None else lease.node
        self._log.info("auction closed", unit=str(unit), bids=closing.bids, winner=winner)

    def _note_fact(self, fact: saw.Fact) -> None:
        view = self._machine.view
        if isinstance(fact, saw.LeaseChanged) and fact.lease.unit in view.open_since:
            waited_s = self._clock.now() - view.open_since[fact.lease.unit]
            self._metrics.observe(m.CLAIM_LATENCY, waited_s, space=self._space)

    def _note_view(self) -> None:
        space, view, now = self._space, self._machine.view, self._clock.now()
        signal = self._autoscaler.signal(view, now)
        pauses = self._machine.keeper.pauses
        self._metrics.inc(m.PAUSES, by=pauses - self._pauses_told, space=space)
        self._pauses_told = pauses
        self._metrics.set(m.UNITS_HELD, len(self._machine.keeper.holdings), space=space)
        self._metrics.set(m.UNITS_SERVING, self._machine.keeper.serving_count(now), space=space)
        self._metrics.set(m.UNITS_OPEN, view.open_count(), space=space)
        self._metrics.set(m.ACTIVE_BIDDERS, view.bidding_count(), space=space)
        self._metrics.set(m.DESIRED_NODES, signal.desired_nodes, space=space)
        self._metrics.set(m.STARVED_UNITS, signal.starved_units, space=space)
