"""Fault schedules: what goes wrong, when, and for how long; drawn from a seed, printable, replayable.

Times are true time in seconds. A schedule is data: the world carries it out, and the same schedule twice is the same
world twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.sim.link import Direction


@dataclass(frozen=True)
class Crash:
    """SIGKILL; a new run with the same id begins later."""

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
    """A node and the store no longer hear each other; or only one of them no longer hears the other."""

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
    """The store is away."""

    at: float
    for_s: float
    loses_data: bool


@dataclass(frozen=True)
class Drain:
    """A node is asked to leave in good order, and a new run comes back later."""

    at: float
    node: str
    restart_after_s: float | None


@dataclass(frozen=True)
class Join:
    """A node that was not there before starts."""

    at: float
    node: str


Fault = Crash | Pause | Partition | SlowLink | Lag | ClockSkew | Outage | Drain | Join

BOTH = (Direction.UP, Direction.DOWN)


def draw_schedule(
    random: Random, nodes: Sequence[str], newcomers: Sequence[str], *, faults: int, horizon_s: float, ttl_s: float
) -> tuple[Fault, ...]:
    """Random faults that have all ended at `horizon_s`. Spans are drawn around the TTL, where the danger is."""
    schedule: list[Fault] = [Join(random.uniform(0, horizon_s / 2), node) for node in newcomers]
    for _ in range(faults):
        at = random.uniform(0, horizon_s * 0.95)
        span_s = min(ttl_s * random.uniform(0.1, 2.5), horizon_s - at)
        schedule.append(_draw_fault(random, random.choice(nodes), at, span_s, ttl_s))
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
            # After a short one, the nodes still serve what a forgetful store no longer knows of.
            return Outage(at, span_s * random.choice([0.1, 1.0]), loses_data=random.random() < 0.5)
        case "drain":
            return Drain(at, node, span_s)
    raise AssertionError("a kind of fault that cannot be drawn")


# As often as they are named: in pauses, partitions and lags two nodes come to believe the same thing.
_KINDS = (*["crash"] * 2, *["pause"] * 3, *["partition"] * 3, *["lag"] * 2, *["outage"] * 2, "slow", "skew", "drain")
