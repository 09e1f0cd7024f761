"""The buckets of one process: a table with a bound, from which the bucket longest unused goes first.

Pure: whoever holds a table hands in the time, keeps others out while it works, and saves what has changed if that is
to outlive the process.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from math import floor

from argosy.base.clock import Clock
from argosy.base.errors import Invalid
from argosy.throttle.limits import gregorian
from argosy.throttle.limits.buckets import Bucket, decide
from argosy.throttle.limits.model import (
    BATCH_MAX,
    BATCH_TOO_LARGE,
    Behavior,
    RateLimitRequest,
    RateLimitResponse,
    complaint,
)

KEYS_MAX = 50_000  # Gubernator's own default; about 25 MB of ordinary keys

_GREGORIAN = int(Behavior.DURATION_IS_GREGORIAN)


class BucketTable:
    """Answers requests, and notes which buckets have changed for an owner who saves them."""

    def __init__(self, *, zone: tzinfo = UTC, keys_max: int = KEYS_MAX, is_saved: bool = False) -> None:
        """With `is_saved` the owner calls `take_changes` now and then; without, changes are not noted."""
        if keys_max < 1:
            raise Invalid(f"keys_max is {keys_max}: a limiter must hold at least one key")
        self._zone = zone
        self._keys_max = keys_max
        self._is_saved = is_saved
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._changed: set[str] = set()
        self._evicted = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def answer(self, requests: Sequence[RateLimitRequest], now_ms: int) -> list[RateLimitResponse]:
        """The answers in the order of the requests, which are worked one after the other."""
        check_batch(requests)
        return [self._answer(request, now_ms) for request in requests]

    def restore(self, kept: Iterable[tuple[str, Bucket]], now_ms: int) -> None:
        """Takes over the buckets of an earlier life, the one longest unused first; the dead ones are noted as gone."""
        for key, bucket in kept:
            if bucket.expire_at >= now_ms:
                self._buckets[key] = bucket
                self._make_room(now_ms)
            else:
                self._note(key)

    def take_changes(self) -> dict[str, Bucket | None]:
        """Every bucket that changed since the last call, by key; None stands for one that is gone."""
        changed, self._changed = self._changed, set()
        return {key: self._buckets.get(key) for key in changed}

    def give_back(self, keys: Iterable[str]) -> None:
        """These changes could not be saved: they are to be taken again."""
        self._changed.update(keys)

    def take_evicted(self) -> int:
        """How many buckets had to go since the last call although they were still alive."""
        evicted, self._evicted = self._evicted, 0
        return evicted

    def _answer(self, request: RateLimitRequest, now_ms: int) -> RateLimitResponse:
        if wrong := complaint(request):
            return RateLimitResponse(error=wrong)
        key = request.key
        is_calendar = request.behavior & _GREGORIAN
        interval = gregorian.interval(request.duration, now_ms, self._zone) if is_calendar else None
        before = self._buckets.get(key)
        after, response = decide(before, request, now_ms=now_ms, interval=interval)
        if after is None:
            self._buckets.pop(key, None)
        else:
            self._buckets[key] = after
            self._buckets.move_to_end(key)
            if before is None:
                self._make_room(now_ms)
        if after != before:
            self._note(key)
        return response

    def _make_room(self, now_ms: int) -> None:
        while len(self._buckets) > self._keys_max:
            key, bucket = self._buckets.popitem(last=False)
            self._note(key)
            self._evicted += bucket.expire_at >= now_ms

    def _note(self, key: str) -> None:
        if self._is_saved:
            self._changed.add(key)


def check_batch(requests: Sequence[RateLimitRequest]) -> None:
    """Every limiter refuses the same batches, in the same words."""
    if len(requests) > BATCH_MAX:
        raise Invalid(BATCH_TOO_LARGE)


def now_ms(clock: Clock) -> int:
    """The milliseconds that have passed in full.

    A float of seconds cannot hold every millisecond: without the rounding to microseconds, 0.123 s may come out as 122.
    """
    return floor(round(clock.wall() * 1000, 3))
