"""One space of a simulated world: its store, the store's machine, and the checkers that watch them."""

from collections.abc import Callable

from argosy.base.clock import Random
from argosy.ownership.backends.memory import MemoryStore
from argosy.ownership.effects import ServingChange
from argosy.ownership.events import Fact
from argosy.ownership.model import Unit
from argosy.sim.checkers import AuctionChecker, Findings, RingChecker, ServingChecker
from argosy.sim.clocks import SimClock
from argosy.sim.link import Link
from argosy.sim.network import Served, StoreServer
from argosy.sim.plan import SpacePlan, WorldPlan
from argosy.sim.trace import Trace

STALE_TTLS = 4.0            # a message may be two TTLs late, and leave a node that is cut off for as long


class SimSpace:
    """The server's side of one space."""

    def __init__(
        self, plan: SpacePlan, world: WorldPlan, findings: Findings, trace: Trace, dice: Callable[[str], Random]
    ) -> None:
        self.plan = plan
        self.name = plan.space.name
        self.failure_chance = plan.warm_failure_chance
        random = dice(f"store {self.name}")
        clock = SimClock(findings.true_now, drift=random.uniform(-world.drift_max, world.drift_max))
        self.store = MemoryStore(plan.space, clock=clock, random=random, grace_s=plan.settings.grace)
        self.server = StoreServer(self.store, random)
        self._trace = trace
        self._serving = ServingChecker(findings, clock)
        self._auctions = AuctionChecker(findings, self.store) if plan.space.is_auctioned else None
        self._ring = _ring_checker(plan, findings) if plan.settings.placement == "ring" else None
        self.store.observers.append(self._saw)
        self.server.taps.append(self._tapped)

    def serving_changed(self, node: str, clock: SimClock, change: ServingChange) -> None:
        self._trace.add(f"{self.name} {node} says {change}")
        self._serving.changed(node, clock, change)

    def answered(self, unit: Unit, epochs: dict[str, int]) -> None:
        self._serving.answered(unit, epochs)

    def node_died(self, node: str, link: Link) -> None:
        self._serving.died(node)
        for stream in list(self.server.streams):
            if stream.link is link:
                stream.abandon()

    def stop(self) -> None:
        self.server.stop()

    def start(self, *, has_lost_data: bool) -> None:
        if has_lost_data:
            for checker in (self._serving, self._auctions, self._ring):
                if checker is not None:
                    checker.lost_data()
        self.server.start(has_lost_data=has_lost_data)

    def _saw(self, fact: Fact) -> None:
        self._trace.add(f"{self.name} {fact}")
        self._serving.saw(fact)
        if self._auctions is not None:
            self._auctions.saw(fact)
        if self._ring is not None:
            self._ring.saw(fact)

    def _tapped(self, served: Served) -> None:
        self._trace.add(f"{self.name} {served.node} {served.call} {_gist(served)}")
        self._serving.tapped(served)
        if self._auctions is not None:
            self._auctions.tapped(served)


def _ring_checker(plan: SpacePlan, findings: Findings) -> RingChecker:
    names = tuple(spec.name for spec in plan.specs)
    settings = plan.settings
    return RingChecker(findings, names, vnodes=settings.vnodes, stale_s=STALE_TTLS * settings.ttl_s)


def _gist(served: Served) -> str:
    """Which unit, and how it went. Never the `repr` of a set: its order differs from one interpreter to the next."""
    unit = next((str(arg) for arg in served.args if isinstance(arg, Unit)), "")
    outcome = getattr(served.outcome, "outcome", type(served.outcome).__name__)
    return f"{unit} {outcome}"
