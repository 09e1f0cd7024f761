"""How many nodes the fleet should have: a pure reading of the view, with the reasons beside the number.

Growing is asked for at once; shrinking only after the fleet has been calm for a while, and only by naming a node to
drain. A node may be taken away when it has drained: it is no longer a member and holds nothing.
"""

from dataclasses import dataclass
from math import ceil

from argosy.ownership.model import Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

MEMORY_HIGH = 0.85  # fleet-wide share of memory in use above which nodes are added
MEMORY_TARGET = 0.70  # the share to come to after adding
MEMORY_LOW = 0.50  # the share the remaining nodes may reach when one is taken away
LATENCY_WINDOWS_MAX = 2.0  # mean wait from open to held, in auction windows
BACKLOG_ROUNDS_MAX = 4  # open units, as rounds of everything the fleet can make ready at once
REMOVABLE_MAX = 100  # drained nodes that are remembered; by then somebody has taken the first ones away
CALM_S = 600.0  # how long nothing may be asked for before a node is named for draining


@dataclass(frozen=True)
class ScaleSignal:
    """The body of `GET /scale`: `desired_nodes` is the figure for an autoscaler, the rest is for people."""

    desired_nodes: int
    current_nodes: int
    reasons: tuple[str, ...]
    open_units: int
    starved_units: int
    claim_latency_s: float
    memory_used: float
    drain_candidate: str | None
    removable_nodes: tuple[str, ...]


class Autoscaler:
    """Remembers only how long the fleet has been calm, and who has been seen."""

    def __init__(self, settings: OwnershipSettings) -> None:
        self._settings = settings
        self._calm_since: float | None = None
        self._seen: dict[str, None] = {}

    def signal(self, view: FleetView, now: float) -> ScaleSignal:
        """Reads the view; call it as often as you like."""
        nodes = len(view.members)
        wanted = dict(self._wants(view, now))
        more = max(wanted.values(), default=nodes)
        if wanted or view.open_count():
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        candidate = self._drain_candidate(view, now)
        return ScaleSignal(
            desired_nodes=max(1, more if wanted else nodes - (candidate is not None)),
            current_nodes=nodes,
            reasons=tuple(wanted) or ((f"{candidate} can be drained",) if candidate else ()),
            open_units=view.open_count(),
            starved_units=len(self.starved(view, now)),
            claim_latency_s=_mean_latency(view),
            memory_used=_memory_used(view),
            drain_candidate=candidate,
            removable_nodes=self._removable(view),
        )

    def starved(self, view: FleetView, now: float) -> list[Unit]:
        """Units that found no holder for `epochs_max` windows, or in as many auctions."""
        patience_s = self._settings.epochs_max * self._settings.window_s
        return [
            unit
            for unit, since in view.open_since.items()
            if now - since >= patience_s or view.fruitless.get(unit, 0) >= self._settings.epochs_max
        ]

    def _wants(self, view: FleetView, now: float) -> list[tuple[str, int]]:
        """Each pressing reason with the node count it asks for."""
        nodes, settings = len(view.members), self._settings
        wants: list[tuple[str, int]] = []
        if starved := self.starved(view, now):
            text = f"{len(starved)} units found no holder for {settings.epochs_max} auction windows"
            wants.append((text, nodes + self._nodes_for(starved, view)))
        if view.open_count() > BACKLOG_ROUNDS_MAX * settings.warming_max * max(1, nodes):
            rounds = settings.warming_max * BACKLOG_ROUNDS_MAX
            wants.append((f"{view.open_count()} units are unclaimed", ceil(view.open_count() / rounds)))
        if view.open_count() and (latency_s := _mean_latency(view)) > LATENCY_WINDOWS_MAX * settings.window_s:
            wants.append((f"units wait {latency_s:.0f} s for a holder", nodes + 1))
        if (used := _memory_used(view)) > MEMORY_HIGH:
            text = f"{used:.0%} of the fleet's memory is in use"
            wants.append((text, max(nodes + 1, ceil(nodes * used / MEMORY_TARGET))))
        return wants

    def _nodes_for(self, units: list[Unit], view: FleetView) -> int:
        default = self._settings.default_footprint_bytes
        needed = sum(view.spec(unit).footprint_bytes or default for unit in units)
        sizes = [member.held_bytes + member.free_bytes for member in view.members.values()]
        mean = sum(sizes) / len(sizes) if sizes else 0
        return max(1, ceil(needed / (mean * MEMORY_TARGET))) if mean else 1

    def _drain_candidate(self, view: FleetView, now: float) -> str | None:
        if self._calm_since is None or now - self._calm_since < CALM_S or len(view.members) < 2:
            return None
        lightest = min(view.members.values(), key=lambda member: (member.held_bytes, member.node))
        held = sum(member.held_bytes for member in view.members.values())
        room = sum(m.held_bytes + m.free_bytes for m in view.members.values() if m is not lightest)
        return lightest.node if room and held / room <= MEMORY_LOW else None

    def _removable(self, view: FleetView) -> tuple[str, ...]:
        """Seen before, no member now, and holding nothing."""
        holders = {lease.node for lease in view.leases.values()}
        self._seen.update(dict.fromkeys(view.members))
        gone = [node for node in self._seen if node not in view.members and node not in holders]
        for node in gone[:-REMOVABLE_MAX]:
            del self._seen[node]
        return tuple(sorted(gone[-REMOVABLE_MAX:]))


def _mean_latency(view: FleetView) -> float:
    waits = view.claimed_after_s
    return sum(waits) / len(waits) if waits else 0.0


def _memory_used(view: FleetView) -> float:
    held = sum(member.held_bytes for member in view.members.values())
    total = held + sum(member.free_bytes for member in view.members.values())
    return held / total if total else 0.0
