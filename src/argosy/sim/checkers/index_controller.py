"""NODE-1 and NODE-2: what search nodes answer for, and what they keep in memory.

NODE-1: an answer tells only of repositories that the node serves under a lease at that instant and has a sound index
of. NODE-2: indexes take no more than the budget and one index on top, which is the one that showed that it is too much.
What was given up and waits for the store to end its lease is not counted: the node no longer decides when it goes.
"""

from collections.abc import Collection, Iterable

from argosy.ownership.effects import ServingChange, ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.model import Unit
from argosy.sim.checkers.violations import ViolationLog
from argosy.sim.clocks import SimClock


class IndexControllerChecker:
    """Watches the search nodes of one space."""

    def __init__(self, findings: ViolationLog) -> None:
        self._findings = findings
        self._serving: dict[str, dict[Unit, float]] = {}  # node -> what it serves, until when in true time
        self._shelves: dict[str, dict[str, int]] = {}  # node -> bytes by name
        self._damaged: dict[tuple[str, str], float] = {}  # since when the node knows

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
        for name in self._shelves.pop(node, {}):
            self._damaged.pop((node, name), None)

    def put(self, node: str, name: str, size_bytes: int, *, budget_bytes: int, given_up: Collection[str]) -> None:
        """An index is on the shelf; `given_up` has those whose leases are on their way out."""
        shelf = self._shelves.setdefault(node, {})
        shelf[name] = size_bytes
        self._damaged.pop((node, name), None)
        others_bytes = sum(size for each, size in shelf.items() if each != name and each not in given_up)
        if others_bytes > budget_bytes:
            self._findings.add("NODE-2", f"{node} keeps {others_bytes} bytes beside {name}, and may {budget_bytes}")

    def on_dropped(self, node: str, name: str) -> None:
        self._shelves.get(node, {}).pop(name, None)
        self._damaged.pop((node, name), None)

    def on_damage_found(self, node: str, name: str) -> None:
        if name in self._shelves.get(node, {}):
            self._damaged[node, name] = self._findings.true_now()

    def on_response(self, node: str, names: Iterable[str]) -> None:
        now = self._findings.true_now()
        served = {unit.name for unit, until in self._serving.get(node, {}).items() if until >= now}
        for name in names:
            if name not in served:
                self._findings.add("NODE-1", f"{node} answers for {name}, which it does not hold")
            elif name not in self._shelves.get(node, {}):
                self._findings.add("NODE-1", f"{node} answers for {name}, of which it has no index")
            elif self._damaged.get((node, name), now) < now:
                self._findings.add("NODE-1", f"{node} answers for {name} from an index it knows to be damaged")
