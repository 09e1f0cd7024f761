"""The threads of a search node: builds, arrivals and checks, away from the loop and from the threads that search.

A thread cannot be stopped from outside. Whoever gives work up waits here until it has noticed, so that nothing that it
reads is taken away under it, and no place is free before it is.
"""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from argosy.base.errors import ArgosyError, Unavailable
from argosy.search.documents import Source
from argosy.search.fleet.events import IndexStats
from argosy.search.fleet.figures import figures_of
from argosy.search.index.build import build
from argosy.search.index.checksums import Damage, verify
from argosy.search.index.index import Index
from argosy.search.index.wire import CHUNK_BYTES, load
from argosy.search.settings import SearchSettings
from argosy.search.skip_policy import Policy

CHUNKS_MAX = 8  # of an arriving index, waiting to be unpacked
STALL_S = 30.0  # a sender that is silent for so long is given up

T = TypeVar("T")


class _GivenUp(Exception):
    """Ends a build whose result nobody wants any more."""


class BuildExecutor:
    """Makes and checks indexes."""

    def __init__(self, settings: SearchSettings) -> None:
        self._policy = Policy(size_bytes_max=settings.file_bytes_max)
        self._with_symbols = settings.with_symbols
        threads = settings.builds_max + settings.fetches_max + 2  # a check and a snapshot beside them
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="library")

    @property
    def recipe(self) -> str:
        """How indexes are made here, in a word that differs whenever they would."""
        return f"{self._policy} {self._with_symbols}"

    async def build(self, source: Source, previous: Index | None, progress: Callable[[float], None]) -> Index:
        """Cancelling ends it within about a mebibyte of text."""
        is_given_up = threading.Event()

        def told(done_bytes: int, total_bytes: int) -> None:
            if is_given_up.is_set():
                raise _GivenUp
            progress(done_bytes / total_bytes if total_bytes else 1.0)

        return await self.run(
            lambda: build(source, self._policy, previous=previous, progress=told, with_symbols=self._with_symbols),
            is_given_up.set,
        )

    async def receive(self, chunks: AsyncIterator[bytes]) -> Index:
        """The index that arrives; it is checked on the way in, and anything but one whole sound index is refused."""
        belt = _Belt(asyncio.get_running_loop())
        filling = asyncio.ensure_future(belt.fill(chunks))
        try:
            return await self.run(lambda: load(belt), belt.end)
        except ArgosyError:
            if filling.done() and not filling.cancelled() and (why := filling.exception()) is not None:
                raise why from None  # that it is incomplete is the consequence
            raise
        finally:
            filling.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await filling
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()  # a connection may stand behind it

    def weigh(self, index: Index, *, fetch_time_ms: float = 0.0, index_time_ms: float = 0.0) -> IndexStats:
        return figures_of(index, fetch_time_ms=fetch_time_ms, index_time_ms=index_time_ms)

    async def verify(self, index: Index) -> list[Damage]:
        return await self.run(lambda: verify(index))

    async def run(self, work: Callable[[], T], give_up: Callable[[], None] = lambda: None) -> T:
        """In a thread; when cancelled, `give_up` is called and the thread's end awaited."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            give_up()
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # looked at, so that nobody is told of it
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Belt:
    """Chunks on their way from the loop to a thread, a few at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._room = asyncio.Semaphore(CHUNKS_MAX)
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    async def fill(self, chunks: AsyncIterator[bytes]) -> None:
        """Puts everything on the belt. What comes in crumbs is gathered, because each hand-over wakes a thread."""
        gathered = bytearray()
        try:
            while (chunk := await _next(chunks)) is not None:
                gathered += chunk
                if len(gathered) >= CHUNK_BYTES:
                    await self._put(bytes(gathered))
                    gathered.clear()
            if gathered:
                await self._put(bytes(gathered))
        finally:
            self.end()

    def end(self) -> None:
        self._chunks.put(None)

    def __iter__(self) -> Iterator[bytes]:
        """In the thread."""
        while (chunk := self._chunks.get()) is not None:
            self._loop.call_soon_threadsafe(self._room.release)
            yield chunk

    async def _put(self, chunk: bytes) -> None:
        await self._room.acquire()
        self._chunks.put(chunk)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    try:
        async with asyncio.timeout(STALL_S):
            return await anext(chunks, None)
    except TimeoutError:
        raise Unavailable(f"the sender was silent for {STALL_S:g} s: it may be gone") from None
