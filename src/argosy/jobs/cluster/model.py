"""The nouns of the cluster that are of no wire."""

from dataclasses import dataclass
from enum import StrEnum

from argosy.jobs.model import LeasedRefresh, LeasedTask


class SplitPhase(StrEnum):
    """How far a split has come. It only moves forward, or is forgotten."""

    REQUESTED = "SplitRequested"
    PAUSING = "SplitPausing"
    CLONING = "SplitCloning"
    DONE = ""  # as for a shard that was never split


class Cleanup(StrEnum):
    """How far a shard is with deleting what belongs to its sibling."""

    PENDING = "CleanupPending"
    RUNNING = "CleanupRunning"
    DONE = "CompactionDone"  # or there never was anything to clean


@dataclass(frozen=True)
class Split:
    """A split under way here, or the latest one of a shard."""

    shard_id: str
    phase: SplitPhase
    left: str  # the ids of the children; "" as long as no try is under way here
    right: str
    point: str  # the first hash of the right child
    requested_at: int  # milliseconds since the epoch
    node: str  # that was asked


@dataclass(frozen=True)
class ShardLeases:
    """What one shard handed out in a poll over all of a node."""

    shard_id: str
    tasks: list[LeasedTask]
    refreshes: list[LeasedRefresh]
