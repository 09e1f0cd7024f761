"""THR-1 and THR-2, watched from outside: all buckets of all instances and of the store, requests, exchanges.

THR-1: probabilities stay in [0, 1]; instances converge within k pulls. THR-2: no request waits on the shared store.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from argosy.sim.checkers.violations import ViolationLog
from argosy.sim.throttle_world import Instance, ThrottleWorld, buckets, spread
from argosy.throttle.model import Decision
from argosy.throttle.ports import RowId

# From the store's last change on. One pull brings it; after an outage the first answer is not believed, the row is
# restored and read again.
PULLS_MAX = 3
EQUAL = 1e-8  # what remains is the order of additions
UNRESTORED = 0.01  # after an outage, buckets with less blame than this are not told again


class ThrottleChecker:
    """Watches one world."""

    def __init__(self, findings: ViolationLog, world: ThrottleWorld) -> None:
        self._findings = findings
        self._world = world
        self._asked: Instance | None = None  # whose request is under way
        world.on_exchange = self.exchanging

    @contextmanager
    def request(self, instance: Instance) -> Iterator[None]:
        """What is done in here is what a client waits for."""
        self._asked, before = instance, self._world.now
        try:
            yield
        finally:
            self._asked = None
        if self._world.now != before:
            self._findings.add("THR-2", f"a request to {instance.name} took {self._world.now - before:.3f} s")

    def exchanging(self, instance: Instance) -> None:
        """The store is being asked, which may take any time at all."""
        if self._asked is not None:
            self._findings.add("THR-2", f"a request to {self._asked.name} waits for the store")
        for what, lock in (("throttle", instance.throttle._lock), ("storage", instance.storage._lock)):
            if lock.locked():
                self._findings.add("THR-2", f"the {what} of {instance.name} is locked while the store is asked")

    def on_decision(self, instance: Instance, decision: Decision) -> None:
        if not 0.0 <= decision.probability <= 1.0:
            self._findings.add("THR-1", f"{instance.name} decided with probability {decision.probability}")

    def look(self) -> None:
        """Every bucket there is must be a probability."""
        for instance in self._world.instances:
            for place, (probability, _) in buckets(instance.throttle).items():
                if not 0.0 <= probability <= 1.0:
                    self._findings.add("THR-1", f"bucket {place} of {instance.name} stands at {probability}")
        seeds = {seed for instance in self._world.instances for seed in instance.throttle.seeds}
        for cell in [RowId(seed, row) for seed in sorted(seeds) for row in range(self._world.config.levels)]:
            for col, state in self._world.store.states(cell).items():
                if not 0.0 <= state.prob <= 1.0:
                    self._findings.add("THR-1", f"column {col} of the store's row {cell} stands at {state.prob}")

    def has_settled(self) -> bool:
        """Whether everybody has pulled often enough since the store last changed."""
        writes = self._world.writes
        return all(each.seen_writes == writes and each.pulls >= PULLS_MAX for each in self._world.instances)

    def converged(self, *, had_outage: bool) -> None:
        """Once all have settled, they know the same."""
        widest = spread([instance.throttle for instance in self._world.instances])
        if widest > (UNRESTORED if had_outage else 0.0) + EQUAL:
            self._findings.add("THR-1", f"after {PULLS_MAX} pulls instances still differ by {widest:.6f}")
