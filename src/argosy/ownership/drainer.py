"""Release, handoff and drain.

The order is always the same: this node stops serving first, then sends the release (OWN-1). A release whose reply was
lost is sent again until the watch reports the end of the lease; its epoch makes a late duplicate harmless.

A drain hands each ready primary off to a successor, which has won the unit's successor slot at auction and warmed the
unit under that lease, or to a ready replica. Until then this node serves (docs/decisions/0006).
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.effects import Effect, HandOffLease, ReleaseLease, SetLeaseState
from argosy.ownership.events import DrainRequested, Event, ReleaseAnswered, SetStateFailed
from argosy.ownership.lease_keeper import LeaseKeeper
from argosy.ownership.model import PRIMARY, LeaseState, Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView


class Drainer:
    """State machine that releases single units, and all of them when the node drains."""

    def __init__(
        self, settings: OwnershipSettings, node: str, view: FleetView, keeper: LeaseKeeper, random: Random
    ) -> None:
        self._node = node
        self._view = view
        self._keeper = keeper
        self._random = random
        self._drain_timeout_s = settings.drain_timeout_s
        self._drain_until: float | None = None
        self._retry_at: dict[Unit, float] = {}
        self._failures: dict[Unit, int] = {}
        # The first retry comes soon, because the unit is not served until its release succeeds.
        self._backoff = Backoff(first_s=0.1, ceiling_s=settings.renew_s)

    @property
    def is_draining(self) -> bool:
        return self._drain_until is not None

    @property
    def is_drained(self) -> bool:
        return self.is_draining and not self._keeper.held_leases

    def deadline(self) -> float | None:
        # Units that are leaving wait for the watch, not for the end of the drain: waking then would find nothing to do.
        is_waiting = self.is_draining and not all(held.is_leaving for held in self._keeper.held_leases.values())
        return earliest(self._drain_until if is_waiting else None, min(self._retry_at.values(), default=None))

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case DrainRequested() if not self.is_draining:
                self._drain_until = now + self._drain_timeout_s
                effects += [effect for unit in list(self._keeper.held_leases) for effect in self._mark_draining(unit)]
            # The other nodes open the successor's auction only when they see the draining state, so it is sent until it
            # arrives.
            case SetStateFailed(unit, epoch) if self.is_draining and self._is_held(unit, epoch):
                self._retry_later(unit, now)
            # Not done: the store was unreachable, or a handoff found no ready successor. In both cases the unit must be
            # released.
            case ReleaseAnswered(unit, epoch, is_done) if not is_done and self._is_held(unit, epoch):
                self._retry_later(unit, now)
        # Removed before the retry: a deadline in the past would wake the driver forever.
        for unit in [unit for unit, at in self._retry_at.items() if at <= now]:
            del self._retry_at[unit]
            effects += self._retry(unit)
        return effects + self._drain(now)

    def release(self, unit: Unit) -> list[Effect]:
        """Stops serving the unit, then releases its lease."""
        held = self._keeper.held_leases.get(unit)
        session = self._keeper.keepalive.session
        if held is None or held.is_leaving or session is None:
            return []
        return [*self._keeper.stop_serving(unit), ReleaseLease(session, unit, held.lease.epoch)]

    def _drain(self, now: float) -> list[Effect]:
        """Hands each primary off once a successor is ready. Replicas and warming units are released at once."""
        if self._drain_until is None:
            return []
        # The last member of a fleet has no successor to wait for.
        is_late = now >= self._drain_until or self._view.members.keys() <= {self._node}
        effects: list[Effect] = []
        for unit in list(self._keeper.held_leases):
            # The loss of a replica is no outage, because the primary serves; a warming unit does not serve yet.
            if is_late or unit.replica != PRIMARY or unit in self._keeper.warming:
                effects += self.release(unit)
            elif (successor := self._view.ready_successor(unit)) is not None:
                effects += self._hand_off(unit, successor)
        return effects

    def _hand_off(self, unit: Unit, successor: Unit) -> list[Effect]:
        held = self._keeper.held_leases[unit]
        session = self._keeper.keepalive.session
        if held.is_leaving or session is None:
            return []
        return [*self._keeper.stop_serving(unit), HandOffLease(session, unit, held.lease.epoch, successor)]

    def _mark_draining(self, unit: Unit) -> list[Effect]:
        held = self._keeper.held_leases[unit]
        session = self._keeper.keepalive.session
        # A warming primary serves nothing yet, so there is nothing to hand off; it is released instead.
        if session is None or held.lease.state is not LeaseState.READY:
            return []
        return [SetLeaseState(session, unit, held.lease.epoch, LeaseState.DRAINING)]

    def _retry(self, unit: Unit) -> list[Effect]:
        held = self._keeper.held_leases.get(unit)
        session = self._keeper.keepalive.session
        if held is None or session is None:
            self._failures.pop(unit, None)
            return []
        if not held.is_leaving:
            return self._mark_draining(unit)
        # Also after a failed handoff: this node has stopped serving, so a release ends the outage soonest.
        return [ReleaseLease(session, unit, held.lease.epoch)]

    def _retry_later(self, unit: Unit, now: float) -> None:
        failures = self._failures[unit] = self._failures.get(unit, 0) + 1
        self._retry_at[unit] = now + self._backoff.delay(failures, self._random)

    def _is_held(self, unit: Unit, epoch: int) -> bool:
        held = self._keeper.held_leases.get(unit)
        return held is not None and held.lease.epoch == epoch
