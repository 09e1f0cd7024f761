"""The threads of a search node: builds, transfers and verifications, away from the event loop and from the threads
that search.

A thread cannot be stopped from outside. A cancelled call waits until its thread has noticed the cancellation: until
then the thread may still read the source, and its slot is not free.
"""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import numpy as np

from argosy.base.errors import ArgosyError, Unavailable
from argosy.search.documents import Source
from argosy.search.fleet.events import IndexStats
from argosy.search.index.build import build
from argosy.search.index.index import Index, Part
from argosy.search.index.sections import Damage, memory_bytes, verify
from argosy.search.index.wire import CHUNK_BYTES, load
from argosy.search.settings import SearchSettings
from argosy.search.skip_policy import Policy

# Of an index being received, waiting for the loading thread: bounds the memory of a transfer whose sender is faster.
CHUNKS_MAX = 8
STALL_S = 30.0  # a sender that is silent for so long has failed

T = TypeVar("T")


class _Cancelled(Exception):
    """Ends a build whose call was cancelled."""


class BuildExecutor:
    """Builds, loads and verifies indexes in threads."""

    def __init__(self, settings: SearchSettings) -> None:
        self._policy = Policy(size_bytes_max=settings.file_bytes_max)
        self._with_symbols = settings.with_symbols
        threads = settings.builds_max + settings.fetches_max + 2  # one each for a verification and a snapshot
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="index")

    @property
    def recipe(self) -> str:
        """Identifies how indexes are built here: indexes of one recipe are interchangeable."""
        return f"{self._policy} {self._with_symbols}"

    async def build(self, source: Source, previous: Index | None, progress: Callable[[float], None]) -> Index:
        """Builds an index, reusing unchanged segments of `previous`. A cancellation takes effect within about 1 MiB of
        text."""
        is_cancelled = threading.Event()

        def on_progress(done_bytes: int, total_bytes: int) -> None:
            if is_cancelled.is_set():
                raise _Cancelled
            progress(done_bytes / total_bytes if total_bytes else 1.0)

        return await self.run(
            lambda: build(
                source, self._policy, previous=previous, progress=on_progress, with_symbols=self._with_symbols
            ),
            is_cancelled.set,
        )

    async def receive(self, chunks: AsyncIterator[bytes]) -> Index:
        """Loads an index from a stream. It is verified on arrival; anything but one whole sound index is rejected."""
        buffer = _ChunkBuffer(asyncio.get_running_loop())
        filling = asyncio.ensure_future(buffer.fill(chunks))
        try:
            return await self.run(lambda: load(buffer), buffer.end)
        except ArgosyError:
            if filling.done() and not filling.cancelled() and (why := filling.exception()) is not None:
                raise why from None  # the broken stream is the cause, the incomplete index only its consequence
            raise
        finally:
            # The connection belongs to this transfer, whichever side has failed.
            filling.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await filling
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()  # closes the connection behind it

    def measure(self, index: Index, *, fetch_time_ms: float = 0.0, index_time_ms: float = 0.0) -> IndexStats:
        """Size and contents of an index. Deleted documents take memory but are not counted as documents."""
        return IndexStats(
            memory_bytes=memory_bytes(index),
            branches=index.repository.branches,
            documents=sum(int(np.count_nonzero(part.branches)) for part in index.parts),
            content_bytes=sum(map(_live_bytes, index.parts)),
            fetch_time_ms=fetch_time_ms,
            index_time_ms=index_time_ms,
        )

    async def verify(self, index: Index) -> list[Damage]:
        return await self.run(lambda: verify(index))

    async def run(self, work: Callable[[], T], on_cancel: Callable[[], None] = lambda: None) -> T:
        """Runs work in a thread. A cancellation calls `on_cancel` and waits until the thread has ended."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # A thread cannot be interrupted: `on_cancel` asks the work to stop, and its slot is free only when it has.
            on_cancel()
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # retrieved, so that asyncio does not log it
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _ChunkBuffer:
    """A bounded buffer of chunks between the event loop and a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._capacity = asyncio.Semaphore(CHUNKS_MAX)
        # The thread may block in `get`, the event loop must not block in `put`: so the semaphore bounds it.
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    async def fill(self, chunks: AsyncIterator[bytes]) -> None:
        """Puts all chunks into the buffer. Small ones are joined, because each `put` wakes the thread."""
        pending = bytearray()
        try:
            while (chunk := await _next_chunk(chunks)) is not None:
                pending += chunk
                if len(pending) >= CHUNK_BYTES:
                    await self._put(bytes(pending))
                    pending.clear()
            if pending:
                await self._put(bytes(pending))
        finally:
            self.end()

    def end(self) -> None:
        self._chunks.put(None)

    def __iter__(self) -> Iterator[bytes]:
        """Called in the thread."""
        while (chunk := self._chunks.get()) is not None:
            self._loop.call_soon_threadsafe(self._capacity.release)
            yield chunk

    async def _put(self, chunk: bytes) -> None:
        await self._capacity.acquire()
        self._chunks.put(chunk)


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    try:
        async with asyncio.timeout(STALL_S):
            return await anext(chunks, None)
    except TimeoutError:
        raise Unavailable(f"receiving the index timed out: the sender was silent for {STALL_S:g} s") from None


def _live_bytes(part: Part) -> int:
    lengths = np.diff(part.segment.content.starts.astype(np.int64)) - 1  # without the NUL after each document
    return int(lengths[part.branches != 0].sum())
