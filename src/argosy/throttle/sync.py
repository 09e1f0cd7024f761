"""Shares a throttle's state with all other instances, in the background.

    with ThrottleSync.open(throttle, ThrottleSettings(store="redis://cache:6379")):           # a thread
        ...
    async with ThrottleSync.open(throttle, settings):                                         # or a task
        ...

It starts without the store, too: the throttle then decides by itself, and joins the others when the store is there. If
the store is there, what the others know is pulled before `with` is entered. In servers that fork, open it in each
worker process, after the fork: the thread would not survive it, and two processes under one name would be taken for
one.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.exchange import JITTER, ExchangeFailed, ExchangeReplied, StoreExchange, SyncStatus
from argosy.throttle.factory import open_row_store
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.ports import QueueFull, RowStore, SyncBatch
from argosy.throttle.rows import row_rules
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.squash import squash
from argosy.throttle.storage_service import ThreadSafeStorage
from argosy.throttle.telemetry import ThrottleTelemetry

RESTORED_ABOVE = 0.01  # buckets with less blame are not worth restoring
IDLE_S_MAX = 1.0  # longest wait between two turns, whatever the machine says
STOP_S_MAX = 10.0  # a worker that has not ended by then is stuck in the network, and is left there

T = TypeVar("T")

log = logs.get("throttle")


class SyncMachine:
    """A `Machine`: one throttle's part in the exchange. It gives before each order and takes after each answer."""

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
        self.refused = 0  # changes that found the queue full
        throttle.share()

    def deadline(self) -> float | None:
        return self._storage.deadline()

    def handle(self, event: ExchangeReplied | ExchangeFailed | None, now: float) -> list[SyncBatch]:
        deadline = self._storage.deadline()
        if event is None and deadline is not None and now >= deadline:
            self._give(now)
        orders = self._storage.handle(event, now)
        if event is not None:
            self._take(now)
        return orders

    def _give(self, now: float) -> None:
        self._throttle.turn()
        updates = self._throttle.collect()
        try:
            self._storage.update(updates)
        except QueueFull:
            self.refused += sum(len(update.deltas) for update in updates)
        # Polls go along with flushes; one that falls due before the middle of the next wait is better early than late.
        if now + self._settings.flush_s / 2 >= self._poll_at:
            self._poll_at = now + self._settings.poll_s * self._random.uniform(1 - JITTER, 1 + JITTER)
            for seed in self._throttle.seeds:
                self._storage.request(seed)

    def _take(self, now: float) -> None:
        for cell in self._storage.lost():
            self._storage.restore(cell, self._throttle.contents(cell, above=RESTORED_ABOVE))
        self.rebased += self._throttle.absorb(self._storage.recv().take(), self._squash)
        standing = self._storage.standing(now)
        self._throttle.adjust(gain=standing.peers if standing.is_away else 1.0, offset_ms=standing.offset_ms)


class ThrottleSync:
    """Drives a `Member` against its rows. Enter it with `with` for a thread, with `async with` for a task."""

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
        self._teller = ThrottleTelemetry(metrics or Metrics())
        self._stopped = threading.Event()
        self._settled = threading.Event()  # the store has answered, or was given up for now
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
            raise Invalid("there is no store to share through: set throttle.store, such as redis://localhost:6379")
        instance = secrets.token_hex(8)
        rows = open_row_store(settings.store, row_rules(throttle.config), instance=instance, settings=settings)
        return cls(throttle, rows, settings, instance=instance, clock=clock, random=random, metrics=metrics)

    # -- one turn ---------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Does what is due, which may take as long as the store does; returns how long there is nothing to do."""
        now = self._clock.now()
        for order in self._member.handle(None, now):
            event = self._carry_out(order)
            now = self._clock.now()
            self._member.handle(event, now)
            standing = self.storage.standing(now)
            if standing.has_heard or standing.is_away:
                self._settled.set()
            self._tell(standing, has_polled=bool(order.pulls))
        deadline = self._member.deadline()
        return IDLE_S_MAX if deadline is None else min(max(0.0, deadline - now), IDLE_S_MAX)

    def _carry_out(self, order: SyncBatch) -> ExchangeReplied | ExchangeFailed:
        started = self._clock.now()
        try:
            reply = self._rows.exchange(order)
        except (Unavailable, Conflict) as why:
            self._teller.failed(why)
            return ExchangeFailed()
        except Exception:
            log.error("exchange failed", exc_info=True)  # a bug; the machine must hear of it, or it waits for ever
            return ExchangeFailed()
        if order.pushes:
            self._teller.committed(self._clock.now() - started)
        return ExchangeReplied(reply)

    def _tell(self, standing: SyncStatus, *, has_polled: bool) -> None:
        member = self._member
        self._teller.exchanged(standing, self.storage.figures, rebased=member.rebased, refused=member.refused)
        if has_polled:
            self._teller.decided(self._throttle.stats())  # looks at every bucket, so not after every flush

    def _next_turn(self) -> float:
        """As `turn`, but a bug in it must not end the sharing; it cannot reach a request."""
        try:
            return self.turn()
        except Exception:
            log.error("turn failed", exc_info=True)
            return IDLE_S_MAX

    def _last_turn(self) -> None:
        """Leaves nothing unsaid, if the store is there to hear it."""
        self.storage.hurry()
        self._next_turn()
        self._rows.close()

    def _check_new(self) -> None:
        if self._thread is not None or self._task is not None:
            raise Conflict("this sharing has begun already: open another one")

    # -- a thread ---------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the thread, and waits a moment for what the others know."""
        self._check_new()
        self._thread = threading.Thread(target=self._run, name="argosy-throttle", daemon=True)
        self._thread.start()
        self._settled.wait(self._settings.cold_start_s)
        return self

    def stop(self) -> None:
        """Ends the thread, after a last push; stopping twice does nothing."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        while not self._stopped.wait(self._next_turn()):
            pass
        self._last_turn()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # -- a task -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """The same as a task, until it is cancelled. The turns run in threads of the loop's: decoding a row takes
        milliseconds that requests on the loop would wait for."""
        try:
            while True:
                await self._clock.sleep(await _whole(self._next_turn))
        finally:
            await _whole(self._last_turn)

    async def __aenter__(self) -> Self:
        self._check_new()
        self._task = asyncio.create_task(self.run())
        await asyncio.to_thread(self._settled.wait, self._settings.cold_start_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _whole(work: Callable[[], T]) -> T:
    """Runs `work` in a thread to its end, even if the caller is cancelled meanwhile: it is bounded by its timeouts."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
