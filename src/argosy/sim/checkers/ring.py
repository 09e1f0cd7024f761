"""OWN-5: in a ring space only the units between old and new owner move.

A node acts on the members it last heard of, so a unit may go to its owner under any ring of the recent past, and to
nobody else.
"""

from argosy.ownership.events import LeaseChanged, MemberChanged, MemberGone, WatchEvent
from argosy.ownership.model import Unit
from argosy.ownership.ring import Ring
from argosy.sim.checkers.violations import ViolationLog

RINGS_MAX = 1_000  # remembered at once; a world that changes faster than that tests nothing


class RingChecker:
    """Watches one ring space. `stale_s` is how long a node or a message may lag behind."""

    def __init__(self, findings: ViolationLog, units: tuple[str, ...], *, vnodes: int, stale_s: float) -> None:
        self._findings = findings
        self._units = units
        self._vnodes = vnodes
        self._stale_s = stale_s
        self._members: dict[str, None] = {}
        self._rings: list[tuple[float, Ring]] = [(0.0, Ring((), vnodes=vnodes))]  # with the time each began
        self._holder: dict[Unit, tuple[str, int]] = {}

    def on_event(self, fact: WatchEvent) -> None:
        match fact:
            case MemberChanged(member) if member.node not in self._members:
                self._members[member.node] = None
                self._turn(member.node)
            case MemberGone(node) if node in self._members:
                del self._members[node]
                self._turn(node)
            case LeaseChanged(lease) if self._holder.get(lease.unit) != (lease.node, lease.epoch):
                self._holder[lease.unit] = (lease.node, lease.epoch)
                if lease.node not in self._lawful(lease.unit):
                    self._findings.add("OWN-5", f"{lease.unit} went to {lease.node}, which no recent ring specs")

    def on_data_loss(self) -> None:
        """Everybody is gone at once, and comes back one by one."""
        self._members.clear()
        self._remember(Ring((), vnodes=self._vnodes))

    def _turn(self, node: str) -> None:
        """A node came or went: nothing may move between two others."""
        old, new = self._rings[-1][1], Ring(self._members, vnodes=self._vnodes)
        for unit in self._units:
            before, after = old.owner(unit), new.owner(unit)
            if before != after and node not in (before, after):
                self._findings.add("OWN-5", f"{unit} moves from {before} to {after} because of {node}")
        self._remember(new)

    def _remember(self, ring: Ring) -> None:
        now = self._findings.true_now()
        self._rings.append((now, ring))
        # The ring that was in force at the horizon stays: it ended later than it began.
        while len(self._rings) > RINGS_MAX or (len(self._rings) > 1 and self._rings[1][0] < now - self._stale_s):
            del self._rings[0]

    def _lawful(self, unit: Unit) -> set[str | None]:
        horizon = self._findings.true_now() - self._stale_s
        ends = [began for began, _ in self._rings[1:]] + [float("inf")]
        return {ring.owner(unit.name) for (_, ring), end in zip(self._rings, ends, strict=True) if end >= horizon}
