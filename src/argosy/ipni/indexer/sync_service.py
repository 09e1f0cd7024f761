"""Starts and runs syncs of publishers' chains: many concurrently, one per publisher.

Announcements pass three filters that cost nothing: policy and assignment, the pause of useless publishers, and repeated
heads. One sync per publisher at a time keeps the chain's order (IPN-3); a newer request replaces the waiting one,
because it leads to the same advertisements and more.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace

from argosy.base import logs
from argosy.base.cache import Cache
from argosy.base.errors import ArgosyError, Conflict, Forbidden, Invalid, Unavailable
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.indexer import telemetry
from argosy.ipni.indexer.assignments import Assignments
from argosy.ipni.indexer.follower import Follower
from argosy.ipni.indexer.ingest_state import NoAddress, SharedState, provider_row
from argosy.ipni.indexer.maintenance import ContactLog
from argosy.ipni.indexer.telemetry import PublisherStatuses
from argosy.ipni.model import Peer, Provider
from argosy.ipni.ports import PublisherSources


@dataclass(frozen=True)
class SyncRequest:
    """A chain to sync: up to `head`, or to the publisher's current head."""

    publisher: Peer
    head: Cid | None = None
    depth: int = 0  # 0: as configured, -1: unlimited
    is_resync: bool = False
    is_manual: bool = False


class SyncQueue:
    """Runs one sync per publisher at a time; a newer request replaces the waiting one.

    It is not `base.tasks.KeyedWorkQueue`, because callers list the running requests, and wait for and stop one
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
            raise Unavailable("the indexer is stopping; announce again later")
        # Before the limit: a replacement does not make the queue longer. Running ones include those that wait for a
        # permit of `SyncService`, so the limit bounds everything that is pending.
        if publisher in self._running:
            self._waiting[publisher] = _newer(self._waiting.get(publisher), request)
        elif len(self._running) >= self._waiting_max:
            raise Unavailable(f"{self._waiting_max} publishers are waiting already; announce again later")
        else:
            self._start(request)

    def is_busy(self, publisher: str) -> bool:
        return publisher in self._running

    def running(self) -> Sequence[SyncRequest]:
        return [request for request, _ in self._running.values()]

    async def wait_idle(self, publisher: str) -> None:
        """Returns when nothing runs or waits for the publisher."""
        # In a loop, because the done callback may start the request that waited.
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
        # First: the done callback of the cancelled sync would start it.
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
        # `_run` turns every error into a status, so an exception here is a bug; it must not vanish with the task.
        if not task.cancelled() and task.exception() is not None:
            task.get_loop().call_exception_handler(
                {"message": f"syncing publisher {publisher} failed", "exception": task.exception(), "task": task}
            )


def _newer(waiting: SyncRequest | None, request: SyncRequest) -> SyncRequest:
    """The newest request; an announcement does not replace an operator's request."""
    return waiting if waiting is not None and waiting.is_manual and not request.is_manual else request


RECENT_MAX = 64  # as in storetheindex: repeats come close together, through several ways
PAUSED_MAX = 10_000  # publishers; the earliest pause ends first when there are more
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
        # The entry stays after the pause has ended, so that the next offence is recognised as a failed trial.
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


log = logs.get("ipni.indexer")

CANCELLED = "cancelled"  # the indexer is stopping, or the provider was removed


