"""THR-1 and THR-2: all buckets of all instances and of the store, requests, and exchanges with the store.

THR-1: probabilities stay in [0, 1]; instances converge within k pulls. THR-2: no request waits on the shared store.
THR-2 is checked twice: virtual time must not pass during a request, and no lock that a request takes may be held during
an exchange, because there the real code would wait although the simulated one does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from argosy.sim.throttle_world import Instance, ThrottleWorld, buckets, spread
from argosy.sim.trace import ViolationLog
from argosy.throttle.model import Decision
from argosy.throttle.ports import RowId

# After the last change of the store. One pull brings it; after an outage the first response is not trusted: the row is
# restored and read again.
PULLS_MAX = 3
EQUAL = 1e-8  # rounding, because instances add in different orders
UNRESTORED = 0.01  # after an outage, buckets with less blame than this are not restored


class ThrottleChecker:
    """Observes one world."""

    def __init__(self, violations: ViolationLog, world: ThrottleWorld) -> None:
        self._violations = violations
        self._world = world
        self._requesting: Instance | None = None  # whose request is running
        world.on_exchange = self.on_exchange

    @contextmanager
    def request(self, instance: Instance) -> Iterator[None]:
        """The block is what a client waits for."""
        self._requesting, before = instance, self._world.now
        try:
            yield
        finally:
            self._requesting = None
        if self._world.now != before:
            self._violations.add("THR-2", f"a request to {instance.name} took {self._world.now - before:.3f} s")

    def on_exchange(self, instance: Instance) -> None:
        """An exchange with the store, which may take any time."""
        if self._requesting is not None:
            self._violations.add("THR-2", f"a request to {self._requesting.name} waits for the store")
        for what, lock in (("throttle", instance.throttle._lock), ("storage", instance.storage._lock)):
            if lock.locked():
                self._violations.add(
                    "THR-2", f"the {what} of {instance.name} is locked during an exchange with the store"
                )

    def on_decision(self, instance: Instance, decision: Decision) -> None:
        if not 0.0 <= decision.probability <= 1.0:
            self._violations.add("THR-1", f"{instance.name} decided with probability {decision.probability}")

    def check_buckets(self) -> None:
        """Every bucket must be a probability."""
        for instance in self._world.instances:
            for place, (probability, _) in buckets(instance.throttle).items():
                if not 0.0 <= probability <= 1.0:
                    self._violations.add("THR-1", f"bucket {place} of {instance.name} has value {probability}")
        seeds = {seed for instance in self._world.instances for seed in instance.throttle.seeds}
        # Sorted, because the order of a set differs between interpreters.
        for cell in [RowId(seed, row) for seed in sorted(seeds) for row in range(self._world.config.levels)]:
            for col, state in self._world.store.states(cell).items():
                if not 0.0 <= state.prob <= 1.0:
                    self._violations.add("THR-1", f"column {col} of the store's row {cell} has value {state.prob}")

    def has_settled(self) -> bool:
        """Whether all instances have pulled often enough since the last change of the store."""
        writes = self._world.writes
        return all(each.seen_writes == writes and each.pulls >= PULLS_MAX for each in self._world.instances)

    def check_converged(self, *, had_outage: bool) -> None:
        """Once all have settled, their buckets must be equal."""
        widest = spread([instance.throttle for instance in self._world.instances])
        if widest > (UNRESTORED if had_outage else 0.0) + EQUAL:
            self._violations.add("THR-1", f"after {PULLS_MAX} pulls instances still differ by {widest:.6f}")
