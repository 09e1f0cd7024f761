"""OWN-1, OWN-4, NODE-1, NODE-2 and LIVE: which node serves which unit, from which index, in true time.

A node reports when it starts and stops serving a unit, and until when, by its own clock, it would go on without further
events. Its span therefore ends at the earlier of its report and its `until`, whether it runs, is paused or is cut off;
only its death ends it sooner. So a paused node that still believes in its lease is seen as serving, which is the
failure that leases with a margin must prevent. A successor's slot serves nothing, and is not checked.

NODE-1: a response contains only repositories that the node serves under a lease at that instant and has a sound index
of. NODE-2: indexes exceed the budget by at most one, the one that showed that they do. An index whose lease is being
released is not counted, because the node no longer decides when it goes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from argosy.ownership.effects import ServingChange, ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.events import LeaseChanged, LeaseGone, Snapshot, WatchEvent
from argosy.ownership.model import PRIMARY, SUCCESSOR, Lease, LeaseState, Session, SessionRole, Unit
from argosy.sim.loop import SimClock
from argosy.sim.network import StoreCall
from argosy.sim.trace import ViolationLog

SLACK_S = 1e-6  # rounding of sums of floats


@dataclass
class _Span:
    epoch: int
    until: float  # true time


class ServingChecker:
    """OWN-1 and OWN-4 in one space."""

    def __init__(self, violations: ViolationLog, store_clock: SimClock) -> None:
        self._violations = violations
        self._store_clock = store_clock
        self._spans: dict[Unit, dict[str, _Span]] = {}
        self._units: dict[str, dict[Unit, None]] = {}  # node -> what it serves, in order
        self._promised: dict[str, float] = {}  # node -> true time until which its holder session is valid
        self._leases: dict[Unit, Lease] = {}
        self._forgotten: dict[str, set[tuple[Unit, int]]] = {}  # node -> leases of a store that then lost its data
        self._epoch_seen: dict[Unit, int] = {}

    # -- nodes ------------------------------------------------------------------------------------------------------

    def on_serving_change(self, node: str, clock: SimClock, change: ServingChange) -> None:
        match change:
            case ServingStarted(unit, epoch, until) if unit.replica != SUCCESSOR:
                self._spans.setdefault(unit, {})[node] = _Span(epoch, clock.to_true(until))
                self._units.setdefault(node, {})[unit] = None
                self._check(node, unit)
            case ServingExtended(until):
                for unit in list(self._units.get(node, ())):
                    self._spans[unit][node].until = clock.to_true(until)
                    self._check(node, unit)
            case ServingStopped(unit, epoch):
                self._stop(node, unit)

    def on_death(self, node: str) -> None:
        for unit in list(self._units.get(node, ())):
            self._stop(node, unit)

    def on_response(self, unit: Unit, epochs: dict[str, int]) -> None:
        """A client has queried all nodes that can answer, at one instant; `epochs` has those that claim to hold the
        unit."""
        if len(epochs) > 1:
            self._violations.add("OWN-1", f"{unit} is claimed by {_names(epochs)} at the same instant")
        for node, epoch in epochs.items():
            if epoch < self._epoch_seen.get(unit, 0):
                self._violations.add(
                    "OWN-1", f"{unit} is claimed by {node} at epoch {epoch}, after epoch {self._epoch_seen[unit]}"
                )
            self._epoch_seen[unit] = max(epoch, self._epoch_seen.get(unit, 0))

    # -- store ------------------------------------------------------------------------------------------------------

    def on_event(self, fact: WatchEvent) -> None:
        match fact:
            case LeaseChanged(lease):
                self._leases[lease.unit] = lease
            case LeaseGone(unit, epoch):
                self._leases.pop(unit, None)
                for node, span in self._alive(unit):
                    if span.epoch == epoch and not self._is_promoted(node, unit):
                        self._violations.add(
                            "OWN-4", f"{node} still serves {unit}, whose lease of epoch {epoch} is gone"
                        )

    def on_call(self, served: StoreCall) -> None:
        """Records until when the store has promised that each node's holder session is valid."""
        match served:
            case StoreCall(call="open_session", outcome=Session(role=SessionRole.HOLDER, node=node, ttl_s=ttl_s)):
                self._forgotten.pop(node, None)
                self._promise(node, ttl_s)
            case StoreCall(
                call="renew", args=(Session(role=SessionRole.HOLDER, node=node, ttl_s=ttl_s),), outcome=outcome
            ):
                # A failed renewal promises nothing.
                if not isinstance(outcome, BaseException):
                    self._promise(node, ttl_s)
            case StoreCall(outcome=AssertionError() | KeyError() as bug):
                self._violations.add("STORE", f"{served.call}{served.args} failed with {bug!r}")

    def on_data_loss(self) -> None:
        """Promises outlive the data: until the last of them has expired, the store may grant nothing (its grace
        period)."""
        for lease in self._leases.values():
            self._forgotten.setdefault(lease.node, set()).add((lease.unit, lease.epoch))
        self._leases.clear()

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check(self, node: str, unit: Unit) -> None:
        """`node` serves `unit` from now on, or for longer than it reported before."""
        # A span that is over already, for example of a node that was paused, serves nothing.
        span, now = self._spans[unit][node], self._violations.true_now()
        if span.until <= now:
            return
        for other, rival in self._alive(unit):
            if other != node and unit.replica == PRIMARY:
                self._violations.add(
                    "OWN-1", f"{unit} is served by {node} at epoch {span.epoch} and by {other} at epoch {rival.epoch}"
                )
        promised = self._promised.get(node, float("-inf"))
        if span.until > promised + SLACK_S:
            over_s = span.until - promised
            self._violations.add("OWN-4", f"{node} would serve {unit} {over_s:.3f} s longer than its session is valid")
        if not self._is_leased(node, unit, span.epoch):
            self._violations.add("OWN-4", f"{node} serves {unit} at epoch {span.epoch} without a lease")

    def _is_leased(self, node: str, unit: Unit, epoch: int) -> bool:
        lease = self._leases.get(unit)
        is_held = lease is not None and (lease.node, lease.epoch) == (node, epoch)
        return is_held or (unit, epoch) in self._forgotten.get(node, ())

    def _is_promoted(self, node: str, unit: Unit) -> bool:
        """A replica's holder that becomes the primary loses its replica slot in the same step, and goes on serving."""
        primary = self._leases.get(Unit(unit.name))
        return unit.replica != PRIMARY and primary is not None and primary.node == node

    def _alive(self, unit: Unit) -> list[tuple[str, _Span]]:
        now = self._violations.true_now() + SLACK_S
        return [(node, span) for node, span in self._spans.get(unit, {}).items() if span.until > now]

    def _promise(self, node: str, ttl_s: float) -> None:
        self._promised[node] = self._store_clock.to_true(self._store_clock.now() + ttl_s)

    def _stop(self, node: str, unit: Unit) -> None:
        self._spans.get(unit, {}).pop(node, None)
        self._units.get(node, {}).pop(unit, None)


