"""Fetches the entries of an advertisement ahead of their storage.

While one chunk is stored, the next is fetched and decoded. Large blocks are decoded in a thread, so that finds are not
delayed. The number of batches and of blocks read ahead is bounded, and so is the total: a tree whose branches lead to
the same blocks again and again ends like any other.
"""

import asyncio
from collections.abc import AsyncGenerator

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.entries import EntryChunk, HamtNode, decode_chunk, decode_entries, decode_node
from argosy.ipni.indexer.ingest_state import EntriesProgress, EntryBatch
from argosy.ipni.ports import PublisherSource

STEPS_AHEAD = 2  # decoded and not yet stored
BLOCKS_AHEAD = 8  # of a HAMT, whose blocks are small and known before they are needed
HAMT_STEP = 4096  # multihashes of a HAMT that are stored at a time
LEFT_MAX = 65_536  # blocks of a HAMT that may wait to be read
THREAD_BYTES = 128 << 10  # decoding less takes less time than changing threads

Failure = tuple[Exception]  # passes the error through the queue, after the batches before it


class EntriesPrefetcher:
    """Reads the entries of one advertisement after another; see `apply_ad.EntriesReader`."""

    def __init__(self, *, blocks_max: int) -> None:
        self._blocks_max = blocks_max

    async def read(self, source: PublisherSource, progress: EntriesProgress) -> AsyncGenerator[EntryBatch]:
        # The bound is the back pressure: a slow store stops the fetching, so memory holds a few blocks of at most 4
        # MiB.
        steps: asyncio.Queue[EntryBatch | Failure] = asyncio.Queue(STEPS_AHEAD)
        reading = asyncio.ensure_future(_EntriesReader(source, progress, self._blocks_max).run(steps))
        try:
            while True:
                step = await steps.get()
                if isinstance(step, tuple):
                    raise step[0]
                yield step
                if not step.left:
                    return
        finally:  # also when the consumer stops, at a freeze for one
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class _EntriesReader:
    """One advertisement's entries, depth first."""

    def __init__(self, source: PublisherSource, progress: EntriesProgress, blocks_max: int) -> None:
        self._source = source
        self._left = list(progress.left)
        self._blocks = progress.blocks
        self._is_hamt = progress.is_hamt
        self._blocks_max = blocks_max
        self._fetches: dict[Cid, asyncio.Future[bytes]] = {}

    async def run(self, steps: "asyncio.Queue[EntryBatch | Failure]") -> None:
        try:
            while self._left:
                await steps.put(await self._step())
        # Any error, also a bug: it is raised in the consumer, and not lost with the task.
        except Exception as failure:
            await steps.put((failure,))
        finally:
            for fetch in self._fetches.values():
                fetch.cancel()
            await asyncio.gather(*self._fetches.values(), return_exceptions=True)

    async def _step(self) -> EntryBatch:
        """One chunk, or enough blocks of a HAMT for a worthwhile batch."""
        step = EntryBatch([], (), 0)
        while self._left:
            block = await self._block(step)
            step.multihashes += block.multihashes
            step.bad += block.skipped
            step.blocks += 1
            if isinstance(block, EntryChunk):
                self._left += [] if block.next is None else [block.next]
            else:
                self._is_hamt = step.is_hamt = True
                self._left += reversed(block.children)  # the last is read next: depth first keeps the list short
                if len(self._left) > LEFT_MAX:
                    raise Invalid(f"more than {LEFT_MAX} blocks of the HAMT are still to be read: publish smaller ones")
            self._fetch_ahead()
            if not self._is_hamt or len(step.multihashes) >= HAMT_STEP:
                break
        step.left = tuple(self._left)
        return step

    async def _block(self, step: EntryBatch) -> EntryChunk | HamtNode:
        if self._blocks >= self._blocks_max:
            raise Invalid(f"the entries have more than {self._blocks_max} blocks: publish several advertisements")
        is_first = self._blocks == 0
        self._blocks += 1
        cid = self._left.pop()
        fetch = self._fetches.pop(cid, None)
        data = await (fetch if fetch is not None else self._source.block(cid, is_entries=True))
        step.bytes_read += len(data)
        # Only the first block tells whether the entries are a list of chunks or a HAMT; the rest must be of the same
        # kind.
        decode = decode_entries if is_first else decode_node if self._is_hamt else decode_chunk
        return await asyncio.to_thread(decode, cid, data) if len(data) >= THREAD_BYTES else decode(cid, data)

    def _fetch_ahead(self) -> None:
        # Never beyond the limit on blocks: what would be rejected is not fetched either.
        ahead = min(BLOCKS_AHEAD, self._blocks_max - self._blocks)
        for cid in self._left[-ahead:] if ahead > 0 else ():
            if cid not in self._fetches and len(self._fetches) < BLOCKS_AHEAD:
                self._fetches[cid] = asyncio.ensure_future(self._source.block(cid, is_entries=True))
