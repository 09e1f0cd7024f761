"""Values of the cluster that are part of no wire format."""

from dataclasses import dataclass
from enum import StrEnum

from argosy.jobs.model import LeasedRefresh, LeasedTask


class SplitPhase(StrEnum):
    """The phase of a split. It only advances."""

    REQUESTED = "SplitRequested"
    PAUSING = "SplitPausing"
    CLONING = "SplitCloning"
    DONE = ""  # as for a shard that was never split


class Cleanup(StrEnum):
    """The phase of deleting the sibling's rows after a split."""

    PENDING = "CleanupPending"
    RUNNING = "CleanupRunning"
    DONE = "CompactionDone"  # or there never was anything to clean


@dataclass(frozen=True)
class Split:
    """A split in progress on this node, or the latest one of a shard."""

    shard_id: str
    phase: SplitPhase
    left: str  # the ids of the children; "" as long as no try is under way here
    right: str
    point: str  # the first hash of the right child
    requested_at: int  # milliseconds since the epoch
    node: str  # that was asked


@dataclass(frozen=True)
class ShardLeases:
    """Tasks leased from one shard in a poll over all shards of a node."""

    shard_id: str
    tasks: list[LeasedTask]
    refreshes: list[LeasedRefresh]