def _names(nodes: dict[str, int]) -> str:
    return " and ".join(f"{node} (epoch {epoch})" for node, epoch in nodes.items())


# -- search nodes -----------------------------------------------------------------------------------------------------


class IndexControllerChecker:
    """NODE-1 and NODE-2 in one space."""

    def __init__(self, violations: ViolationLog) -> None:
        self._violations = violations
        self._serving: dict[str, dict[Unit, float]] = {}  # node -> what it serves, until when in true time
        self._indexes: dict[str, dict[str, int]] = {}  # node -> bytes by name
        self._damaged: dict[tuple[str, str], float] = {}  # since when the node knows of the damage

    def on_serving_change(self, node: str, clock: SimClock, change: ServingChange) -> None:
        serving = self._serving.setdefault(node, {})
        match change:
            case ServingStarted(unit, _, until):
                serving[unit] = clock.to_true(until)
            case ServingExtended(until):
                serving.update(dict.fromkeys(serving, clock.to_true(until)))
            case ServingStopped(unit, _):
                serving.pop(unit, None)

    def on_death(self, node: str) -> None:
        self._serving.pop(node, None)
        for name in self._indexes.pop(node, {}):
            self._damaged.pop((node, name), None)

    def on_put(self, node: str, name: str, size_bytes: int, *, budget_bytes: int, leaving: Collection[str]) -> None:
        """An index is loaded; `leaving` has the repositories whose leases are being released."""
        indexes = self._indexes.setdefault(node, {})
        indexes[name] = size_bytes
        self._damaged.pop((node, name), None)
        others_bytes = sum(size for each, size in indexes.items() if each != name and each not in leaving)
        if others_bytes > budget_bytes:
            self._violations.add(
                "NODE-2", f"{node} has {others_bytes} bytes besides {name}, and its budget is {budget_bytes}"
            )

    def on_dropped(self, node: str, name: str) -> None:
        self._indexes.get(node, {}).pop(name, None)
        self._damaged.pop((node, name), None)

    def on_damage_found(self, node: str, name: str) -> None:
        if name in self._indexes.get(node, {}):
            self._damaged[node, name] = self._violations.true_now()

    def on_response(self, node: str, names: Iterable[str]) -> None:
        now = self._violations.true_now()
        served = {unit.name for unit, until in self._serving.get(node, {}).items() if until >= now}
        for name in names:
            if name not in served:
                self._violations.add("NODE-1", f"{node} returns {name}, which it does not hold")
            elif name not in self._indexes.get(node, {}):
                self._violations.add("NODE-1", f"{node} returns {name}, of which it has no index")
            elif self._damaged.get((node, name), now) < now:
                self._violations.add("NODE-1", f"{node} returns {name} from an index that it knows to be damaged")


# -- liveness ---------------------------------------------------------------------------------------------------------


class LeaseHolder(Protocol):
    def holds(self, unit: Unit) -> bool: ...


def unsettled_units(snapshot: Snapshot, units: Iterable[Unit], nodes: Mapping[str, LeaseHolder]) -> dict[Unit, str]:
    """Each unit that is not served, and why (LIVE).

    Safety alone is easy: a fleet that never serves breaks no other invariant. So after the faults everything must be
    held.
    """
    leases = {lease.unit: lease for lease in snapshot.leases}
    trouble = {}
    for unit in units:
        lease = leases.get(unit)
        if lease is None:
            trouble[unit] = "it has no holder"
        elif lease.state is not LeaseState.READY:
            trouble[unit] = f"it is {lease.state} at {lease.node}"
        elif lease.node not in nodes or not nodes[lease.node].holds(unit):
            trouble[unit] = f"{lease.node} has its lease and does not serve it"
    return trouble
