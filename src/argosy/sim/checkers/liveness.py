"""Safety alone is easy: a fleet that never serves breaks no promise. After the faults all must be held again."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from argosy.ownership.events import Snapshot
from argosy.ownership.model import LeaseState, Unit


class Holds(Protocol):
    def holds(self, unit: Unit) -> bool: ...


def unsettled_units(snapshot: Snapshot, units: Iterable[Unit], nodes: Mapping[str, Holds]) -> dict[Unit, str]:
    """Each unit that nobody answers for as it should, and why."""
    leases = {lease.unit: lease for lease in snapshot.leases}
    trouble = {}
    for unit in units:
        lease = leases.get(unit)
        if lease is None:
            trouble[unit] = "nobody holds it"
        elif lease.state is not LeaseState.READY:
            trouble[unit] = f"it is {lease.state} at {lease.node}"
        elif lease.node not in nodes or not nodes[lease.node].holds(unit):
            trouble[unit] = f"{lease.node} has its lease and does not serve it"
    return trouble
