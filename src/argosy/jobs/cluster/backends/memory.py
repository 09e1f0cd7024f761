"""Shards on disks in memory, which several nodes of one process share: for tests and for the simulated world."""

from collections.abc import Awaitable, Callable

from argosy.base.errors import Conflict, NotFound
from argosy.base.kv import Batch
from argosy.jobs.backends.memory import DiskKV, MemoryDisk, at_once
from argosy.jobs.broker import StorageInfo

COPY_ROWS = 1000


class MemoryShardStore:
    """Implements the cluster's `ShardStore`."""

    def __init__(self, *, delay: Callable[[], Awaitable[None]] = at_once) -> None:
        self.disks: dict[str, MemoryDisk] = {}
        self._delay = delay

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = lambda: True) -> DiskKV:
        disk = self.disks.setdefault(shard, MemoryDisk(delay=self._delay))
        return await disk.open(may_serve=may_serve)

    async def clone(self, parent: str, child: str) -> None:
        """As SlateDB does it, this fences whoever still has the parent open."""
        if parent not in self.disks:
            raise NotFound(f"there is no shard {parent!r} to clone")
        if child in self.disks:
            raise Conflict(f"there is a shard {child!r} already: delete it first, or choose another id")
        rows = await self.disks[parent].open()
        copy = await self.shard(child)
        batch = Batch()
        async for key, value in rows.scan(b"\x00", None):
            batch.put(key, value)
            if len(batch) >= COPY_ROWS:
                await copy.write(batch)
                batch = Batch()
        await copy.write(batch)
        await copy.close()
        await rows.close()

    async def shards(self) -> list[str]:
        return sorted(self.disks)

    async def delete(self, shard: str) -> None:
        if self.disks.pop(shard, None) is None:
            raise NotFound(f"there is no shard {shard!r} to delete")

    async def storage(self, shard: str) -> StorageInfo:
        if shard not in self.disks:
            raise NotFound(f"there is no shard {shard!r}")
        return StorageInfo()

    async def compact(self, shard: str) -> None:
        raise Conflict(f"shard {shard} lies in memory: there is nothing to merge")
