"""The storage service of the document for any number of threads: the exchange machine behind a lock.

No call waits for the store; the driver of the machine calls the store without the lock (THR-2).
"""

import threading
from collections.abc import Sequence

from argosy.throttle.exchange import ExchangeFailed, ExchangeReplied, StoreExchange, SyncCounters, SyncStatus
from argosy.throttle.ports import Channel, OverwriteBucket, RespBucket, RowId, SyncBatch, Update


class ThreadSafeStorage:
    """A `StorageService`, and its own channel."""

    def __init__(self, exchange: StoreExchange) -> None:
        self._exchange = exchange
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
