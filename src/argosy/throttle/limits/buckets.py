"""The arithmetic of token and leaky buckets, exactly Gubernator's: the answer to a request, and the bucket after it.

The rule: the same requests at the same times get the same answers as from Gubernator 2, corner cases included, because
users move between the two. Some corner cases look odd and are intended:

- An entry expires by the store's clock (`now_ms`), but is computed with the request's own (`created_at`).
- A token bucket that was found empty stays OVER_LIMIT until it expires, even if its limit is raised meanwhile.
- When a shorter duration means that a token bucket has already ended, it is renewed, but this one request is still
  judged by what was left before.
- A new leaky bucket takes its rate from `duration` as a plain number, even where that names a calendar interval.
- A request that fails because its duration names no interval has by then already changed the bucket's limit or burst.

Numbers are 64-bit integers that wrap and doubles that are truncated to integers as Go on amd64 does it. `lua/limit.lua`
is the same arithmetic again; change both together, a property test compares them.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, TypeAlias

from argosy.throttle.limits.model import (
    Algorithm,
    Behavior,
    RateLimitRequest,
    RateLimitResponse,
    Status,
)

# Negative hits return tokens up to this. Redis computes in doubles, which skip integers above it.
REMAINING_MAX = 2**53

MINUTE, HOUR, DAY, WEEK, MONTH, YEAR = range(6)

_MINUTE_MS = 60_000
_HOUR = timedelta(hours=1)
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64_MIN = -(2**63)
# Plain integers: one operation on an IntFlag takes longer than a whole decision.
_GREGORIAN = int(Behavior.DURATION_IS_GREGORIAN)
_RESET = int(Behavior.RESET_REMAINING)
_DRAIN = int(Behavior.DRAIN_OVER_LIMIT)
_UNDER = Status.UNDER_LIMIT
_OVER = Status.OVER_LIMIT


# -- calendar intervals ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interval:
    """One minute, hour, day, month or year, both ends included.

    The length of a month or year is its true one. Upstream computes it with an operator precedence bug that makes such
    leaky buckets never leak, which no user can rely on.
    """

    begin_ms: int
    end_ms: int
    length_ms: int  # the leaky bucket's rate is computed from it


def calendar_interval(duration: int, now_ms: int, zone: tzinfo) -> Interval | None:
    """The interval of this kind that contains `now_ms`; None if there is no such kind, see `calendar_error`.

    The caller passes the time zone. Gubernator uses that of its host, which in most containers is UTC.
    """
    if duration == MINUTE:  # those of UTC in every zone, as upstream
        begin_ms = now_ms - now_ms % _MINUTE_MS
        return Interval(begin_ms, begin_ms + _MINUTE_MS - 1, _MINUTE_MS)
    now = (_EPOCH + now_ms * _MILLISECOND).astimezone(zone)
    if duration == HOUR:
        begin = now.replace(minute=0, second=0, microsecond=0)
        return _between(begin, begin.astimezone(UTC) + _HOUR)
    if duration == DAY:
        begin = _midnight(now)
        return _between(begin, _midnight(begin + timedelta(days=1)), length_ms=86_400_000)
    if duration == MONTH:
        begin = _midnight(now).replace(day=1)
        return _between(begin, _midnight(begin + timedelta(days=31)).replace(day=1))
    if duration == YEAR:
        begin = _midnight(now).replace(month=1, day=1)
        return _between(begin, begin.replace(year=begin.year + 1))
    return None


def calendar_error(duration: int) -> str:
    """The error of a request whose duration names no interval. Weeks are rejected upstream too."""
    if duration == WEEK:
        return "gregorian weeks are not supported; use 2 (day) or 4 (month)"
    return f"duration {duration} is not a gregorian interval; use 0 (minute), 1 (hour), 2 (day), 4 (month) or 5 (year)"


def _midnight(day: datetime) -> datetime:
    return day.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _between(begin: datetime, after: datetime, *, length_ms: int = 0) -> Interval:
    """From `begin` to just before `after`. A day counts 24 hours even when the clocks are changed on it."""
    begin_ms, after_ms = _ms(begin), _ms(after)
    return Interval(begin_ms, after_ms - 1, length_ms or after_ms - begin_ms)


def _ms(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // _MILLISECOND


# -- buckets --------------------------------------------------------------------------------------------------------


class TokenBucket(NamedTuple):
    """`remaining` of `limit` tokens, until `expire_at`: a window that began with the first hit."""

    limit: int
    duration: int
    remaining: int
    created_at: int
    expire_at: int
    status: Status = _UNDER


class LeakyBucket(NamedTuple):
    """Room for `remaining` of `burst` hits as of `updated_at`. Limit and duration are those of each request."""

    burst: int
    remaining: float
    updated_at: int
    expire_at: int


Bucket: TypeAlias = TokenBucket | LeakyBucket


class BucketUpdate(NamedTuple):
    """The answer to a request, and the bucket after it; None if no bucket is stored."""

    bucket: Bucket | None
    response: RateLimitResponse


def decide(bucket: Bucket | None, request: RateLimitRequest, *, now_ms: int, interval: Interval | None) -> BucketUpdate:
    """Answers a request that `model.request_error` accepts.

    `interval` is the calendar interval around `now_ms` that `request.duration` names, and None if it names none; it
    matters only to requests with DURATION_IS_GREGORIAN.
    """
    # 0 means not set, as in protobuf.
    created_at = request.created_at or now_ms
    # The store's clock decides whether the bucket has expired: a client with a wrong clock cannot revive one.
    live = bucket if bucket is not None and bucket.expire_at >= now_ms else None
    if request.algorithm == Algorithm.TOKEN_BUCKET:
        if live is not None and request.behavior & _RESET:
            return BucketUpdate(None, _under(request, request.limit, 0))
        if isinstance(live, TokenBucket):
            return _on_token(live, request, created_at, interval)
        return _new_token(request, created_at, interval)
    if isinstance(live, LeakyBucket):
        return _on_leaky(live, request, created_at, now_ms, interval)
    return _new_leaky(request, created_at, now_ms, interval)


# -- token bucket -----------------------------------------------------------------------------------------------------


def _new_token(request: RateLimitRequest, created_at: int, interval: Interval | None) -> BucketUpdate:
    expire_at = _end(request, created_at, interval)
    if expire_at is None:
        return _no_interval(None, request)
    is_over = request.hits > request.limit
    remaining = request.limit if is_over else request.limit - request.hits
    bucket = TokenBucket(request.limit, request.duration, remaining, created_at, expire_at)
    return _token_update(bucket, _OVER if is_over else _UNDER, remaining)


def _on_token(
    bucket: TokenBucket, request: RateLimitRequest, created_at: int, interval: Interval | None
) -> BucketUpdate:
    if bucket.limit != request.limit:
        moved = min(max(bucket.remaining + request.limit - bucket.limit, 0), REMAINING_MAX)
        bucket = bucket._replace(limit=request.limit, remaining=moved)
    left = bucket.remaining  # before a renewal: upstream judges this request by it, see the docstring of the module
    if bucket.duration != request.duration:
        expire_at = _end(request, bucket.created_at, interval)
        if expire_at is None:
            return _no_interval(bucket, request)
        if expire_at <= created_at:
            expire_at = created_at + request.duration
            bucket = bucket._replace(remaining=bucket.limit, created_at=created_at)
        bucket = bucket._replace(duration=request.duration, expire_at=expire_at)
    return _take_tokens(bucket, request, left)


def _end(request: RateLimitRequest, since: int, interval: Interval | None) -> int | None:
    """The end of a window that began at `since`; None if the duration should name a calendar interval and does not."""
    if not request.behavior & _GREGORIAN:
        return since + request.duration
    return None if interval is None else interval.end_ms


def _take_tokens(bucket: TokenBucket, request: RateLimitRequest, left: int) -> BucketUpdate:
    hits = request.hits
    if hits == 0:
        return _token_update(bucket, bucket.status, left)
    # Upstream marks the bucket itself, which is why it stays OVER_LIMIT until it expires.
    if left == 0 and hits > 0:
        return _token_update(bucket._replace(status=_OVER), _OVER, 0)
    if hits == bucket.remaining:
        return _token_update(bucket._replace(remaining=0), bucket.status, 0)
    if hits > bucket.remaining:
        if request.behavior & _DRAIN:
            return _token_update(bucket._replace(remaining=0), _OVER, 0)
        return _token_update(bucket, _OVER, left)
    remaining = min(bucket.remaining - hits, REMAINING_MAX)
    return _token_update(bucket._replace(remaining=remaining), bucket.status, remaining)


def _token_update(bucket: TokenBucket, status: Status, remaining: int) -> BucketUpdate:
    return BucketUpdate(bucket, RateLimitResponse(status, bucket.limit, remaining, bucket.expire_at))


# -- leaky bucket -----------------------------------------------------------------------------------------------------


def _new_leaky(request: RateLimitRequest, created_at: int, now_ms: int, interval: Interval | None) -> BucketUpdate:
    duration = request.duration
    if request.behavior & _GREGORIAN:
        if interval is None:
            return _no_interval(None, request)
        duration = interval.end_ms - now_ms
    burst = request.burst or request.limit
    is_over = request.hits > burst
    remaining = 0 if is_over else burst - request.hits
    step_ms = truncate(_rate(request.duration, request.limit))
    reset_time = wrap_int64(created_at + (request.limit - remaining) * step_ms)
    bucket = LeakyBucket(burst, float(remaining), created_at, created_at + duration)
    return BucketUpdate(bucket, RateLimitResponse(_OVER if is_over else _UNDER, request.limit, remaining, reset_time))


def _on_leaky(
    bucket: LeakyBucket, request: RateLimitRequest, created_at: int, now_ms: int, interval: Interval | None
) -> BucketUpdate:
    burst = request.burst or request.limit
    remaining = float(burst) if request.behavior & _RESET else bucket.remaining
    if bucket.burst != burst and burst > truncate(remaining):
        remaining = float(burst)
    length, duration = request.duration, request.duration
    if request.behavior & _GREGORIAN:
        if interval is None:
            return _no_interval(bucket._replace(burst=burst, remaining=remaining), request)
        length, duration = interval.length_ms, interval.end_ms - now_ms
    rate = _rate(length, request.limit)
    expire_at = created_at + duration if request.hits else bucket.expire_at
    leak = (created_at - bucket.updated_at) / rate if rate else 0.0
    updated_at = bucket.updated_at
    # Only whole hits leak, as upstream; `updated_at` stays until then, so that fractions are not lost.
    if truncate(leak) > 0:
        remaining, updated_at = remaining + leak, created_at
    if truncate(remaining) > burst:
        remaining = float(burst)
    leaked = LeakyBucket(burst, remaining, updated_at, expire_at)
    return _pour(leaked, request, created_at, truncate(rate))


def _pour(bucket: LeakyBucket, request: RateLimitRequest, created_at: int, step_ms: int) -> BucketUpdate:
    hits, room = request.hits, truncate(bucket.remaining)
    if hits > room:
        reset_time = wrap_int64(created_at + (request.limit - room) * step_ms)
        if request.behavior & _DRAIN and room != 0:  # a fraction of a hit stays, as upstream
            bucket, room = bucket._replace(remaining=0.0), 0
        return BucketUpdate(bucket, RateLimitResponse(_OVER, request.limit, room, reset_time))
    if hits == room:
        bucket = bucket._replace(remaining=0.0)
    elif hits:
        bucket = bucket._replace(remaining=bucket.remaining - hits)
    room = truncate(bucket.remaining)
    return BucketUpdate(bucket, _under(request, room, wrap_int64(created_at + (request.limit - room) * step_ms)))


def _rate(length_ms: int, limit: int) -> float:
    """Milliseconds for one hit to leak; without a limit, the result of Go's division by zero."""
    if limit:
        return length_ms / limit
    return float("nan") if length_ms == 0 else float("inf") * length_ms


# -- both -------------------------------------------------------------------------------------------------------------


def _under(request: RateLimitRequest, remaining: int, reset_time: int) -> RateLimitResponse:
    return RateLimitResponse(_UNDER, request.limit, remaining, reset_time)


def _no_interval(bucket: Bucket | None, request: RateLimitRequest) -> BucketUpdate:
    return BucketUpdate(bucket, RateLimitResponse(error=calendar_error(request.duration)))


def truncate(number: float) -> int:
    """A double as an int64. amd64 converts NaN and everything that does not fit to the smallest integer."""
    return int(number) if -(2.0**63) <= number < 2.0**63 else _INT64_MIN


def wrap_int64(number: int) -> int:
    """An integer of any size as an int64."""
    return (number - _INT64_MIN) % 2**64 + _INT64_MIN
