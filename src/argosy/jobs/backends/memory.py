"""Shards in memory, on disks that can be slow, crash and be fenced: for tests and the simulator.

A disk behaves as SlateDB does with its write-ahead log, and loses what SlateDB would lose. Time comes from the event
loop, which the simulator replaces.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

from argosy.base.errors import ArgosyError, Conflict, Fenced, NotFound, Unavailable
from argosy.base.kv import Batch, MemoryKV
from argosy.jobs.ports import Changes, StorageInfo


async def no_delay() -> None:
    """The delay of a disk without delay."""


def delay_of(delay_s: Callable[[], float]) -> Callable[[], Awaitable[None]]:
    """The delay of a disk that takes this time for each batch."""
    return lambda: asyncio.sleep(delay_s())


class MemoryDisk:
    """The part that survives a crash: the durable rows, and which writer has opened them last."""

    def __init__(self, *, delay: Callable[[], Awaitable[None]] = no_delay) -> None:
        self.delay = delay  # awaited for each batch before it is durable
        self.call_error: str | None = None  # if set, every write fails with it
        self._rows = MemoryKV()
        self._writer: DiskKV | None = None

    async def open(self, *, may_serve: Callable[[], bool] = lambda: True) -> "DiskKV":
        """Opens the disk as its one writer, with the durable rows; fences the previous writer."""
        # A copy: what this writer stages is visible to it, and not on the disk before it is durable.
        seen = MemoryKV()
        await seen.write(_batch({key: value async for key, value in self._rows.scan(b"", None)}))
        self._writer = DiskKV(self, seen, may_serve)
        return self._writer

    def crash(self) -> None:
        """Simulates the death of the process: what was not durable is lost, and its calls fail."""
        if self._writer is not None:
            self._writer.fail(Unavailable("the process with this disk has crashed; reopen it"))
            self._writer = None

    def check_writer(self, writer: "DiskKV") -> None:
        # Fencing, as SlateDB does it: the newest opener is the writer.
        if self._writer is not writer:
            raise Fenced("the disk has been opened by another writer")

    async def commit(self, writer: "DiskKV", batch: Batch) -> None:
        self.check_writer(writer)
        if self.call_error is not None:
            raise Unavailable(self.call_error)
        await self._rows.write(batch)


class DiskKV:
    """A writer's view of a disk: the durable rows and those on their way."""

    def __init__(self, disk: MemoryDisk, seen: MemoryKV, may_serve: Callable[[], bool]) -> None:
        self._disk = disk
        self._seen = seen
        self._may_serve = may_serve
        self._failure: ArgosyError | None = None
        self._in_progress: dict[asyncio.Task[None], None] = {}
        self._last: asyncio.Task[None] | None = None

    async def get(self, key: bytes) -> bytes | None:
        self.check_readable()
        return await self._seen.get(key)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.check_readable()
        return await self._seen.get_many(keys)

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        self.check_readable()
        async for pair in self._seen.scan(start, end, limit=limit, reverse=reverse):
            yield pair

    async def write(self, batch: Batch) -> None:
        await asyncio.shield(await self.write_pipelined(dict(batch.ops())))

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        self._check_open()
        batch = _batch(changes)
        await self._seen.write(batch)
        self._last = asyncio.ensure_future(self._until_durable(batch, self._last))
        self._in_progress[self._last] = None
        self._last.add_done_callback(self._on_written)
        return self._last

    async def close(self) -> None:
        if self._in_progress:
            await asyncio.gather(*self._in_progress, return_exceptions=True)
        await self._seen.close()

    def check_readable(self) -> None:
        self._check_open()
        if not self._may_serve():
            raise Unavailable("the lease on this disk may have expired; retry, here or at its new holder")

    def fail(self, failure: ArgosyError) -> None:
        if self._failure is None:
            self._failure = failure

    def _check_open(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))

    async def _until_durable(self, batch: Batch, before: "asyncio.Task[None] | None") -> None:
        # Before the order is awaited: several batches may be on their way at the same time, as in SlateDB.
        await self._disk.delay()
        if before is not None:
            await asyncio.wait([before])  # durable in the order of writes, whatever the delays: SlateDB's log does so
        self._check_open()
        try:
            await self._disk.commit(self, batch)
        except ArgosyError as failure:
            self._failure = self._failure or failure
            raise

    def _on_written(self, task: "asyncio.Task[None]") -> None:
        self._in_progress.pop(task, None)
        with suppress(asyncio.CancelledError):
            task.exception()  # retrieved: the failure is raised to every later caller


def _batch(changes: Changes) -> Batch:
    batch = Batch()
    for key, value in changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return batch


COPY_ROWS = 1000


class MemoryShardStore:
    """Implements the cluster's `ShardStore`."""

    def __init__(self, *, delay: Callable[[], Awaitable[None]] = no_delay) -> None:
        self.disks: dict[str, MemoryDisk] = {}
        self._delay = delay

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = lambda: True) -> DiskKV:
        disk = self.disks.setdefault(shard, MemoryDisk(delay=self._delay))
        return await disk.open(may_serve=may_serve)

    async def clone(self, parent: str, child: str) -> None:
        """Like SlateDB's, it fences a writer that still has the parent open."""
        if parent not in self.disks:
            raise NotFound(f"shard {parent!r} not found")
        if child in self.disks:
            raise Conflict(f"shard {child!r} already exists; delete it first, or choose another id")
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
            raise NotFound(f"shard {shard!r} not found")

    async def storage(self, shard: str) -> StorageInfo:
        if shard not in self.disks:
            raise NotFound(f"shard {shard!r} not found")
        return StorageInfo()

    async def compact(self, shard: str) -> None:
        raise Conflict(f"nothing to compact: shard {shard} is in memory")
