"""What a node needs: a store for the rows of shards, and one for the shard map."""

from collections.abc import Callable
from typing import Protocol

from argosy.jobs.broker import StorageInfo
from argosy.jobs.cluster.shardmap import ShardMap
from argosy.jobs.ports import PipelinedKV


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


class ShardMapStore(Protocol):
    """Versions of the map, each written once. All nodes see the same map under the same number."""

    async def newest(self, known: int = 0) -> ShardMap | None:
        """The newest version, or None if none is newer than `known`."""
        ...

    async def add(self, shards: ShardMap) -> None:
        """Stores a version durably; Conflict if that number exists."""
        ...
