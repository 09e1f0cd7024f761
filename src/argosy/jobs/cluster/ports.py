"""What a node of the cluster needs: a place for the rows of shards, and one for the map of shards."""

from collections.abc import Callable
from typing import Protocol

from argosy.jobs.broker import StorageInfo
from argosy.jobs.cluster.shardmap import ShardMap
from argosy.jobs.ports import PipelinedKV


class ShardStore(Protocol):
    """The rows of all shards. Opening one makes the opener its writer, and the writer before it Fenced."""

    async def shard(self, shard: str, *, may_serve: Callable[[], bool]) -> PipelinedKV: ...

    async def clone(self, parent: str, child: str) -> None:
        """Makes `child` with all rows of the parent, which must have been closed in good order."""
        ...

    async def shards(self) -> list[str]:
        """The ids of those that have been opened at least once."""
        ...

    async def delete(self, shard: str) -> None:
        """NotFound if there is none; Conflict while another still reads its tables."""
        ...

    async def storage(self, shard: str) -> StorageInfo:
        """The tables that its rows lie in."""
        ...

    async def compact(self, shard: str) -> None:
        """Asks for all tables to be merged into one; Conflict if there is nothing to merge."""
        ...


class ShardMapStore(Protocol):
    """The versions of the map, each written once. All nodes see the same one under the same number."""

    async def newest(self, known: int = 0) -> ShardMap | None:
        """The newest version, or None if none is newer than `known`."""
        ...

    async def add(self, shards: ShardMap) -> None:
        """Keeps a version for good; Conflict if there is one of that number already, whoever wrote it."""
        ...
