"""What the cluster needs from outside (the store of all shards), and the values that describe a split."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from argosy.jobs.ports import PipelinedKV, StorageInfo


class ShardStore(Protocol):
    """The rows of all shards. Opening one makes the caller its writer and fences the previous writer."""

    async def shard(self, shard: str, *, may_serve: Callable[[], bool]) -> PipelinedKV: ...

    async def clone(self, parent: str, child: str) -> None:
        """Creates `child` with all rows of the parent, which must have been closed cleanly."""
        ...

    async def shards(self) -> list[str]:
        """The ids of all shards that have been opened at least once."""
        ...

    async def delete(self, shard: str) -> None:
        """NotFound if there is none; Conflict while a clone still reads its tables."""
        ...

    async def storage(self, shard: str) -> StorageInfo:
        """The tables that hold its rows."""
        ...

    async def compact(self, shard: str) -> None:
        """Requests a merge of all tables; Conflict if there is nothing to merge."""
        ...


class SplitPhase(StrEnum):
    """The phase of a split. It only advances."""

    REQUESTED = "SplitRequested"
    PAUSING = "SplitPausing"
    CLONING = "SplitCloning"
    DONE = ""  # as for a shard that was never split


@dataclass(frozen=True)
class Split:
    """A split in progress on this node, or the latest one of a shard."""

    shard_id: str
    phase: SplitPhase
    left: str  # the ids of the children; "" while no node has started an attempt
    right: str
    point: str  # the first hash of the right child
    requested_at: int  # milliseconds since the epoch
    node: str  # that accepted the request
