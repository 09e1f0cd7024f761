"""Queue of syncs, one running per publisher, and the filters of announcements."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from argosy.base.cache import Cache
from argosy.base.errors import Forbidden, Unavailable
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Peer


@dataclass(frozen=True)
class SyncRequest:
    """A chain to sync: up to `head`, or to the publisher's current head."""

    publisher: Peer
    head: Cid | None = None
    depth: int = 0  # 0: as the settings say, -1: all of it
    is_resync: bool = False
    is_manual: bool = False


class SyncQueue:
    """Runs one sync per publisher at a time; a newer request replaces the waiting one.

    This is not base's KeyedWorkQueue: callers list the running requests (`syncs`), and wait for and stop a single
    publisher.
    """

    def __init__(self, run: Callable[[SyncRequest], Awaitable[None]], *, waiting_max: int) -> None:
        self._run = run
        self._waiting_max = waiting_max
        self._waiting: dict[str, SyncRequest] = {}
        self._running: dict[str, tuple[SyncRequest, asyncio.Task[None]]] = {}
        self._is_closed = False

    def submit(self, request: SyncRequest) -> None:
        publisher = request.publisher.id
        if self._is_closed:
            raise Unavailable("the indexer is stopping: announce again later")
        if publisher in self._running:
            self._waiting[publisher] = _newer(self._waiting.get(publisher), request)
        elif len(self._running) >= self._waiting_max:
            raise Unavailable(f"{self._waiting_max} publishers are waiting already: announce again later")
        else:
            self._start(request)

    def is_busy(self, publisher: str) -> bool:
        return publisher in self._running

    def running(self) -> Sequence[SyncRequest]:
        return [request for request, _ in self._running.values()]

    async def wait_idle(self, publisher: str) -> None:
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
        """Cancels the publisher's sync and drops its waiting request."""
        self._waiting.pop(publisher, None)
        running = self._running.get(publisher)
        if running is not None:
            running[1].cancel()
            await asyncio.gather(running[1], return_exceptions=True)

    def _start(self, request: SyncRequest) -> None:
        task = asyncio.ensure_future(self._run(request))
        self._running[request.publisher.id] = (request, task)
        task.add_done_callback(lambda done: self._on_done(request.publisher.id, done))

    def _on_done(self, publisher: str, task: "asyncio.Task[None]") -> None:
        del self._running[publisher]
        waiting = self._waiting.pop(publisher, None)
        if waiting is not None and not self._is_closed:
            self._start(waiting)
        if not task.cancelled() and task.exception() is not None:
            task.get_loop().call_exception_handler(
                {"message": f"syncing publisher {publisher} failed", "exception": task.exception(), "task": task}
            )


def _newer(waiting: SyncRequest | None, request: SyncRequest) -> SyncRequest:
    """The newest request; an announcement does not replace an operator's request."""
    return waiting if waiting is not None and waiting.is_manual and not request.is_manual else request


RECENT_MAX = 64  # heads remembered, so that repeated announcements cause no traffic
PAUSED_MAX = 10_000
TRIAL_S = 300.0  # after its pause a publisher gets one trial per this interval, until one succeeds


class RecentHeads:
    """Recently announced heads; a head whose sync failed is removed, so that announcing it again works."""

    def __init__(self) -> None:
        self._heads: Cache[Cid, bool] = Cache(entries_max=RECENT_MAX)

    def is_new(self, head: Cid) -> bool:
        if self._heads.get(head):
            return False
        self._heads.put(head, True)
        return True

    def invalidate(self, head: Cid | None) -> None:
        if head is not None:
            self._heads.remove(head)


class PausedPublishers:
    """Publishers that are ignored for a while because their advertisements can never be used."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._until: OrderedDict[str, float] = OrderedDict()

    def pause(self, publisher: str, now: float) -> None:
        """Pauses the publisher: long for the first offence, short if its trial fails."""
        is_trial = publisher in self._until
        self._until[publisher] = now + (TRIAL_S if is_trial else self._pause_s)
        self._until.move_to_end(publisher)
        while len(self._until) > PAUSED_MAX:
            self._until.popitem(last=False)

    def lift(self, publisher: str) -> None:
        self._until.pop(publisher, None)

    def is_paused(self, publisher: str, now: float) -> bool:
        return now < self._until.get(publisher, now)

    def check(self, publisher: str, now: float) -> None:
        if self.is_paused(publisher, now):
            left_s = self._until[publisher] - now
            raise Forbidden(
                f"publisher {publisher} advertised a provider without any address: ignored for another {left_s:.0f} s"
            )
