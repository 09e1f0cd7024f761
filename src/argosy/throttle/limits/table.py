"""The buckets of one process: a bounded table that evicts the least recently used bucket, and the limiters' metrics.

Pure: the owner of a table passes the time, serializes calls, and saves the changes if they must survive the process.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from math import floor

from argosy.base.clock import Clock
from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics, counter, gauge
from argosy.throttle.limits.buckets import Bucket, calendar_interval, decide
from argosy.throttle.limits.model import (
    BATCH_MAX,
    BATCH_TOO_LARGE,
    Behavior,
    RateLimitRequest,
    RateLimitResponse,
    Status,
    request_error,
)

KEYS_MAX = 50_000  # as Gubernator's default cache size; about 25 MB with typical keys

_GREGORIAN = int(Behavior.DURATION_IS_GREGORIAN)


class BucketTable:
    """Answers requests, and records which buckets have changed for an owner that saves them."""

    def __init__(self, *, zone: tzinfo = UTC, keys_max: int = KEYS_MAX, is_saved: bool = False) -> None:
        """With `is_saved` the owner calls `take_changes` regularly; otherwise changes are not recorded."""
        if keys_max < 1:
            raise Invalid(f"keys_max must be at least 1, not {keys_max}")
        self._zone = zone
        self._keys_max = keys_max
        self._is_saved = is_saved
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._changed: set[str] = set()
        self._evicted = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def answer(self, requests: Sequence[RateLimitRequest], now_ms: int) -> list[RateLimitResponse]:
        """The responses, in the order of the requests, which are processed one after the other."""
        check_batch(requests)
        return [self._answer(request, now_ms) for request in requests]

    def restore(self, saved: Iterable[tuple[str, Bucket]], now_ms: int) -> None:
        """Loads the buckets of an earlier process, least recently used first; expired ones are recorded as removed."""
        for key, bucket in saved:
            # An expired bucket answers like a missing one, and need not take the place of a live one.
            if bucket.expire_at >= now_ms:
                self._buckets[key] = bucket
                self._make_room(now_ms)
            else:
                self._record_change(key)

    def take_changes(self) -> dict[str, Bucket | None]:
        """Every bucket that changed since the last call, by key; None if it was removed."""
        # Names only: if a bucket changes again before it is saved, the later state is what counts.
        changed, self._changed = self._changed, set()
        return {key: self._buckets.get(key) for key in changed}

    def restore_changes(self, keys: Iterable[str]) -> None:
        """Records changes again that could not be saved."""
        self._changed.update(keys)

    def take_evicted(self) -> int:
        """The number of live buckets evicted since the last call."""
        evicted, self._evicted = self._evicted, 0
        return evicted

    def _answer(self, request: RateLimitRequest, now_ms: int) -> RateLimitResponse:
        if error := request_error(request):
            return RateLimitResponse(error=error)
        key = request.key
        is_calendar = request.behavior & _GREGORIAN
        interval = calendar_interval(request.duration, now_ms, self._zone) if is_calendar else None
        before = self._buckets.get(key)
        after, response = decide(before, request, now_ms=now_ms, interval=interval)
        if after is None:
            self._buckets.pop(key, None)
        else:
            self._buckets[key] = after
            # The order of use decides what is evicted, so every hit moves its bucket, also one that is only read.
            self._buckets.move_to_end(key)
            if before is None:
                self._make_room(now_ms)
        # A request of 0 hits changes nothing, and need not be written to the file.
        if after != before:
            self._record_change(key)
        return response

    def _make_room(self, now_ms: int) -> None:
        while len(self._buckets) > self._keys_max:
            key, bucket = self._buckets.popitem(last=False)
            self._record_change(key)
            # Only live ones count: each forgot hits, while an expired one forgot nothing.
            self._evicted += bucket.expire_at >= now_ms

    def _record_change(self, key: str) -> None:
        if self._is_saved:
            self._changed.add(key)


def check_batch(requests: Sequence[RateLimitRequest]) -> None:
    """Rejects a batch that is too large; the same check for every limiter."""
    if len(requests) > BATCH_MAX:
        raise Invalid(BATCH_TOO_LARGE)


def now_ms(clock: Clock) -> int:
    """The time in whole milliseconds, rounded down.

    A float of seconds cannot hold every millisecond: without the rounding to microseconds, 0.123 s may come out as 122.
    """
    return floor(round(clock.wall() * 1000, 3))


CHECKS = counter("argosy_limit_checks", "Rate limit requests by outcome: under, over or error", ("outcome",))
KEYS = gauge("argosy_limit_keys", "Buckets in this process")
EVICTED = counter(
    "argosy_limit_evicted", "Live buckets evicted because the table was full; raise limits.keys_max if this grows"
)


def count(metrics: Metrics | None, responses: Sequence[RateLimitResponse]) -> None:
    """Counts a batch of responses."""
    if metrics is None:
        return
    errors = sum(1 for response in responses if response.error)
    over = sum(1 for response in responses if response.status == Status.OVER_LIMIT)
    for outcome, number in (("error", errors), ("over", over), ("under", len(responses) - errors - over)):
        if number:
            metrics.inc(CHECKS, number, outcome=outcome)


def count_table(metrics: Metrics | None, table: BucketTable) -> None:
    """Reports the size of a table."""
    if metrics is None:
        return
    metrics.set(KEYS, len(table))
    if evicted := table.take_evicted():
        metrics.inc(EVICTED, evicted)
