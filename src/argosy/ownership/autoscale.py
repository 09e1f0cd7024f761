"""Autoscale signal: how many nodes the fleet should have, computed from the view, with the reasons.

The signal grows at once, because units without a holder are an outage. It shrinks only after `CALM_S` without any
reason to grow, and only by naming one node to drain, because every drained unit is indexed again elsewhere. A node is
removable once it has drained: it is no longer a member and holds no lease.
"""

from dataclasses import dataclass
from math import ceil

from argosy.ownership.model import Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

# The distance to MEMORY_TARGET makes one step large enough that the next measurement is not a reason to grow again.
MEMORY_HIGH = 0.85  # share of the fleet's memory in use above which nodes are added
MEMORY_TARGET = 0.70  # the share to reach by adding nodes
# A node is removed only if the share of the remaining nodes stays at or below this: far below MEMORY_HIGH, so that a
# removal is not a reason to grow again.
MEMORY_LOW = 0.50
# One window is what an auction may take; two mean that units regularly fail to find a winner in their first one.
LATENCY_WINDOWS_MAX = 2.0  # mean wait from unowned to leased, in auction windows
BACKLOG_ROUNDS_MAX = 4  # unowned units, in multiples of what the fleet can warm at once
REMOVABLE_MAX = 100  # drained nodes that are listed; older ones are assumed to be removed
# Ten minutes: every drained unit is indexed again elsewhere, so a short dip in load must not shrink the fleet.
CALM_S = 600.0  # time without any reason to grow before a node is named for draining


@dataclass(frozen=True)
class ScaleSignal:
    """Body of `GET /scale`. Autoscalers use `desired_nodes`; the rest explains it."""

    desired_nodes: int
    current_nodes: int
    reasons: tuple[str, ...]
    unowned_units: int
    starved_units: int
    claim_latency_s: float
    memory_used: float
    drain_candidate: str | None
    removable_nodes: tuple[str, ...]


class Autoscaler:
    """Computes the signal. Its only state is since when there has been no reason to grow, and the nodes seen so far."""

    def __init__(self, settings: OwnershipSettings) -> None:
        self._settings = settings
        self._calm_since: float | None = None
        self._nodes_seen: dict[str, None] = {}

    def signal(self, view: FleetView, now: float) -> ScaleSignal:
        """The signal for the current view. May be called at any rate."""
        nodes = len(view.members)
        growth = dict(self._growth_reasons(view, now))
        # The maximum and not the sum: the reasons overlap, since units that wait are also starved and unowned.
        largest = max(growth.values(), default=nodes)
        # Unowned units are no reason to grow by themselves, but a fleet that is still placing units is not calm.
        if growth or view.unowned_count():
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        # Only one at a time: after each removal the load is measured again.
        candidate = self._drain_candidate(view, now)
        return ScaleSignal(
            desired_nodes=max(1, largest if growth else nodes - (candidate is not None)),
            current_nodes=nodes,
            reasons=tuple(growth) or ((f"{candidate} can be drained",) if candidate else ()),
            unowned_units=view.unowned_count(),
            starved_units=len(self.starved_units(view, now)),
            claim_latency_s=_mean_latency(view),
            memory_used=_memory_used(view),
            drain_candidate=candidate,
            removable_nodes=self._removable(view),
        )

    def starved_units(self, view: FleetView, now: float) -> list[Unit]:
        """Units without a holder for `epochs_max` windows, or after as many auctions."""
        limit_s = self._settings.epochs_max * self._settings.window_s
        return [
            unit
            for unit, since in view.unowned_since.items()
            if now - since >= limit_s or view.fruitless_auctions.get(unit, 0) >= self._settings.epochs_max
        ]

    def _growth_reasons(self, view: FleetView, now: float) -> list[tuple[str, int]]:
        """Each reason to grow, with the node count it requires."""
        nodes, settings = len(view.members), self._settings
        reasons: list[tuple[str, int]] = []
        if starved := self.starved_units(view, now):
            text = f"{len(starved)} units without a holder for {settings.epochs_max} auction windows"
            reasons.append((text, nodes + self._nodes_for(starved, view)))
        if view.unowned_count() > BACKLOG_ROUNDS_MAX * settings.warming_max * max(1, nodes):
            rounds = settings.warming_max * BACKLOG_ROUNDS_MAX
            reasons.append((f"{view.unowned_count()} units are unowned", ceil(view.unowned_count() / rounds)))
        if view.unowned_count() and (latency_s := _mean_latency(view)) > LATENCY_WINDOWS_MAX * settings.window_s:
            reasons.append((f"units wait {latency_s:.0f} s for a holder", nodes + 1))
        if (used := _memory_used(view)) > MEMORY_HIGH:
            text = f"{used:.0%} of the fleet's memory is in use"
            reasons.append((text, max(nodes + 1, ceil(nodes * used / MEMORY_TARGET))))
        return reasons

    def _nodes_for(self, units: list[Unit], view: FleetView) -> int:
        default = self._settings.default_footprint_bytes
        needed = sum(view.spec(unit).footprint_bytes or default for unit in units)
        sizes = [member.held_bytes + member.free_bytes for member in view.members.values()]
        mean = sum(sizes) / len(sizes) if sizes else 0
        return max(1, ceil(needed / (mean * MEMORY_TARGET))) if mean else 1

    def _drain_candidate(self, view: FleetView, now: float) -> str | None:
        if self._calm_since is None or now - self._calm_since < CALM_S or len(view.members) < 2:
            return None
        # The least loaded node has the least to index again; the name decides between equals, so all nodes agree.
        lightest = min(view.members.values(), key=lambda member: (member.held_bytes, member.node))
        held = sum(member.held_bytes for member in view.members.values())
        capacity = sum(m.held_bytes + m.free_bytes for m in view.members.values() if m is not lightest)
        return lightest.node if capacity and held / capacity <= MEMORY_LOW else None

    def _removable(self, view: FleetView) -> tuple[str, ...]:
        """Nodes that were members before, are not now, and hold no lease."""
        # A node may have left the membership and still hold leases: it is draining.
        holders = {lease.node for lease in view.leases.values()}
        self._nodes_seen.update(dict.fromkeys(view.members))
        gone = [node for node in self._nodes_seen if node not in view.members and node not in holders]
        # Names of nodes that never return would otherwise accumulate in a fleet whose node ids are random.
        for node in gone[:-REMOVABLE_MAX]:
            del self._nodes_seen[node]
        return tuple(sorted(gone[-REMOVABLE_MAX:]))


def _mean_latency(view: FleetView) -> float:
    waits = view.claim_waits_s
    return sum(waits) / len(waits) if waits else 0.0


def _memory_used(view: FleetView) -> float:
    held = sum(member.held_bytes for member in view.members.values())
    total = held + sum(member.free_bytes for member in view.members.values())
    return held / total if total else 0.0
