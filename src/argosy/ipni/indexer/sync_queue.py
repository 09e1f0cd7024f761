"""What keeps an indexer's many syncs apart: one per publisher, one per provider, and none past a closing gate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from argosy.base.errors import Unavailable
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Peer


class FreezeGate:
    """Everything that is stored passes here; freezing shuts it and waits until nobody is inside.

    So what is written down at a freeze is exact: no advertisement is halfway between stored and counted. Before each
    passing the usage is looked at, for a batch may be the one that fills the disk.
    """

    def __init__(self, is_full: Callable[[], bool], on_freeze: Callable[[], Awaitable[None]]) -> None:
        self.is_frozen = False
        self._is_full = is_full
        self._on_freeze = on_freeze
        self._inside = 0
        self._is_closing = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = asyncio.Lock()

    async def is_open(self) -> bool:
        if not self.is_frozen and not self._is_closing and self._is_full():
            await self.freeze()
        if self._is_closing:
            async with self._closing:  # until the freeze is on disk
                pass
        return not self.is_frozen

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[bool]:
        if not await self.is_open():
            yield False
            return
        self._inside += 1
        self._empty.clear()
        try:
            yield True
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    async def freeze(self) -> None:
        """Once; if it cannot be written down the gate opens again."""
        async with self._closing:
            if self.is_frozen:
                return
            self._is_closing = True
            try:
                await self._empty.wait()
                await self._on_freeze()
                self.is_frozen = True
            finally:
                self._is_closing = False


@dataclass(frozen=True)
class SyncRequest:
    """A chain to be followed: up to `head`, or to whatever the publisher says its head is."""

    publisher: Peer
    head: Cid | None = None
    depth: int = 0  # 0: as the settings say, -1: all of it
    is_resync: bool = False
    is_manual: bool = False


class SyncQueue:
    """One sync per publisher at a time; while it runs the newest wish waits, and takes the place of older ones."""

    def __init__(self, run: Callable[[SyncRequest], Awaitable[None]], *, waiting_max: int) -> None:
        self._run = run
        self._waiting_max = waiting_max
        self._waiting: dict[str, SyncRequest] = {}
        self._running: dict[str, tuple[SyncRequest, asyncio.Task[None]]] = {}
        self._is_closed = False

    def ask(self, wish: SyncRequest) -> None:
        publisher = wish.publisher.id
        if self._is_closed:
            raise Unavailable("the indexer is stopping: announce again later")
        if publisher in self._running:
            self._waiting[publisher] = _newer(self._waiting.get(publisher), wish)
        elif len(self._running) >= self._waiting_max:
            raise Unavailable(f"{self._waiting_max} publishers are waiting already: announce again later")
        else:
            self._start(wish)

    def is_busy(self, publisher: str) -> bool:
        return publisher in self._running

    def running(self) -> Sequence[SyncRequest]:
        return [wish for wish, _ in self._running.values()]

    async def idle(self, publisher: str) -> None:
        """Returns when nothing runs or waits for the publisher."""
        while (running := self._running.get(publisher)) is not None:
            await asyncio.wait([running[1]])

    async def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self, publisher: str) -> None:
        """Breaks off what runs for the publisher, and forgets what waits."""
        self._waiting.pop(publisher, None)
        running = self._running.get(publisher)
        if running is not None:
            running[1].cancel()
            await asyncio.gather(running[1], return_exceptions=True)

    def _start(self, wish: SyncRequest) -> None:
        task = asyncio.ensure_future(self._run(wish))
        self._running[wish.publisher.id] = (wish, task)
        task.add_done_callback(lambda done: self._ended(wish.publisher.id, done))

    def _ended(self, publisher: str, task: "asyncio.Task[None]") -> None:
        del self._running[publisher]
        waiting = self._waiting.pop(publisher, None)
        if waiting is not None and not self._is_closed:
            self._start(waiting)
        if not task.cancelled() and task.exception() is not None:
            task.get_loop().call_exception_handler(
                {"message": f"syncing publisher {publisher} failed", "exception": task.exception(), "task": task}
            )


def _newer(waiting: SyncRequest | None, wish: SyncRequest) -> SyncRequest:
    """The newest; but what an operator asked for is not displaced by an announcement."""
    return waiting if waiting is not None and waiting.is_manual and not wish.is_manual else wish
