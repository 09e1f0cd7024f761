"""What a world is made of, as data: its spaces, nodes and links, and its schedule of faults.

A schedule says what goes wrong, when and for how long, in seconds of true time. It is drawn from a seed and printed
into the trace. The same plan twice is the same world twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from argosy.base.clock import Random
from argosy.ownership.model import Space, Unit, UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.search.settings import SearchSettings
from argosy.sim.link import Direction, LinkQuality
from argosy.sim.loop import DRIFT_MAX

# -- faults -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crash:
    """SIGKILL; a new process with the same id starts later."""

    at: float
    node: str
    restart_after_s: float | None


@dataclass(frozen=True)
class Pause:
    """SIGSTOP, and SIGCONT later."""

    at: float
    node: str
    for_s: float


@dataclass(frozen=True)
class Partition:
    """Messages between a node and the store are cut off, in both directions or in one."""

    at: float
    node: str
    for_s: float
    directions: tuple[Direction, ...]


@dataclass(frozen=True)
class SlowLink:
    at: float
    node: str
    for_s: float
    factor: float


@dataclass(frozen=True)
class Lag:
    """Many messages of a node arrive late, and out of order."""

    at: float
    node: str
    for_s: float
    chance: float


@dataclass(frozen=True)
class ClockSkew:
    """A time daemon steps a node's wall clock."""

    at: float
    node: str
    step_s: float


@dataclass(frozen=True)
class Outage:
    """The store is unreachable."""

    at: float
    for_s: float
    loses_data: bool


@dataclass(frozen=True)
class Drain:
    """A node departs in order, and a new process starts later."""

    at: float
    node: str
    restart_after_s: float | None


@dataclass(frozen=True)
class Join:
    """A new node starts."""

    at: float
    node: str


Fault = Crash | Pause | Partition | SlowLink | Lag | ClockSkew | Outage | Drain | Join

BOTH = (Direction.UP, Direction.DOWN)


def draw_schedule(
    random: Random, nodes: Sequence[str], newcomers: Sequence[str], *, faults: int, horizon_s: float, ttl_s: float
) -> tuple[Fault, ...]:
    """Random faults that have all ended at `horizon_s`.

    Their spans are drawn around the TTL: shorter ones leave every lease valid, longer ones let all of them expire, and
    the races are in between.
    """
    # In the first half, so that newcomers meet faults.
    schedule: list[Fault] = [Join(random.uniform(0, horizon_s / 2), node) for node in newcomers]
    for _ in range(faults):
        # Not at the very end, where a fault would have no time to do anything.
        at = random.uniform(0, horizon_s * 0.95)
        span_s = min(ttl_s * random.uniform(0.1, 2.5), horizon_s - at)
        schedule.append(_draw_fault(random, random.choice(nodes), at, span_s, ttl_s))
    # By text at the same instant, so that the order is defined.
    return tuple(sorted(schedule, key=lambda fault: (fault.at, str(fault))))


def _draw_fault(random: Random, node: str, at: float, span_s: float, ttl_s: float) -> Fault:
    match random.choice(_KINDS):
        case "crash":
            return Crash(at, node, span_s)
        case "pause":
            return Pause(at, node, span_s)
        case "partition":
            return Partition(at, node, span_s, random.choice([BOTH, BOTH, (Direction.UP,), (Direction.DOWN,)]))
        case "slow":
            return SlowLink(at, node, span_s, random.choice([5.0, 50.0, 500.0]))
        case "lag":
            return Lag(at, node, span_s, random.choice([0.2, 0.5]))
        case "skew":
            return ClockSkew(at, node, random.uniform(-300.0, 300.0))
        case "outage":
            # After a short outage, nodes still serve under leases that a store without its data no longer knows.
            return Outage(at, span_s * random.choice([0.1, 1.0]), loses_data=random.random() < 0.5)
        case "drain":
            return Drain(at, node, span_s)
    raise AssertionError("a kind of fault that cannot be drawn")


# Drawn as often as they are listed. Pauses, partitions and lags come most often, because after them two nodes may
# believe that they hold the same unit.
_KINDS = (*["crash"] * 2, *["pause"] * 3, *["partition"] * 3, *["lag"] * 2, *["outage"] * 2, "slow", "skew", "drain")


# -- worlds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchPlan:
    """How fast search nodes fetch and index repositories, and how these change."""

    budget_bytes: int  # of each node, for repositories alone
    index_bytes_per_s: float
    fetch_bytes_per_s: float
    stream_bytes_per_s: float  # a finished index, from one node to another
    search: SearchSettings = field(default_factory=SearchSettings)
    damage_chance: float = 0.0  # that a check finds an index damaged
    commit_mean_s: float = 0.0  # between two commits anywhere; 0: none
    grows: tuple[float, float] = (1.0, 1.0)  # size of an index after a commit, as a factor of its first size

    def settings(self) -> SearchSettings:
        return replace(self.search, budget_bytes=self.budget_bytes)


@dataclass(frozen=True)
class SpacePlan:
    """One space: its settings have its name and how its units are placed."""

    settings: OwnershipSettings
    specs: tuple[UnitSpec, ...]
    sizes: Mapping[str, int]  # the true bytes, which may be missing in the specs
    warm_failure_chance: float = 0.0
    search: SearchPlan | None = None  # the units are repositories, and real search nodes hold them

    @property
    def space(self) -> Space:
        return Space(self.settings.space, is_auctioned=self.settings.placement == "auction")

    def primaries(self) -> list[Unit]:
        return [Unit(spec.name) for spec in self.specs]


@dataclass(frozen=True)
class WorldPlan:
    """Everything about a world."""

    seed: int
    nodes: tuple[str, ...]
    spaces: tuple[SpacePlan, ...]
    node_bytes: int
    index_bytes_per_s: float
    quality: LinkQuality = field(default_factory=LinkQuality)
    drift_max: float = DRIFT_MAX
    call_timeout_s: float = 10.0
    faults: tuple[Fault, ...] = ()
