"""The node's state machine, composed of view, keep-alives, lease keeper, placement and drainer.

The parts are one machine rather than several with a driver each, so that all of them handle each event in the same
step: a lost session stops serving in the same instant in which it stops bidding. The view applies an event first, so
every part decides on the state after it.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.auction import Bidder, Closer
from argosy.ownership.drainer import Drainer
from argosy.ownership.effects import (
    DropUnit,
    Effect,
    EndSession,
    Exit,
    ReadCatalog,
    SetLeaseState,
    SweepSessions,
    WarmUnit,
)
from argosy.ownership.events import (
    CatalogChanged,
    CatalogRead,
    DrainRequested,
    Event,
    LeaseChanged,
    ReleaseRequested,
    SetStateFailed,
    Snapshot,
    UnitWarmed,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import LeaseGained, LeaseKeeper, LeaseLost
from argosy.ownership.model import SUCCESSOR, LeaseState, SessionRole, Unit
from argosy.ownership.reconciler import Reconciler
from argosy.ownership.session_keepalive import KeepAliveTiming, SessionKeepAlive
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView


class NodeMachine:
    """State machine of one node (`StateMachine[Event, Effect]`)."""

    def __init__(self, settings: OwnershipSettings, node: str, random: Random) -> None:
        timing = KeepAliveTiming(settings.ttl_s, settings.renew_s, settings.ttl_s * settings.stop_margin)
        self.settings = settings
        # The ring has no replicas: the nodes after the owner change with every join, so replicas would move (OWN-5).
        self.view = FleetView(has_replicas=settings.placement != "ring")
        self.member_keepalive = SessionKeepAlive(SessionRole.MEMBER, timing, random)
        self.keeper = LeaseKeeper(timing, random)
        self.drainer = Drainer(settings, node, self.view, self.keeper, random)
        self._random = random
        self._is_auctioned = settings.placement == "auction"
        self._bidder = Bidder(settings, self.view, self.keeper, self.member_keepalive, random)
        self._closer = Closer(settings, self.view, random)
        self._reconciler = Reconciler(settings, node, self.view, self.keeper, self.member_keepalive, random)
        self._set_ready_at: dict[Unit, float] = {}  # warmed units whose state the store has not accepted yet
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
        # After the end no deadline may wake the driver.
        if self._has_left:
            return None
        # A draining node acquires nothing, so these deadlines would never be cleared and would wake it forever.
        placement = self._bidder.deadline() if self._is_auctioned else self._reconciler.deadline()
        return earliest(
            self.member_keepalive.deadline(),
            self.keeper.deadline(),
            self.drainer.deadline(),
            None if self.drainer.is_draining else placement,
            self._closer.deadline() if self._is_auctioned else None,
            self._sweep_at,
            self._catalog_at,
            self._quiesce_until,
            min(self._set_ready_at.values(), default=None),
        )

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        if self._has_left:
            return []
        self.view.apply(event, now)
        # Before `_periodic`, which then reads the catalog in this same step.
        if isinstance(event, CatalogChanged):
            self._catalog_at = None
        effects = self._periodic(now)
        # The order matters: sessions before leases, leases before placement, so that nothing is acquired under a lost
        # session.
        effects += self.member_keepalive.handle(event, now)
        effects += self.keeper.handle(event, now)
        effects += self._advance_held(event, now)
        effects += self._place(event, now)
        effects += self.drainer.handle(event, now)
        effects += self._leave(event, now)
        return effects + self._on_lease_changes()

    def _periodic(self, now: float) -> list[Effect]:
        """Starts the sessions in the first step; sweeps and reads the catalog at their intervals, with jitter."""
        effects: list[Effect] = []
        # A draining node has ended its member session on purpose; starting it again would bring the node back.
        if not self.drainer.is_draining:
            self.member_keepalive.start(now)
            self.keeper.keepalive.start(now)
        # Every node sweeps, so that expired sessions end even if any of them fails; the jitter spreads the calls.
        if self._sweep_at is None or now >= self._sweep_at:
            self._sweep_at = now + self.settings.sweep_s * self._random.uniform(0.8, 1.2)
            effects.append(SweepSessions())
        if self._catalog_at is None or now >= self._catalog_at:
            self._catalog_at = now + self.settings.catalog_s * self._random.uniform(0.8, 1.2)
            effects.append(ReadCatalog())
        return effects

    def _place(self, event: Event | None, now: float) -> list[Effect]:
        """Bids for or claims units. Closing auctions continues while draining, because every node does it."""
        if self._is_auctioned:
            closings = self._closer.handle(event, now)
            return closings if self.drainer.is_draining else self._bidder.handle(event, now) + closings
        if self.drainer.is_draining:
            return []
        effects = self._reconciler.handle(event, now)
        return effects + [
            effect for unit in self._reconciler.due_releases(now) for effect in self.drainer.release(unit)
        ]

    def _advance_held(self, event: Event | None, now: float) -> list[Effect]:
        """Moves held units on: ready after warming; released if warming failed, or if no longer needed here."""
        effects: list[Effect] = []
        match event:
            case UnitWarmed(unit, epoch):
                effects += self._set_ready(unit, epoch)
            # Released at once: another node may have what this one lacks, such as memory.
            case WarmingFailed(unit, epoch) if self._holds_at(unit, epoch):
                effects += self.drainer.release(unit)
            case ReleaseRequested(unit):
                effects += self.drainer.release(unit)
            case SetStateFailed(unit, epoch) if not self.drainer.is_draining and self._holds_at(unit, epoch):
                failures = self._failures[unit] = self._failures.get(unit, 0) + 1
                self._set_ready_at[unit] = now + self._backoff.delay(failures, self._random)
            case CatalogRead():
                # The catalog is desired state: what it no longer names is released, whichever way it was acquired.
                unwanted = [unit for unit in self.keeper.held_leases if not self.view.is_in_catalog(unit)]
                effects += [effect for unit in unwanted for effect in self.drainer.release(unit)]
            case LeaseChanged(lease):
                effects += self._drop_superfluous(lease.unit.name)
            case Snapshot():
                # The end of the drain may be among the events that the snapshot replaces.
                for name in {unit.name: None for unit in self.keeper.held_leases if unit.replica == SUCCESSOR}:
                    effects += self._drop_superfluous(name)
        for unit in [unit for unit, at in self._set_ready_at.items() if at <= now]:
            del self._set_ready_at[unit]
            if unit in self.keeper.warming:
                effects += self._set_ready(unit, self.keeper.warming[unit].epoch)
        return effects

    def _set_ready(self, unit: Unit, epoch: int) -> list[Effect]:
        session = self.keeper.keepalive.session
        # Warming may end after the lease was lost or granted again: only the lease that was warmed becomes ready.
        if session is None or unit not in self.keeper.warming or not self._holds_at(unit, epoch):
            return []
        return [SetLeaseState(session, unit, epoch, LeaseState.READY)]

    def _drop_superfluous(self, name: str) -> list[Effect]:
        """Releases slots that this node no longer needs: all but the primary once that is ready, and a successor slot
        whose primary does not drain. A replica serves until the primary won by the same node is ready, because until
        then no node serves the primary.
        """
        primary = self.view.leases.get(Unit(name))
        if primary is None:
            return []
        has_ready_primary = Unit(name) in self.keeper.held_leases and primary.state is not LeaseState.WARMING
        effects: list[Effect] = []
        for slot in Unit(name).siblings():
            is_unneeded = slot.replica == SUCCESSOR and primary.state is not LeaseState.DRAINING
            if slot in self.keeper.held_leases and (has_ready_primary or is_unneeded):
                effects += self.drainer.release(slot)
        return effects

    def _leave(self, event: Event | None, now: float) -> list[Effect]:
        """Ends the member session first, so that the other nodes acquire the units and the ring changes; then the
        leases; then the holder session.

        On the ring the leases end with the holder session after `quiesce_s`, without a handoff: the new owners already
        try to claim.
        """
        effects: list[Effect] = []
        if isinstance(event, DrainRequested) and (session := self.member_keepalive.stop()) is not None:
            effects.append(EndSession(session))
        if not self.drainer.is_draining:
            return effects
        if self.settings.placement == "ring" and self._quiesce_until is None:
            self._quiesce_until = now + self.settings.quiesce_s
        # Requests in flight get `quiesce_s` to end, although the ring sends no new ones.
        is_quiet = self._quiesce_until is not None and now >= self._quiesce_until
        if is_quiet or self.drainer.is_drained:
            for unit in list(self.keeper.held_leases):
                effects += self.keeper.stop_serving(unit)
            session = self.keeper.keepalive.stop()
            effects.append(Exit() if session is None else EndSession(session))
            self._has_left = True
        return effects

    def _on_lease_changes(self) -> list[Effect]:
        effects: list[Effect] = []
        for change in self.keeper.changes:
            match change:
                case LeaseGained(lease):
                    effects.append(WarmUnit(lease.unit, lease.epoch))
                case LeaseLost(unit):
                    self._set_ready_at.pop(unit, None)
                    self._failures.pop(unit, None)
                    # All slots of a name share one index in memory, so it stays while a sibling slot is held.
                    if not any(other in self.keeper.held_leases for other in unit.siblings()):
                        effects.append(DropUnit(unit))
        self.keeper.changes.clear()
        return effects

    def _holds_at(self, unit: Unit, epoch: int) -> bool:
        held = self.keeper.held_leases.get(unit)
        return held is not None and held.lease.epoch == epoch
