"""One space of a simulated world: its store, the server of the store, and the checkers that observe them."""

from collections import Counter
from collections.abc import Callable, Collection

from argosy.base.clock import Random
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.effects import ServingChange
from argosy.ownership.events import WatchEvent
from argosy.ownership.model import Unit
from argosy.sim.checkers import AuctionChecker, IndexControllerChecker, RingChecker, ServingChecker
from argosy.sim.index_executor import SimIndex
from argosy.sim.link import Link
from argosy.sim.loop import SimClock, SimLoop
from argosy.sim.network import StoreCall, StoreServer
from argosy.sim.plan import SearchPlan, SpacePlan, WorldPlan
from argosy.sim.repositories import Origins, SimRepoCatalog
from argosy.sim.trace import Trace, ViolationLog

STALE_TTLS = 4.0  # a message may be two TTLs late, and reach a node that is then cut off for two more


class SimSearch:
    """What all search nodes of a space share: catalog, origins, and their observers."""

    def __init__(
        self, plan: SpacePlan, search: SearchPlan, violations: ViolationLog, trace: Trace, loop: SimLoop
    ) -> None:
        self.name = plan.space.name
        self.plan = search
        self.origins = Origins(plan.sizes)
        self.specs = SimRepoCatalog(plan.specs, loop)
        self.checker = IndexControllerChecker(violations)
        self.failure_chance = plan.warm_failure_chance
        self.damage_chance = search.damage_chance
        self.provisioned: Counter[str] = Counter()  # indexes, by how they were obtained
        self.put_observers: list[Callable[[str, SimIndex], None]] = []
        self.eviction_observers: list[Callable[[str, str], None]] = []
        self._first_bytes = plan.sizes
        self._trace = trace

    def commit(self, name: str, growth: float = 1.0, *, is_announced: bool = False) -> None:
        """Add a commit; the index becomes `growth` times as large as the first one."""
        self.origins.commit(name, int(self._first_bytes[name] * growth))
        self._trace.add(f"{name} is at {self.origins.heads(name)[0].version}, announced: {is_announced}")
        if is_announced:
            self.specs.announce(name)

    def on_put(self, node: str, index: SimIndex, *, budget_bytes: int, leaving: Collection[str]) -> None:
        name = index.repository.name
        self._trace.add(f"{node} has {name} at {index.commit}")
        self.checker.on_put(node, name, index.index_bytes, budget_bytes=budget_bytes, leaving=leaving)
        for observer in self.put_observers:
            observer(node, index)

    def on_evicted(self, node: str, name: str) -> None:
        self._trace.add(f"{node} evicts {name}")
        for observer in self.eviction_observers:
            observer(node, name)


class SimSpace:
    """The store of one space, and its checkers."""

    def __init__(
        self,
        plan: SpacePlan,
        world: WorldPlan,
        violations: ViolationLog,
        trace: Trace,
        dice: Callable[[str], Random],
        loop: SimLoop,
    ) -> None:
        self.plan = plan
        self.name = plan.space.name
        self.failure_chance = plan.warm_failure_chance
        # The clock of the store drifts too: leases must hold although neither side has the true time.
        random = dice(f"store {self.name}")
        clock = SimClock(violations.true_now, drift=random.uniform(-world.drift_max, world.drift_max))
        self.store = MemoryOwnershipStore(plan.space, clock=clock, random=random, grace_s=plan.settings.grace)
        self.server = StoreServer(self.store, random)
        self.search = None if plan.search is None else SimSearch(plan, plan.search, violations, trace, loop)
        self._trace = trace
        self._serving = ServingChecker(violations, clock)
        self._auctions = AuctionChecker(violations, self.store) if plan.space.is_auctioned else None
        self._ring = _ring_checker(plan, violations) if plan.settings.placement == "ring" else None
        self.store.observers.append(self._on_event)
        self.server.call_observers.append(self._on_call)

    def on_serving_change(self, node: str, clock: SimClock, change: ServingChange) -> None:
        self._trace.add(f"{self.name} {node} reports {change}")
        self._serving.on_serving_change(node, clock, change)
        if self.search is not None:
            self.search.checker.on_serving_change(node, clock, change)

    def heal(self) -> None:
        """From now on nothing fails and there are no commits; indexes shrink to their first size, so that all fit."""
        self.failure_chance = 0.0
        if self.search is not None:
            self.search.failure_chance = self.search.damage_chance = 0.0
            # The size of an index that was larger before may still be recorded late; no node would bid for a size that
            # none of them has.
            self.search.specs.bytes_max = self.plan.sizes
            for name in self.search.specs.specs:
                self.search.commit(name)
                self.search.specs.change(name, footprint_bytes=self.plan.sizes[name])

    def on_response(self, unit: Unit, epochs: dict[str, int]) -> None:
        self._serving.on_response(unit, epochs)

    def on_node_death(self, node: str, link: Link) -> None:
        self._serving.on_death(node)
        if self.search is not None:
            self.search.checker.on_death(node)
        # The kernel of a machine closes the connections of its dead processes.
        for stream in list(self.server.streams):
            if stream.link is link:
                stream.abandon()

    def stop(self) -> None:
        self.server.stop()

    def start(self, *, has_lost_data: bool) -> None:
        if has_lost_data:
            # The checkers first: what they observe from now on comes from the empty store.
            for checker in (self._serving, self._auctions, self._ring):
                if checker is not None:
                    checker.on_data_loss()
        self.server.start(has_lost_data=has_lost_data)

    def _on_event(self, event: WatchEvent) -> None:
        self._trace.add(f"{self.name} {event}")
        self._serving.on_event(event)
        if self._auctions is not None:
            self._auctions.on_event(event)
        if self._ring is not None:
            self._ring.on_event(event)

    def _on_call(self, served: StoreCall) -> None:
        self._trace.add(f"{self.name} {served.node} {served.call} {_call_summary(served)}")
        self._serving.on_call(served)
        if self._auctions is not None:
            self._auctions.on_call(served)


def _ring_checker(plan: SpacePlan, violations: ViolationLog) -> RingChecker:
    names = tuple(spec.name for spec in plan.specs)
    settings = plan.settings
    return RingChecker(violations, names, vnodes=settings.vnodes, stale_s=STALE_TTLS * settings.ttl_s)


def _call_summary(served: StoreCall) -> str:
    """Unit and outcome of a call. Never the `repr` of a set, whose order differs from one interpreter to the next."""
    unit = next((str(arg) for arg in served.args if isinstance(arg, Unit)), "")
    outcome = getattr(served.outcome, "outcome", type(served.outcome).__name__)
    return f"{unit} {outcome}"
