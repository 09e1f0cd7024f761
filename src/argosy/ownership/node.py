"""The whole node as one machine: what it knows, what it holds, what it wants, and how it leaves.

One machine rather than several drivers, so that all parts see each fact in the same instant: a lost session stops
serving in the same step in which it stops the bidding.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.bidder import Bidder
from argosy.ownership.closer import Closer
from argosy.ownership.drainer import Leaver
from argosy.ownership.effects import Drop, Effect, EndSession, Left, ReadCatalog, SetState, Sweep, Warm
from argosy.ownership.events import (
    CatalogChanged,
    CatalogRead,
    DrainRequested,
    Event,
    LeaseChanged,
    ReleaseRequested,
    Snapshot,
    StateMissed,
    Warmed,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import Gained, Keeper, Lost
from argosy.ownership.model import SUCCESSOR, LeaseState, Role, Unit
from argosy.ownership.reconciler import Reconciler
from argosy.ownership.session_keepalive import Promise, PromiseTiming
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView


class NodeMachine:
    """Implements `Machine[Event, Effect]`."""

    def __init__(self, settings: OwnershipSettings, node: str, random: Random) -> None:
        timing = PromiseTiming(settings.ttl_s, settings.renew_s, settings.ttl_s * settings.stop_margin)
        self.settings = settings
        # On the ring a unit has one owner: a replica's place would move with every join.
        self.view = FleetView(has_replicas=settings.placement != "ring")
        self.member = Promise(Role.MEMBER, timing, random)
        self.keeper = Keeper(timing, random)
        self.leaver = Leaver(settings, node, self.view, self.keeper, random)
        self._random = random
        self._is_auctioned = settings.placement == "auction"
        self._bidder = Bidder(settings, self.view, self.keeper, self.member, random)
        self._closer = Closer(settings, self.view, random)
        self._reconciler = Reconciler(settings, node, self.view, self.keeper, self.member, random)
        self._warm_again_at: dict[Unit, float] = {}  # made ready, but the store could not be told
        self._failures: dict[Unit, int] = {}
        self._backoff = Backoff(first_s=0.1, ceiling_s=settings.renew_s)
        self._sweep_at: float | None = None  # None: as soon as possible
        self._catalog_at: float | None = None
        self._quiesce_until: float | None = None
        self._has_left = False

    @property
    def has_left(self) -> bool:
        return self._has_left

    def deadline(self) -> float | None:
        if self._has_left:
            return None
        # A draining node wishes for nothing more: nobody would clear these deadlines, and they would wake it for ever.
        wishing = self._bidder.deadline() if self._is_auctioned else self._reconciler.deadline()
        return earliest(
            self.member.deadline(),
            self.keeper.deadline(),
            self.leaver.deadline(),
            None if self.leaver.is_draining else wishing,
            self._closer.deadline() if self._is_auctioned else None,
            self._sweep_at,
            self._catalog_at,
            self._quiesce_until,
            min(self._warm_again_at.values(), default=None),
        )

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        if self._has_left:
            return []
        self.view.apply(event, now)
        if isinstance(event, CatalogChanged):
            self._catalog_at = None
        effects = self._periodic(now)
        effects += self.member.handle(event, now)
        effects += self.keeper.handle(event, now)
        effects += self._care_for(event, now)
        effects += self._place(event, now)
        effects += self.leaver.handle(event, now)
        effects += self._leave(event, now)
        return effects + self._take_news()

    def _periodic(self, now: float) -> list[Effect]:
        """Sessions are wanted from the first step on; sweeps and catalog readings come at their own pace."""
        effects: list[Effect] = []
        if not self.leaver.is_draining:
            self.member.want(now)
            self.keeper.promise.want(now)
        if self._sweep_at is None or now >= self._sweep_at:
            self._sweep_at = now + self.settings.sweep_s * self._random.uniform(0.8, 1.2)
            effects.append(Sweep())
        if self._catalog_at is None or now >= self._catalog_at:
            self._catalog_at = now + self.settings.catalog_s * self._random.uniform(0.8, 1.2)
            effects.append(ReadCatalog())
        return effects

    def _place(self, event: Event | None, now: float) -> list[Effect]:
        """Wishes for units: bids, or claims. Closing is everybody's duty, also while draining."""
        if self._is_auctioned:
            closings = self._closer.handle(event, now)
            return closings if self.leaver.is_draining else self._bidder.handle(event, now) + closings
        if self.leaver.is_draining:
            return []
        effects = self._reconciler.handle(event, now)
        return effects + [effect for unit in self._reconciler.due_to_leave(now) for effect in self.leaver.let_go(unit)]

    def _care_for(self, event: Event | None, now: float) -> list[Effect]:
        """What becomes of held units: ready when warm, given up when spoilt, unwanted or superfluous."""
        effects: list[Effect] = []
        match event:
            case Warmed(unit, epoch):
                effects += self._set_ready(unit, epoch)
            case WarmingFailed(unit, epoch) if self._holds_at(unit, epoch):
                effects += self.leaver.let_go(unit)
            case ReleaseRequested(unit):
                effects += self.leaver.let_go(unit)
            case StateMissed(unit, epoch) if not self.leaver.is_draining and self._holds_at(unit, epoch):
                failures = self._failures[unit] = self._failures.get(unit, 0) + 1
                self._warm_again_at[unit] = now + self._backoff.delay(failures, self._random)
            case CatalogRead():
                unwanted = [unit for unit in self.keeper.holdings if not self.view.is_wished(unit)]
                effects += [effect for unit in unwanted for effect in self.leaver.let_go(unit)]
            case LeaseChanged(lease):
                effects += self._drop_superfluous(lease.unit.name)
            case Snapshot():
                for name in {unit.name: None for unit in self.keeper.holdings if unit.replica == SUCCESSOR}:
                    effects += self._drop_superfluous(name)
        for unit in [unit for unit, at in self._warm_again_at.items() if at <= now]:
            del self._warm_again_at[unit]
            if unit in self.keeper.warming:
                effects += self._set_ready(unit, self.keeper.warming[unit].epoch)
        return effects

    def _set_ready(self, unit: Unit, epoch: int) -> list[Effect]:
        session = self.keeper.promise.session
        if session is None or unit not in self.keeper.warming or not self._holds_at(unit, epoch):
            return []
        return [SetState(session, unit, epoch, LeaseState.READY)]

    def _drop_superfluous(self, name: str) -> list[Effect]:
        """One slot of a unit per node; and nobody succeeds a primary that does not drain.

        A replica answers until the primary that its node has won is ready: in between nobody else may.
        """
        primary = self.view.leases.get(Unit(name))
        if primary is None:
            return []
        is_doubled = Unit(name) in self.keeper.holdings and primary.state is not LeaseState.WARMING
        effects: list[Effect] = []
        for slot in Unit(name).siblings():
            is_unneeded = slot.replica == SUCCESSOR and primary.state is not LeaseState.DRAINING
            if slot in self.keeper.holdings and (is_doubled or is_unneeded):
                effects += self.leaver.let_go(slot)
        return effects

    def _leave(self, event: Event | None, now: float) -> list[Effect]:
        """Membership first, so that work goes elsewhere; leases afterwards; then the holder session."""
        effects: list[Effect] = []
        if isinstance(event, DrainRequested) and (session := self.member.forget()) is not None:
            effects.append(EndSession(session))
        if not self.leaver.is_draining:
            return effects
        if self.settings.placement == "ring" and self._quiesce_until is None:
            self._quiesce_until = now + self.settings.quiesce_s
        is_quiet = self._quiesce_until is not None and now >= self._quiesce_until
        if is_quiet or self.leaver.is_drained:
            for unit in list(self.keeper.holdings):
                effects += self.keeper.stop_serving(unit)
            session = self.keeper.promise.forget()
            effects.append(Left() if session is None else EndSession(session))
            self._has_left = True
        return effects

    def _take_news(self) -> list[Effect]:
        effects: list[Effect] = []
        for news in self.keeper.news:
            match news:
                case Gained(lease):
                    effects.append(Warm(lease.unit, lease.epoch))
                case Lost(unit):
                    self._warm_again_at.pop(unit, None)
                    self._failures.pop(unit, None)
                    # What is kept for a sibling slot is the same thing in memory.
                    if not any(other in self.keeper.holdings for other in unit.siblings()):
                        effects.append(Drop(unit))
        self.keeper.news.clear()
        return effects

    def _holds_at(self, unit: Unit, epoch: int) -> bool:
        holding = self.keeper.holdings.get(unit)
        return holding is not None and holding.lease.epoch == epoch
