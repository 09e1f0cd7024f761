"""The figures of a simulated fleet, by which an operator tunes TTLs, windows and autoscaling."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import msgspec

from argosy.base.errors import Invalid
from argosy.ownership.model import REPLICAS_MAX

MIB = 1 << 20
GROW_MAX = 3.0


@dataclass(frozen=True)
class FleetPlan:
    """What to simulate."""

    repos: int = 500
    nodes: int = 20
    seed: int = 7
    ttl_s: float = 30.0
    window_s: float = 60.0
    max_bids: int | Literal["live"] | None = None  # None and 'live': the members when an auction opens
    kill: int = 1  # nodes that crash, one after another, once everything is served
    headroom: float = 2.0  # memory of the fleet, as a multiple of what all indexes take
    median_mib: float = 40.0  # of one index; sizes are spread log-normally
    index_mib_per_s: float = 20.0
    fetch_mib_per_s: float = 100.0
    stream_mib_per_s: float = 500.0  # of a finished index, from node to node
    replicas: int = 0  # beside the primary of each repo
    commits: float = 0.1  # part of the repos that get new commits once everything is served
    drain: int = 1  # nodes that are drained and started again, after the deaths
    grow: float = 1.2  # one node's indexes grow to this much of its memory; 0: none do

    def __post_init__(self) -> None:
        if not (1 <= self.nodes <= 200 and 1 <= self.repos <= 10_000):
            raise Invalid(
                f"invalid fleet of {self.nodes} nodes and {self.repos} repos; allowed are 1 to 200 and 1 to 10000"
            )
        if not 0 <= self.kill < self.nodes:
            raise Invalid(f"of {self.nodes} nodes at most {self.nodes - 1} can be killed, not {self.kill}")
        if not (0 <= self.drain <= self.nodes and 0 <= self.replicas <= REPLICAS_MAX):
            raise Invalid(
                f"{self.drain} drains of {self.nodes} nodes with {self.replicas} replicas cannot be: at most one drain "
                f"of each node, and {REPLICAS_MAX} replicas"
            )
        if not (0 <= self.commits <= 1 and 0 <= self.grow <= GROW_MAX):
            raise Invalid(f"commits is 0 to 1 and grow 0 to {GROW_MAX}, not {self.commits} and {self.grow}")
        if min(self.ttl_s, self.window_s, self.headroom, self.median_mib) <= 0:
            raise Invalid("ttl, window, headroom and index size must be greater than 0")
        if min(self.index_mib_per_s, self.fetch_mib_per_s, self.stream_mib_per_s) <= 0:
            raise Invalid("the rates of indexing, fetching and streaming must be greater than 0")


@dataclass(frozen=True)
class AuctionFigures:
    started: int
    short_circuited: int  # closed early, because all bids were in
    timed_out: int  # closed at their window's end
    no_winner: int
    bids: int


@dataclass(frozen=True)
class FailoverFigures:
    """From a node's death until each of its repos is served again."""

    kills: int
    repos: int
    p50_s: float | None
    p95_s: float | None
    max_s: float | None
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class RefreshFigures:
    """From a commit until an index that has it is served."""

    commits: int
    p50_s: float | None
    p95_s: float | None
    max_s: float | None


@dataclass(frozen=True)
class EvictionFigures:
    """Indexes evicted for lack of memory, and the time until they were served again."""

    evictions: int
    reclaims: int  # evicted and served again
    p50_s: float | None
    p95_s: float | None
    max_s: float | None


@dataclass(frozen=True)
class DrainFigures:
    """Orderly departures."""

    drains: int
    max_s: float | None  # the longest, from the drain request until the process has exited
    repos: int  # handed off
    unserved: int  # of these, not served for some instant


@dataclass(frozen=True)
class ProvisionCounts:
    """Indexes, by how they were obtained."""

    built: int
    incremental: int
    received: int  # streamed from another node


@dataclass(frozen=True)
class MemoryFigures:
    node_budget_mib: float
    held_mib: dict[str, float]  # by node, of those alive at the end
    variation: float  # standard deviation over mean: 0 is perfectly even


@dataclass(frozen=True)
class FleetReport:
    """Times are seconds of virtual time from the first node's start."""

    plan: FleetPlan
    is_settled: bool
    duration_s: float
    first_owned_s: float | None
    all_owned_s: float | None
    all_ready_s: float | None
    auctions: AuctionFigures
    failover: FailoverFigures
    refresh: RefreshFigures
    evictions: EvictionFigures
    drain: DrainFigures
    provisioned: ProvisionCounts
    moves: int  # leases granted to another node than the previous one
    memory: MemoryFigures
    store_calls: int
    store_calls_per_node_s: float
    owned: tuple[tuple[float, int, int], ...]  # time, repos owned, repos ready
    scale: tuple[tuple[float, int, int], ...]  # time, desired nodes, current nodes
    violations: tuple[str, ...]
    fingerprint: str  # of the whole run: equal runs have equal fingerprints

    def to_json(self) -> bytes:
        """The same report is always the same bytes."""
        # Fields are encoded in the order of their declaration.
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


def failover_figures(kills: int, times_s: Sequence[float]) -> FailoverFigures:
    ordered = tuple(round(t, 3) for t in sorted(times_s))
    return FailoverFigures(kills, len(ordered), *spread_of(ordered), ordered)


def spread_of(times_s: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Median, 95 of 100, longest."""
    ordered = [round(t, 3) for t in sorted(times_s)]
    return percentile(ordered, 0.5), percentile(ordered, 0.95), percentile(ordered, 1.0)


def memory_figures(budget_bytes: int, held_bytes: dict[str, int]) -> MemoryFigures:
    held = {node: round(size / MIB, 1) for node, size in held_bytes.items()}
    mean = sum(held_bytes.values()) / max(1, len(held_bytes))
    spread = sqrt(sum((size - mean) ** 2 for size in held_bytes.values()) / max(1, len(held_bytes)))
    return MemoryFigures(round(budget_bytes / MIB, 1), held, round(spread / mean, 4) if mean else 0.0)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest value at or above the share; None of nothing."""
    if not ordered:
        return None
    # The ceiling, as the negated floor.
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
