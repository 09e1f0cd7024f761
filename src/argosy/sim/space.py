"""One space of a simulated world: its store, the store's machine, and the checkers that watch them."""

from collections import Counter
from collections.abc import Callable, Collection

from argosy.base.clock import Random
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.effects import ServingChange
from argosy.ownership.events import WatchEvent
from argosy.ownership.model import Unit
from argosy.sim.checkers import AuctionChecker, IndexControllerChecker, RingChecker, ServingChecker, ViolationLog
from argosy.sim.clocks import SimClock
from argosy.sim.index_executor import SimIndex
from argosy.sim.link import Link
from argosy.sim.loop import SimLoop
from argosy.sim.network import Served, StoreServer
from argosy.sim.origins import Origins
from argosy.sim.plan import SearchPlan, SpacePlan, WorldPlan
from argosy.sim.repo_catalog import SimRepoCatalog
from argosy.sim.trace import Trace

STALE_TTLS = 4.0  # a message may be two TTLs late, and leave a node that is cut off for as long


class SimSearch:
    """What all search nodes of a space share: catalog, origins, and whoever watches them."""

    def __init__(
        self, plan: SpacePlan, search: SearchPlan, findings: ViolationLog, trace: Trace, loop: SimLoop
    ) -> None:
        self.name = plan.space.name
        self.plan = search
        self.origins = Origins(plan.sizes)
        self.specs = SimRepoCatalog(plan.specs, loop)
        self.checker = IndexControllerChecker(findings)
        self.failure_chance = plan.warm_failure_chance
        self.damage_chance = search.damage_chance
        self.made: Counter[str] = Counter()  # indexes, by how
        self.on_put: list[Callable[[str, SimIndex], None]] = []
        self.on_evicted: list[Callable[[str, str], None]] = []
        self._first_bytes = plan.sizes
        self._trace = trace

    def commit(self, name: str, growth: float = 1.0, *, is_announced: bool = False) -> None:
        """Somebody pushes; the index will be `growth` times as large as the first one."""
        self.origins.commit(name, int(self._first_bytes[name] * growth))
        self._trace.add(f"{name} is at {self.origins.heads(name)[0].version}, announced: {is_announced}")
        if is_announced:
            self.specs.announce(name)

    def put(self, node: str, index: SimIndex, *, budget_bytes: int, given_up: Collection[str]) -> None:
        name = index.repository.name
        self._trace.add(f"{node} has {name} at {index.commit}")
        self.checker.put(node, name, index.index_bytes, budget_bytes=budget_bytes, given_up=given_up)
        for told in self.on_put:
            told(node, index)

    def evicted(self, node: str, name: str) -> None:
        self._trace.add(f"{node} evicts {name}")
        for told in self.on_evicted:
            told(node, name)


class SimSpace:
    """The server's side of one space."""

    def __init__(
        self,
        plan: SpacePlan,
        world: WorldPlan,
        findings: ViolationLog,
        trace: Trace,
        dice: Callable[[str], Random],
        loop: SimLoop,
    ) -> None:
        self.plan = plan
        self.name = plan.space.name
        self.failure_chance = plan.warm_failure_chance
        random = dice(f"store {self.name}")
        clock = SimClock(findings.true_now, drift=random.uniform(-world.drift_max, world.drift_max))
        self.store = MemoryOwnershipStore(plan.space, clock=clock, random=random, grace_s=plan.settings.grace)
        self.server = StoreServer(self.store, random)
        self.search = None if plan.search is None else SimSearch(plan, plan.search, findings, trace, loop)
        self._trace = trace
        self._serving = ServingChecker(findings, clock)
        self._auctions = AuctionChecker(findings, self.store) if plan.space.is_auctioned else None
        self._ring = _ring_checker(plan, findings) if plan.settings.placement == "ring" else None
        self.store.observers.append(self._saw)
        self.server.taps.append(self._on_call)

    def on_serving_change(self, node: str, clock: SimClock, change: ServingChange) -> None:
        self._trace.add(f"{self.name} {node} says {change}")
        self._serving.on_serving_change(node, clock, change)
        if self.search is not None:
            self.search.checker.on_serving_change(node, clock, change)

    def heal(self) -> None:
        """From now on nothing fails, and nobody works; what was added before is cleaned up, so that all has room."""
        self.failure_chance = 0.0
        if self.search is not None:
            self.search.failure_chance = self.search.damage_chance = 0.0
            # An index of before may still be noted: nobody would bid for a size that no node has.
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
        for stream in list(self.server.streams):
            if stream.link is link:
                stream.abandon()

    def stop(self) -> None:
        self.server.stop()

    def start(self, *, has_lost_data: bool) -> None:
        if has_lost_data:
            for checker in (self._serving, self._auctions, self._ring):
                if checker is not None:
                    checker.on_data_loss()
        self.server.start(has_lost_data=has_lost_data)

    def _saw(self, fact: WatchEvent) -> None:
        self._trace.add(f"{self.name} {fact}")
        self._serving.on_event(fact)
        if self._auctions is not None:
            self._auctions.on_event(fact)
        if self._ring is not None:
            self._ring.on_event(fact)

    def _on_call(self, served: Served) -> None:
        self._trace.add(f"{self.name} {served.node} {served.call} {_gist(served)}")
        self._serving.on_call(served)
        if self._auctions is not None:
            self._auctions.on_call(served)


def _ring_checker(plan: SpacePlan, findings: ViolationLog) -> RingChecker:
    names = tuple(spec.name for spec in plan.specs)
    settings = plan.settings
    return RingChecker(findings, names, vnodes=settings.vnodes, stale_s=STALE_TTLS * settings.ttl_s)


def _gist(served: Served) -> str:
    """Which unit, and how it went. Never the `repr` of a set: its order differs from one interpreter to the next."""
    unit = next((str(arg) for arg in served.args if isinstance(arg, Unit)), "")
    outcome = getattr(served.outcome, "outcome", type(served.outcome).__name__)
    return f"{unit} {outcome}"
