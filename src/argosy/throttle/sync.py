"""Synchronizes the state of a throttle with all other instances, in the background.

    with ThrottleSync.open(throttle, ThrottleSettings(store="redis://cache:6379")):      # a thread
        ...
    async with ThrottleSync.open(throttle, settings):                                    # or a task
        ...

It starts without the store, too: the throttle then decides locally and joins the others when the store is reachable. If
it is reachable, the shared state is pulled before `with` is entered. In servers that fork, open it in each worker
process after the fork: the thread does not survive a fork, and two processes with one name would count as one.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.exchange import JITTER, ExchangeFailed, ExchangeReplied, StoreExchange, SyncCounters, SyncStatus
from argosy.throttle.factory import open_row_store
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.ports import Channel, OverwriteBucket, QueueFull, RespBucket, RowId, RowStore, SyncBatch, Update
from argosy.throttle.rows import row_rules, squash
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.telemetry import ThrottleTelemetry


class ThreadSafeStorage:
    """A `StorageService`, and its own channel."""

    def __init__(self, exchange: StoreExchange) -> None:
        self._exchange = exchange
        # The exchange is used by the worker's thread and by any caller of the storage service.
        self._lock = threading.Lock()

    # -- the document's contract ------------------------------------------------------------------------------------

    def update(self, updates: Sequence[Update]) -> None:
        with self._lock:
            self._exchange.update(updates)

    def request(self, seed: int) -> None:
        with self._lock:
            self._exchange.request(seed)

    def recv(self) -> Channel:
        return self

    def take(self) -> list[RespBucket]:
        with self._lock:
            return self._exchange.take()

    # -- for the background worker ------------------------------------------------------------------------------------

    @property
    def counters(self) -> SyncCounters:
        return self._exchange.counters

    def status(self, now: float) -> SyncStatus:
        with self._lock:
            return self._exchange.status(now)

    def lost_rows(self) -> list[RowId]:
        with self._lock:
            return self._exchange.lost_rows()

    def restore(self, cell: RowId, buckets: Sequence[OverwriteBucket]) -> None:
        with self._lock:
            self._exchange.restore(cell, buckets)

    def handle(self, event: ExchangeReplied | ExchangeFailed | None, now: float) -> list[SyncBatch]:
        with self._lock:
            return self._exchange.handle(event, now)

    def deadline(self) -> float | None:
        with self._lock:
            return self._exchange.deadline()

    def flush_now(self) -> None:
        """Makes the buffered changes due now."""
        with self._lock:
            self._exchange.flush_now()


# A bucket below 1 % rejects hardly a request, and decay removes it within a few minutes.
RESTORED_ABOVE = 0.01  # buckets below are not worth restoring
IDLE_S_MAX = 1.0  # the longest wait between two rounds
# The thread is a daemon, so an abandoned one does not keep the process alive.
STOP_S_MAX = 10.0  # a worker that has not ended by then is stuck in the network and is abandoned

T = TypeVar("T")

log = logs.get("throttle")


class SyncMachine:
    """A `StateMachine` around the exchange: collects the throttle's changes before each batch, and merges rows after
    each reply."""

    def __init__(
        self, throttle: FairThrottle, storage: ThreadSafeStorage, settings: ThrottleSettings, *, random: Random
    ) -> None:
        self._throttle = throttle
        self._storage = storage
        self._settings = settings
        self._squash = squash(settings.squash, weight=settings.squash_weight)
        self._random = random
        self._poll_at = float("-inf")
        self.rebased = 0
        self.refused = 0  # changes that did not fit into the queue
        # From here on changes are recorded for the store; before, recording them would be work without a reader.
        throttle.share()

    def deadline(self) -> float | None:
        return self._storage.deadline()

    def handle(self, event: ExchangeReplied | ExchangeFailed | None, now: float) -> list[SyncBatch]:
        deadline = self._storage.deadline()
        if event is None and deadline is not None and now >= deadline:
            self._collect(now)
        batches = self._storage.handle(event, now)
        if event is not None:
            self._merge(now)
        return batches

    def _collect(self, now: float) -> None:
        self._throttle.rotate()
        updates = self._throttle.collect()
        try:
            self._storage.update(updates)
        # Dropped and counted: the requests behind these changes were decided long ago, and nothing may wait (THR-2).
        except QueueFull:
            self.refused += sum(len(update.deltas) for update in updates)
        # Polls accompany flushes; one that is due before the middle of the next wait is done early rather than late.
        if now + self._settings.flush_s / 2 >= self._poll_at:
            self._poll_at = now + self._settings.poll_s * self._random.uniform(1 - JITTER, 1 + JITTER)
            for seed in self._throttle.seeds:
                self._storage.request(seed)

    def _merge(self, now: float) -> None:
        # Before the merge: a lost row is withheld from `take` until it is restored, so that it does not erase what we
        # know.
        for cell in self._storage.lost_rows():
            self._storage.restore(cell, self._throttle.contents(cell, above=RESTORED_ABOVE))
        self.rebased += self._throttle.absorb(self._storage.recv().take(), self._squash)
        status = self._storage.status(now)
        # While the store is unreachable an instance sees 1/N of the failures, so it multiplies its steps by N.
        self._throttle.adjust(gain=status.peers if status.is_unreachable else 1.0, offset_ms=status.offset_ms)


class ThrottleSync:
    """Drives a `SyncMachine` against its row store. Enter it with `with` for a thread, with `async with` for a task."""

    def __init__(
        self,
        throttle: FairThrottle,
        rows: RowStore,
        settings: ThrottleSettings,
        *,
        instance: str,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        random = random or system_random()
        self._clock = clock or SystemClock()
        self._rows = rows
        self._settings = settings
        self.storage = ThreadSafeStorage(StoreExchange(throttle.config, settings, random, instance=instance))
        self._member = SyncMachine(throttle, self.storage, settings, random=random)
        self._throttle = throttle
        if metrics is not None:
            throttle.measure(metrics)
        self._telemetry = ThrottleTelemetry(metrics or Metrics())
        self._stopped = threading.Event()
        self._settled = threading.Event()  # the store has answered, or is unreachable
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        throttle: FairThrottle,
        settings: ThrottleSettings,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: Metrics | None = None,
    ) -> Self:
        """Shares through the store that the settings name; nothing connects yet."""
        settings.check_values()
        if settings.store is None:
            raise Invalid("throttle.store is not set: set it to the shared store, such as redis://localhost:6379")
        # New for each start: the store remembers the last batch number of each name, and a restarted process begins at
        # 1.
        instance = secrets.token_hex(8)
        rows = open_row_store(settings.store, row_rules(throttle.config), instance=instance, settings=settings)
        return cls(throttle, rows, settings, instance=instance, clock=clock, random=random, metrics=metrics)

    # -- one round --------------------------------------------------------------------------------------------------

    def run_round(self) -> float:
        """Does what is due, which may take as long as the store takes; returns the time until the next round."""
        now = self._clock.now()
        for batch in self._member.handle(None, now):
            event = self._execute(batch)
            now = self._clock.now()
            self._member.handle(event, now)
            status = self.storage.status(now)
            if status.has_pulled or status.is_unreachable:
                self._settled.set()
            self._record(status, has_polled=bool(batch.pulls))
        deadline = self._member.deadline()
        return IDLE_S_MAX if deadline is None else min(max(0.0, deadline - now), IDLE_S_MAX)

    def _execute(self, batch: SyncBatch) -> ExchangeReplied | ExchangeFailed:
        started = self._clock.now()
        try:
            reply = self._rows.exchange(batch)
        # Expected failures. The state machine decides about retries; a Conflict stays until the configuration is
        # changed.
        except (Unavailable, Conflict) as why:
            self._telemetry.record_failure(why)
            return ExchangeFailed()
        except Exception:
            log.error("exchange failed", exc_info=True)  # a bug; without an event the machine would wait for ever
            return ExchangeFailed()
        if batch.pushes:
            self._telemetry.record_commit(self._clock.now() - started)
        return ExchangeReplied(reply)

    def _record(self, status: SyncStatus, *, has_polled: bool) -> None:
        member = self._member
        self._telemetry.record_exchange(status, self.storage.counters, rebased=member.rebased, refused=member.refused)
        if has_polled:
            self._telemetry.record_stats(self._throttle.stats())  # reads every bucket, so not after every flush

    def _next_round(self) -> float:
        """As `run_round`, but a bug in it must not end the synchronization; it cannot reach a request."""
        try:
            return self.run_round()
        except Exception:
            log.error("synchronization round failed", exc_info=True)
            return IDLE_S_MAX

    def _last_round(self) -> None:
        """Pushes the last changes, if the store is reachable."""
        self.storage.flush_now()
        # A round that fails here loses at most the changes of one flush interval.
        self._next_round()
        self._rows.close()

    def _check_not_started(self) -> None:
        if self._thread is not None or self._task is not None:
            raise Conflict("this ThrottleSync has been started already: open another one")

    # -- a thread ---------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the thread and waits up to cold_start_s for the shared state."""
        self._check_not_started()
        self._thread = threading.Thread(target=self._run, name="argosy-throttle", daemon=True)
        self._thread.start()
        # Not for ever: an application must start without its store (THR-2).
        self._settled.wait(self._settings.cold_start_s)
        return self

    def stop(self) -> None:
        """Ends the thread after a last push; idempotent."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        while not self._stopped.wait(self._next_round()):
            pass
        self._last_round()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # -- a task -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs as a task until it is cancelled. Each round runs in a thread: decoding a row takes milliseconds, which
        requests on the event loop would wait for."""
        try:
            while True:
                await self._clock.sleep(await _run_uncancelled(self._next_round))
        finally:
            await _run_uncancelled(self._last_round)

    async def __aenter__(self) -> Self:
        self._check_not_started()
        self._task = asyncio.create_task(self.run())
        await asyncio.to_thread(self._settled.wait, self._settings.cold_start_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _run_uncancelled(work: Callable[[], T]) -> T:
    """Runs `work` in a thread to its end, even if the caller is cancelled: its timeouts bound it."""
    # Python cannot interrupt a thread; a cancelled caller that did not wait would start a second round beside it.
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
