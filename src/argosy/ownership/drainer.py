"""Letting go: release, hand-over and drain.

The order never changes: first this node stops serving, then the store is told. A release whose answer was lost is sent
again until the watch says that the lease is gone; the epoch in it makes a late copy harmless.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.effects import Effect, HandOver, Release, SetState
from argosy.ownership.events import DrainRequested, Event, LetGoAnswered, StateMissed
from argosy.ownership.lease_keeper import Keeper
from argosy.ownership.model import PRIMARY, LeaseState, Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView


class Leaver:
    """A machine that gets rid of units, one by one or all of them."""

    def __init__(self, settings: OwnershipSettings, node: str, view: FleetView, keeper: Keeper, random: Random) -> None:
        self._node = node
        self._view = view
        self._keeper = keeper
        self._random = random
        self._drain_timeout_s = settings.drain_timeout_s
        self._drain_until: float | None = None
        self._again_at: dict[Unit, float] = {}  # releases to repeat
        self._failures: dict[Unit, int] = {}
        self._backoff = Backoff(first_s=0.1, ceiling_s=settings.renew_s)

    @property
    def is_draining(self) -> bool:
        return self._drain_until is not None

    @property
    def is_drained(self) -> bool:
        return self.is_draining and not self._keeper.holdings

    def deadline(self) -> float | None:
        # What is leaving already waits for the watch, not for the drain's end.
        is_waiting = self.is_draining and not all(h.is_leaving for h in self._keeper.holdings.values())
        return earliest(self._drain_until if is_waiting else None, min(self._again_at.values(), default=None))

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case DrainRequested() if not self.is_draining:
                self._drain_until = now + self._drain_timeout_s
                effects += [effect for unit in list(self._keeper.holdings) for effect in self._mark_draining(unit)]
            case StateMissed(unit, epoch) if self.is_draining and self._is_held(unit, epoch):
                self._later(unit, now)
            case LetGoAnswered(unit, epoch, is_done) if not is_done and self._is_held(unit, epoch):
                self._later(unit, now)
        for unit in [unit for unit, at in self._again_at.items() if at <= now]:
            del self._again_at[unit]
            effects += self._repeat(unit)
        return effects + self._drain(now)

    def let_go(self, unit: Unit) -> list[Effect]:
        """Stops serving, then releases."""
        holding = self._keeper.holdings.get(unit)
        session = self._keeper.promise.session
        if holding is None or holding.is_leaving or session is None:
            return []
        return [*self._keeper.stop_serving(unit), Release(session, unit, holding.lease.epoch)]

    def _drain(self, now: float) -> list[Effect]:
        """Each primary goes to a ready heir; slots that only stand by are given up at once."""
        if self._drain_until is None:
            return []
        # With nobody else in the fleet there is nobody to wait for.
        is_late = now >= self._drain_until or self._view.members.keys() <= {self._node}
        effects: list[Effect] = []
        for unit in list(self._keeper.holdings):
            if is_late or unit.replica != PRIMARY or unit in self._keeper.warming:
                effects += self.let_go(unit)
            elif (heir := self._view.heir(unit)) is not None:
                effects += self._hand_over(unit, heir)
        return effects

    def _hand_over(self, unit: Unit, heir: Unit) -> list[Effect]:
        holding = self._keeper.holdings[unit]
        session = self._keeper.promise.session
        if holding.is_leaving or session is None:
            return []
        return [*self._keeper.stop_serving(unit), HandOver(session, unit, holding.lease.epoch, heir)]

    def _mark_draining(self, unit: Unit) -> list[Effect]:
        holding = self._keeper.holdings[unit]
        session = self._keeper.promise.session
        if session is None or holding.lease.state is not LeaseState.READY:
            return []
        return [SetState(session, unit, holding.lease.epoch, LeaseState.DRAINING)]

    def _repeat(self, unit: Unit) -> list[Effect]:
        holding = self._keeper.holdings.get(unit)
        session = self._keeper.promise.session
        if holding is None or session is None:
            self._failures.pop(unit, None)
            return []
        if not holding.is_leaving:
            return self._mark_draining(unit)
        return [Release(session, unit, holding.lease.epoch)]

    def _later(self, unit: Unit, now: float) -> None:
        failures = self._failures[unit] = self._failures.get(unit, 0) + 1
        self._again_at[unit] = now + self._backoff.delay(failures, self._random)

    def _is_held(self, unit: Unit, epoch: int) -> bool:
        holding = self._keeper.holdings.get(unit)
        return holding is not None and holding.lease.epoch == epoch
