"""Tracks the leases of one node, and answers for the serving code: may this node serve the unit now?

Grants are learned from the watch alone, never from a reply, so that all events of one lease arrive in one order. The
keeper also keeps the holder session alive. When the session can no longer be relied on, serving of all units pauses at
once, even though the store may still have the leases: they may have expired there, and another node may have them. It
resumes, under the same epochs, if a later renewal finds the same session alive.
"""

from collections import Counter
from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.base.state_machine import earliest
from argosy.ownership.effects import Effect, ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.events import Event, LeaseChanged, LeaseGone, SessionRenewed, Snapshot
from argosy.ownership.model import Lease, LeaseState, Session, SessionRole, Unit
from argosy.ownership.session_keepalive import KeepAliveTiming, SessionKeepAlive


@dataclass
class HeldLease:
    """A lease of this node, as last seen on the watch."""

    lease: Lease
    since: float  # local time at which the grant became known
    is_leaving: bool = False  # being released or handed off: not served again under this epoch


@dataclass(frozen=True)
class LeaseGained:
    """A lease was granted to this node."""

    lease: Lease


@dataclass(frozen=True)
class LeaseLost:
    """A lease of this node has ended."""

    unit: Unit


class LeaseKeeper:
    """State machine that tracks the leases under one holder session."""

    def __init__(self, timing: KeepAliveTiming, random: Random) -> None:
        self.keepalive = SessionKeepAlive(SessionRole.HOLDER, timing, random)
        self.held_leases: dict[Unit, HeldLease] = {}
        self.warming: dict[Unit, Lease] = {}  # held and not yet able to serve
        self.changes: list[LeaseGained | LeaseLost] = []  # of the current step; `NodeMachine` drains them
        self._session: Session | None = None  # the session of the held leases
        self._serving: dict[Unit, int] = {}  # unit -> epoch, in the order in which serving began
        # Counted by name, because `holds_any` is asked for every request and must not search through slots.
        self._serving_names: Counter[str] = Counter()  # served slots by unit name
        self._waiting: dict[Unit, int] = {}  # served as soon as the session is valid
        # The end that observers know; an extension is published only if it is later.
        self._published_until = float("-inf")
        self.pauses = 0  # times serving of all units stopped at once

    def holds(self, unit: Unit, now: float) -> bool:
        """Whether this node may serve the unit now. True only while no other node can have its lease (OWN-1, OWN-4)."""
        return unit in self._serving and self.keepalive.is_valid(now)

    def holds_any(self, name: str, now: float) -> bool:
        """Whether this node may serve any slot of the name: replicas serve, too."""
        return name in self._serving_names and self.keepalive.is_valid(now)

    def serving_count(self, now: float) -> int:
        return len(self._serving) if self.keepalive.is_valid(now) else 0

    def stop_serving(self, unit: Unit) -> list[Effect]:
        """Must precede the release or handoff: once that is sent, another node may hold the unit (OWN-1)."""
        # Stays set until the watch reports the end: a renewal in between must not start serving again (OWN-1).
        self.held_leases[unit].is_leaving = True
        self.warming.pop(unit, None)
        return self._stop(unit)

    def deadline(self) -> float | None:
        return earliest(self.keepalive.deadline(), self.keepalive.valid_until if self._serving else None)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        # First, so that everything below is decided with the session as it is after this event.
        effects = self.keepalive.handle(event, now)
        if self._session != self.keepalive.session:
            # Leases end with their session, so a new session begins with none.
            self._session = self.keepalive.session
            effects += self._retain_only({})
        match event:
            case Snapshot(leases=leases):
                # First the leases that are gone, then those that are new: a unit may have ended and been granted again
                # meanwhile.
                effects += self._retain_only({lease.unit: lease.epoch for lease in leases if self._is_mine(lease)})
                effects += [effect for lease in leases for effect in self._on_lease(lease, now)]
            case LeaseChanged(lease):
                effects += self._on_lease(lease, now)
            # The epoch distinguishes the end of this lease from the delayed end of an earlier one.
            case LeaseGone(unit, epoch) if unit in self.held_leases and self.held_leases[unit].lease.epoch == epoch:
                effects += self._on_lease_lost(unit)
            case SessionRenewed(session, sent_at, held) if session == self._session and held is not None:
                effects += self._check_against(dict(held), sent_at)
        return effects + (self._serve() if self.keepalive.is_valid(now) else self._pause())

    def _serve(self) -> list[Effect]:
        # `ServingExtended` comes before the new starts, which carry the new end themselves.
        until = self.keepalive.valid_until
        effects: list[Effect] = []
        if until > self._published_until and self._serving:
            effects.append(ServingExtended(until))
        self._published_until = until
        effects += [ServingStarted(unit, epoch, until) for unit, epoch in self._waiting.items()]
        self._serving.update(self._waiting)
        self._serving_names.update(unit.name for unit in self._waiting)
        self._waiting.clear()
        return effects

    def _pause(self) -> list[Effect]:
        """Stops serving of all units: one session carries all their leases."""
        effects: list[Effect] = [ServingStopped(unit, epoch) for unit, epoch in self._serving.items()]
        self.pauses += bool(self._serving)
        # Waiting, not dropped: the leases may still be valid, and serving resumes with the next renewal under the same
        # epochs.
        self._waiting.update(self._serving)
        self._serving.clear()
        self._serving_names.clear()
        return effects

    def _stop(self, unit: Unit) -> list[Effect]:
        self._waiting.pop(unit, None)
        epoch = self._serving.pop(unit, None)
        if epoch is None:
            return []
        self._serving_names[unit.name] -= 1
        # A Counter keeps names with count 0, and `holds_any` tests for the name alone.
        if not self._serving_names[unit.name]:
            del self._serving_names[unit.name]
        return [ServingStopped(unit, epoch)]

    def _is_mine(self, lease: Lease) -> bool:
        return self._session is not None and lease.is_of(self._session)

    def _on_lease(self, lease: Lease, now: float) -> list[Effect]:
        if not self._is_mine(lease):
            return []
        effects: list[Effect] = []
        known = self.held_leases.get(lease.unit)
        if known is not None and known.lease.epoch != lease.epoch:
            # The watch delivers a unit's leases in order, and every new lease has a greater epoch (OWN-1).
            assert known.lease.epoch < lease.epoch, "an epoch never decreases"
            effects, known = self._on_lease_lost(lease.unit), None
        if known is None:
            known = self.held_leases[lease.unit] = HeldLease(lease, now)
            self._waiting[lease.unit] = lease.epoch
            self.changes.append(LeaseGained(lease))
        known.lease = lease
        if lease.state is LeaseState.WARMING and not known.is_leaving:
            self.warming[lease.unit] = lease
        else:
            self.warming.pop(lease.unit, None)
        return effects

    def _check_against(self, held: dict[Unit, int], sent_at: float) -> list[Effect]:
        """Gives up leases that the store has lost, as after a restart of Redis without its latest writes.

        Only a lease known before the renewal was sent must be in the reply: a later one may have been granted after the
        store answered. A lease that is being released is rightly missing.
        """
        missing = [
            unit
            for unit, mine in self.held_leases.items()
            if mine.since < sent_at and held.get(unit) != mine.lease.epoch and not mine.is_leaving
        ]
        return [effect for unit in missing for effect in self._on_lease_lost(unit)]

    def _retain_only(self, epochs: dict[Unit, int]) -> list[Effect]:
        gone = [unit for unit, held in self.held_leases.items() if epochs.get(unit) != held.lease.epoch]
        return [effect for unit in gone for effect in self._on_lease_lost(unit)]

    def _on_lease_lost(self, unit: Unit) -> list[Effect]:
        del self.held_leases[unit]
        self.warming.pop(unit, None)
        self.changes.append(LeaseLost(unit))
        return self._stop(unit)
