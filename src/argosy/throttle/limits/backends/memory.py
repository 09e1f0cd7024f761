"""Buckets in memory, lost when the process ends: for one process, for tests, and behind a server of our own."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from threading import Lock

from argosy.base.clock import Clock
from argosy.base.metrics import Metrics
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.table import KEYS_MAX, BucketTable, count, count_table, now_ms


class MemoryLimiter:
    """A bounded table of buckets, safe to use from any thread and from any event loop."""

    def __init__(
        self, *, clock: Clock, zone: tzinfo = UTC, keys_max: int = KEYS_MAX, metrics: Metrics | None = None
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._table = BucketTable(zone=zone, keys_max=keys_max)
        self._lock = Lock()

    def check_now(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        """As `check`, for code without an event loop."""
        with self._lock:
            responses = self._table.answer(requests, now_ms(self._clock))
            count_table(self._metrics, self._table)
        count(self._metrics, responses)
        return responses

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        return self.check_now(requests)

    async def ping(self) -> None:
        """A table in memory is always reachable."""

    async def close(self) -> None:
        """Nothing to close."""
