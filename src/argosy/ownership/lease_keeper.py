"""The keeper answers the one question of serving code: do I hold this unit at this instant?

It learns of grants from the watch alone, so that facts about its leases come in one order. It keeps the holder
session alive; when it cannot, all units pause at once, and resume at once if the store still knew the session when it
came back.
"""

from collections import Counter
from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.base.state_machine import earliest
from argosy.ownership.effects import Effect, ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.events import Event, LeaseChanged, LeaseGone, SessionRenewed, Snapshot
from argosy.ownership.model import Lease, LeaseState, Role, Session, Unit
from argosy.ownership.session_keepalive import Promise, PromiseTiming


@dataclass
class Holding:
    """A unit this node has the lease of."""

    lease: Lease
    since: float  # local time when the grant became known
    is_leaving: bool = False  # being released or handed over: never to be served again under this epoch


@dataclass(frozen=True)
class Gained:
    """For the machines beside the keeper: a lease is ours."""

    lease: Lease


@dataclass(frozen=True)
class Lost:
    """For the machines beside the keeper: a lease is ours no longer."""

    unit: Unit


class Keeper:
    """A machine that holds leases under one holder session."""

    def __init__(self, timing: PromiseTiming, random: Random) -> None:
        self.promise = Promise(Role.HOLDER, timing, random)
        self.holdings: dict[Unit, Holding] = {}
        self.warming: dict[Unit, Lease] = {}  # held and not yet able to answer
        self.news: list[Gained | Lost] = []  # since the last step; the node takes them away
        self._session: Session | None = None  # whose leases the holdings are
        self._serving: dict[Unit, int] = {}  # unit -> epoch, in the order in which serving began
        self._serving_names: Counter[str] = Counter()  # slots of each that are served
        self._waiting: dict[Unit, int] = {}  # to be served as soon as the promise is valid
        self._told_until = float("-inf")
        self.pauses = 0  # how often all units stopped at once

    def holds(self, unit: Unit, now: float) -> bool:
        """The local question. True only while no other node can have been given the unit (OWN-1, OWN-4)."""
        return unit in self._serving and self.promise.is_valid(now)

    def holds_any(self, name: str, now: float) -> bool:
        """Whether any slot of the thing may be served: its replicas answer questions, too."""
        return name in self._serving_names and self.promise.is_valid(now)

    def serving_count(self, now: float) -> int:
        return len(self._serving) if self.promise.is_valid(now) else 0

    def stop_serving(self, unit: Unit) -> list[Effect]:
        """Before a release or hand-over leaves this node: from here on the unit may be anybody's."""
        self.holdings[unit].is_leaving = True
        self.warming.pop(unit, None)
        return self._stop(unit)

    def deadline(self) -> float | None:
        return earliest(self.promise.deadline(), self.promise.valid_until if self._serving else None)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        effects = self.promise.handle(event, now)
        if self._session != self.promise.session:
            self._session = self.promise.session
            effects += self._keep_only({})
        match event:
            case Snapshot(leases=leases):
                effects += self._keep_only({lease.unit: lease.epoch for lease in leases if self._is_mine(lease)})
                effects += [effect for lease in leases for effect in self._granted(lease, now)]
            case LeaseChanged(lease):
                effects += self._granted(lease, now)
            case LeaseGone(unit, epoch) if unit in self.holdings and self.holdings[unit].lease.epoch == epoch:
                effects += self._lost(unit)
            case SessionRenewed(session, sent_at, held) if session == self._session and held is not None:
                effects += self._check_against(dict(held), sent_at)
        return effects + (self._serve() if self.promise.is_valid(now) else self._pause())

    def _serve(self) -> list[Effect]:
        until = self.promise.valid_until
        effects: list[Effect] = []
        if until > self._told_until and self._serving:
            effects.append(ServingExtended(until))
        self._told_until = until
        effects += [ServingStarted(unit, epoch, until) for unit, epoch in self._waiting.items()]
        self._serving.update(self._waiting)
        self._serving_names.update(unit.name for unit in self._waiting)
        self._waiting.clear()
        return effects

    def _pause(self) -> list[Effect]:
        """All units at once: one promise carries them all."""
        effects: list[Effect] = [ServingStopped(unit, epoch) for unit, epoch in self._serving.items()]
        self.pauses += bool(self._serving)
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
        if not self._serving_names[unit.name]:
            del self._serving_names[unit.name]
        return [ServingStopped(unit, epoch)]

    def _is_mine(self, lease: Lease) -> bool:
        return self._session is not None and lease.is_of(self._session)

    def _granted(self, lease: Lease, now: float) -> list[Effect]:
        if not self._is_mine(lease):
            return []
        effects: list[Effect] = []
        known = self.holdings.get(lease.unit)
        if known is not None and known.lease.epoch != lease.epoch:
            assert known.lease.epoch < lease.epoch, "an epoch never goes back"
            effects, known = self._lost(lease.unit), None
        if known is None:
            known = self.holdings[lease.unit] = Holding(lease, now)
            self._waiting[lease.unit] = lease.epoch
            self.news.append(Gained(lease))
        known.lease = lease
        if lease.state is LeaseState.WARMING and not known.is_leaving:
            self.warming[lease.unit] = lease
        else:
            self.warming.pop(lease.unit, None)
        return effects

    def _check_against(self, held: dict[Unit, int], sent_at: float) -> list[Effect]:
        """A store may have lost its latest writes: what was known before the renewal left must be there."""
        missing = [
            unit
            for unit, holding in self.holdings.items()
            if holding.since < sent_at and held.get(unit) != holding.lease.epoch and not holding.is_leaving
        ]
        return [effect for unit in missing for effect in self._lost(unit)]

    def _keep_only(self, epochs: dict[Unit, int]) -> list[Effect]:
        gone = [unit for unit, holding in self.holdings.items() if epochs.get(unit) != holding.lease.epoch]
        return [effect for unit in gone for effect in self._lost(unit)]

    def _lost(self, unit: Unit) -> list[Effect]:
        del self.holdings[unit]
        self.warming.pop(unit, None)
        self.news.append(Lost(unit))
        return self._stop(unit)