class SyncService:
    """Accepts announcements and requests of operators, and runs them with limits on scans and on publishers in
    processing."""

    def __init__(
        self,
        shared: SharedState,
        sources: PublisherSources,
        follower: Follower,
        assignments: Assignments,
        *,
        announcing: Collection[str] = (),
    ) -> None:
        self._store = shared.store
        self._sync_state = shared.sync_state
        self._provider_table = shared.providers
        self._policy = shared.policy
        self._settings = settings = shared.settings
        self._metrics = shared.metrics
        self._clock = shared.clock
        self._sources = sources
        self._follower = follower
        self._assignments = assignments
        self.statuses = PublisherStatuses()
        self.contacts = ContactLog(shared.clock.now(), announcing)
        self._recent = RecentHeads()
        self._pauses = PausedPublishers(settings.bad_ads_pause_s)
        # Reading a chain waits for the network, applying it uses CPU and disk: so they have limits of their own.
        self._scans = asyncio.Semaphore(settings.scans_max)
        self._workers = asyncio.Semaphore(settings.workers_max)
        self._queue = SyncQueue(self._run, waiting_max=settings.waiting_max)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def announce(self, announce: Announcement) -> str:
        """Handles an announcement; returns accepted, known (the head is applied) or repeated. Raises Forbidden."""
        publisher = announce.publisher
        self._policy.check(publisher.id)
        if self._settings.use_assigner and publisher.id not in self._assignments:
            raise Forbidden(f"publisher {publisher.id} is not assigned to this indexer")
        # The cheapest checks come first, and policy before repetition: a forbidden head must not displace another from
        # the cache.
        self._pauses.check(publisher.id, self._clock.now())
        if not self._recent.is_new(announce.head):
            return "repeated"
        try:
            await self.on_contact(publisher.id)
            cursor = self._sync_state.cursor(publisher.id)
            # With gaps even a known head leads to advertisements that are to be applied again.
            if cursor.last == announce.head and not cursor.has_gaps:
                return "known"
            # Stored before the announcement is accepted: publishers do not repeat it, and a restart must still know the
            # head.
            cursor = await self._sync_state.set_wanted(publisher, announce.head)
            self.submit(SyncRequest(cursor.publisher, announce.head))
        except ArgosyError:
            self._recent.invalidate(announce.head)  # otherwise the repeated announcement would be ignored
            raise
        return "accepted"

    async def sync(self, publisher: str, address: str | None, *, depth: int, is_resync: bool) -> None:
        self._policy.check(publisher)
        if depth < -1:
            raise Invalid(f"a depth is -1 (all), 0 (as configured) or more, not {depth}")
        if publisher in self.manual():
            raise Conflict(f"a sync of publisher {publisher} is already running")
        peer = Peer(publisher, (address,)) if address else self._sync_state.cursor(publisher).publisher
        if not peer.addresses:
            raise Invalid(f"no address of publisher {publisher} is known; give one")
        self._pauses.lift(publisher)
        await self._sync_state.set_wanted(peer, None)
        self.submit(SyncRequest(peer, depth=depth, is_resync=is_resync, is_manual=True))

    def submit(self, request: SyncRequest) -> None:
        self._queue.submit(request)
        status = self.statuses.of(request.publisher.id)
        if status.state == "idle":
            status.state = "waiting"

    def poll(self, publisher: Peer, head: Cid | None = None) -> None:
        """Starts a sync unless one is running."""
        if not self._queue.is_busy(publisher.id):
            self.submit(SyncRequest(publisher, head))

    def is_accepted(self, publisher: str) -> bool:
        is_assigned = not self._settings.use_assigner or publisher in self._assignments
        is_paused = self._pauses.is_paused(publisher, self._clock.now())
        return is_assigned and not is_paused and self._policy.is_allowed(publisher)

    def manual(self) -> Sequence[str]:
        return [request.publisher.id for request in self._queue.running() if request.is_manual]

    def running(self) -> int:
        return len(self._queue.running())

    async def wait_idle(self, publisher: str) -> None:
        """Returns when nothing runs or waits for the publisher."""
        await self._queue.wait_idle(publisher)

    async def stop(self, publisher: str) -> None:
        await self._queue.stop(publisher)

    def invalidate_head(self, head: Cid | None) -> None:
        """Makes a repeated announcement of the head effective again."""
        self._recent.invalidate(head)

    async def close(self) -> None:
        await self._queue.close()

    async def on_contact(self, publisher: str) -> None:
        """Records a contact; a hidden provider becomes visible again even if its chain has not moved."""
        self.contacts.on_contact(publisher, self._clock.now())
        # storetheindex issue 2193: a provider back from an outage announces a head that is already known, and stayed
        # hidden.
        for provider in self._provider_table.of_publisher(publisher):
            if provider.is_inactive:
                await self.set_inactive(provider, False)

    async def set_inactive(self, provider: Provider, is_inactive: bool) -> None:
        updated = replace(provider, is_inactive=is_inactive)
        await self._store.write(provider_row(updated))
        self._provider_table.apply(updated)

    # -- following ----------------------------------------------------------------------------------------------------

    async def _run(self, request: SyncRequest) -> None:
        """Runs one sync; every failure ends up in the publisher's status."""
        publisher = request.publisher.id
        status = self.statuses.of(publisher)
        began, error = self._clock.now(), CANCELLED
        try:
            error = await self._try_sync(request)
        finally:
            at = self._clock.wall()
            status.state, status.error = "idle", error
            for track in (status.scan, status.processing, status.download):
                track.end(at, error)
            if error:
                self._recent.invalidate(request.head)
            if error and error != CANCELLED:
                log.warning("sync failed", publisher=publisher, error=error)
            self._metrics.inc(telemetry.SYNCS, outcome="failed" if error else "done")
            self._metrics.observe(telemetry.SYNC_SECONDS, self._clock.now() - began)

    async def _try_sync(self, request: SyncRequest) -> str:
        """Returns the error text, or an empty text."""
        publisher = request.publisher.id
        try:
            await self._follow(request)
            await self.on_contact(publisher)
            self._pauses.lift(publisher)
        except ArgosyError as error:
            await self._on_failure(request, error)
            return str(error)
        # The blocks that were read are stored, so the next attempt starts where this one stopped.
        except TimeoutError:
            return f"reading the chain took longer than {self._settings.sync_timeout_s:g} s"
        # One publisher's data that triggers a bug must not stop the others; the status and the log show it.
        except Exception as bug:
            log.error("sync crashed", publisher=publisher, exc_info=bug)
            return f"{type(bug).__name__}: {bug}"
        return ""

    async def _follow(self, request: SyncRequest) -> None:
        cursor = self._sync_state.cursor(request.publisher.id)
        # Announcements may come without a usable address; the last working one is stored with the cursor.
        peer = request.publisher if request.publisher.addresses else cursor.publisher
        source = self._sources.open(peer)
        status = self.statuses.of(peer.id)
        # The timeout is for the scan only: applying has a natural end, and how long it takes depends on the length of
        # the chain.
        async with self._scans, asyncio.timeout(self._settings.sync_timeout_s):
            batch = await self._follower.scan(
                replace(cursor, publisher=peer),
                source,
                status,
                head=request.head,
                depth=request.depth,
                is_resync=request.is_resync,
            )
        if batch is not None:
            async with self._workers:
                await self._follower.apply(peer, batch, source, status)

    async def _on_failure(self, request: SyncRequest, error: ArgosyError) -> None:
        """Drops a request that can never succeed, such as a head that is not an advertisement; other failures keep
        it, and maintenance tries again."""
        publisher = request.publisher.id
        if isinstance(error, NoAddress):
            self._pauses.pause(publisher, self._clock.now())
        cursor = self._sync_state.cursor(publisher)
        # Only if it is still the wanted head: a newer announcement may have replaced it while this sync ran.
        if isinstance(error, Invalid) and cursor.wanted is not None and cursor.wanted == request.head:
            await self._sync_state.store_cursor(replace(cursor, wanted=None))
