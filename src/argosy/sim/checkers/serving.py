"""OWN-1 and OWN-4: who serves what, in true time.

A node says when it starts and stops serving a unit, and until when (by its own clock) it would go on if nothing more
happened. Its span therefore ends at the earlier of its word and its `until`, whether it runs, stands still or is cut
off; only its death ends it sooner. A successor's slot answers for nothing, and is not looked at.
"""

from dataclasses import dataclass

from argosy.ownership.effects import ServingChange, ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.events import LeaseChanged, LeaseGone, WatchEvent
from argosy.ownership.model import PRIMARY, SUCCESSOR, Lease, Session, SessionRole, Unit
from argosy.sim.checkers.violations import ViolationLog
from argosy.sim.clocks import SimClock
from argosy.sim.network import Served

SLACK_S = 1e-6  # sums of floats


@dataclass
class _Span:
    epoch: int
    until: float  # true time


class ServingChecker:
    """Watches one space."""

    def __init__(self, findings: ViolationLog, store_clock: SimClock) -> None:
        self._findings = findings
        self._store_clock = store_clock
        self._spans: dict[Unit, dict[str, _Span]] = {}
        self._units: dict[str, dict[Unit, None]] = {}  # node -> what it serves, in order
        self._promised: dict[str, float] = {}  # node -> true time its holder session stands until
        self._leases: dict[Unit, Lease] = {}
        self._forgotten: dict[str, set[tuple[Unit, int]]] = {}  # node -> granted by a store that then lost its data
        self._epoch_seen: dict[Unit, int] = {}

    # -- what nodes say ---------------------------------------------------------------------------------------------

    def on_serving_change(self, node: str, clock: SimClock, change: ServingChange) -> None:
        match change:
            case ServingStarted(unit, epoch, until) if unit.replica != SUCCESSOR:
                self._spans.setdefault(unit, {})[node] = _Span(epoch, clock.to_true(until))
                self._units.setdefault(node, {})[unit] = None
                self._judge(node, unit)
            case ServingExtended(until):
                for unit in list(self._units.get(node, ())):
                    self._spans[unit][node].until = clock.to_true(until)
                    self._judge(node, unit)
            case ServingStopped(unit, epoch):
                self._stop(node, unit)

    def on_death(self, node: str) -> None:
        for unit in list(self._units.get(node, ())):
            self._stop(node, unit)

    def on_response(self, unit: Unit, epochs: dict[str, int]) -> None:
        """A client asked all nodes that can answer, at one instant; `epochs` has those that said they hold the unit."""
        if len(epochs) > 1:
            self._findings.add("OWN-1", f"{unit} is answered for by {_names(epochs)} at the same instant")
        for node, epoch in epochs.items():
            if epoch < self._epoch_seen.get(unit, 0):
                self._findings.add(
                    "OWN-1", f"{unit} is answered for by {node} at epoch {epoch}, after epoch {self._epoch_seen[unit]}"
                )
            self._epoch_seen[unit] = max(epoch, self._epoch_seen.get(unit, 0))

    # -- what the store does ----------------------------------------------------------------------------------------

    def on_event(self, fact: WatchEvent) -> None:
        match fact:
            case LeaseChanged(lease):
                self._leases[lease.unit] = lease
            case LeaseGone(unit, epoch):
                self._leases.pop(unit, None)
                for node, span in self._alive(unit):
                    if span.epoch == epoch and not self._is_promoted(node, unit):
                        self._findings.add("OWN-4", f"{node} still serves {unit}, whose lease of epoch {epoch} is gone")

    def on_call(self, served: Served) -> None:
        """Follows how long the store has promised each node's holder session to stand."""
        match served:
            case Served(call="open_session", outcome=Session(role=SessionRole.HOLDER, node=node, ttl_s=ttl_s)):
                self._forgotten.pop(node, None)
                self._promise(node, ttl_s)
            case Served(
                call="renew", args=(Session(role=SessionRole.HOLDER, node=node, ttl_s=ttl_s),), outcome=outcome
            ):
                if not isinstance(outcome, BaseException):
                    self._promise(node, ttl_s)
            case Served(outcome=AssertionError() | KeyError() as bug):
                self._findings.add("STORE", f"{served.call}{served.args} failed with {bug!r}")

    def on_data_loss(self) -> None:
        """What was promised still binds: the store must grant nothing until the last of it is over."""
        for lease in self._leases.values():
            self._forgotten.setdefault(lease.node, set()).add((lease.unit, lease.epoch))
        self._leases.clear()

    # -- judging ----------------------------------------------------------------------------------------------------

    def _judge(self, node: str, unit: Unit) -> None:
        """`node` serves `unit` from now on, or for longer than it said before."""
        span, now = self._spans[unit][node], self._findings.true_now()
        if span.until <= now:
            return
        for other, rival in self._alive(unit):
            if other != node and unit.replica == PRIMARY:
                self._findings.add(
                    "OWN-1", f"{unit} is served by {node} at epoch {span.epoch} and by {other} at epoch {rival.epoch}"
                )
        promised = self._promised.get(node, float("-inf"))
        if span.until > promised + SLACK_S:
            over_s = span.until - promised
            self._findings.add("OWN-4", f"{node} would serve {unit} {over_s:.3f} s longer than its session stands")
        if not self._is_leased(node, unit, span.epoch):
            self._findings.add("OWN-4", f"{node} serves {unit} at epoch {span.epoch} without a lease")

    def _is_leased(self, node: str, unit: Unit, epoch: int) -> bool:
        lease = self._leases.get(unit)
        is_held = lease is not None and (lease.node, lease.epoch) == (node, epoch)
        return is_held or (unit, epoch) in self._forgotten.get(node, ())

    def _is_promoted(self, node: str, unit: Unit) -> bool:
        """A replica's holder that is handed the unit itself loses its slot in the same step, and serves on."""
        primary = self._leases.get(Unit(unit.name))
        return unit.replica != PRIMARY and primary is not None and primary.node == node

    def _alive(self, unit: Unit) -> list[tuple[str, _Span]]:
        now = self._findings.true_now() + SLACK_S
        return [(node, span) for node, span in self._spans.get(unit, {}).items() if span.until > now]

    def _promise(self, node: str, ttl_s: float) -> None:
        self._promised[node] = self._store_clock.to_true(self._store_clock.now() + ttl_s)

    def _stop(self, node: str, unit: Unit) -> None:
        self._spans.get(unit, {}).pop(node, None)
        self._units.get(node, {}).pop(unit, None)


def _names(nodes: dict[str, int]) -> str:
    return " and ".join(f"{node} (epoch {epoch})" for node, epoch in nodes.items())
