"""The arithmetic of token and leaky buckets, exactly Gubernator's: what a request is answered, and what is kept of it.

The rule: the same requests at the same times get the same answers as from Gubernator 2, corners included, because users
move between the two. Some corners look odd and are meant:

- An entry lives by the store's clock (`now_ms`), and is reckoned with by the request's own (`created_at`).
- A token bucket that was found empty stays OVER_LIMIT until it expires, even if its limit is raised meanwhile.
- When a shorter duration means that a token bucket has already ended, it is renewed, but this one request is still
  judged by what was left before.
- A new leaky bucket takes its rate from `duration` as a plain number, even where that names a calendar interval.
- A request that fails because its duration names no interval has by then already changed the bucket's limit or burst.

Numbers are 64-bit integers that wrap and doubles that are cut to integers as Go on amd64 does it. `lua/limit.lua` is
the same arithmetic again; the two are changed together, and a property test holds them equal.
"""

from typing import NamedTuple, TypeAlias

from argosy.throttle.limits import gregorian
from argosy.throttle.limits.gregorian import Interval
from argosy.throttle.limits.model import (
    Algorithm,
    Behavior,
    RateLimitRequest,
    RateLimitResponse,
    Status,
)

REMAINING_MAX = 2**53  # negative hits give tokens back, but not beyond this: above it doubles skip numbers

_INT64_MIN = -(2**63)
# Plain integers: an operation on an IntFlag costs more than the whole of a decision.
_GREGORIAN = int(Behavior.DURATION_IS_GREGORIAN)
_RESET = int(Behavior.RESET_REMAINING)
_DRAIN = int(Behavior.DRAIN_OVER_LIMIT)
_UNDER = Status.UNDER_LIMIT
_OVER = Status.OVER_LIMIT


class TokenBucket(NamedTuple):
    """`remaining` of `limit` tokens, until `expire_at`: a window that began with the first hit."""

    limit: int
    duration: int
    remaining: int
    created_at: int
    expire_at: int
    status: Status = _UNDER


class LeakyBucket(NamedTuple):
    """Room for `remaining` of `burst` hits as of `updated_at`. Limit and duration come anew with every request."""

    burst: int
    remaining: float
    updated_at: int
    expire_at: int


Bucket: TypeAlias = TokenBucket | LeakyBucket


class Decision(NamedTuple):
    """The answer, and the bucket as it is afterwards; None if none is kept."""

    bucket: Bucket | None
    response: RateLimitResponse


def decide(bucket: Bucket | None, request: RateLimitRequest, *, now_ms: int, interval: Interval | None) -> Decision:
    """Answers a request about which `model.complaint` has none.

    `interval` is the calendar interval around `now_ms` that `request.duration` names, and None if it names none; it
    matters only to requests that say DURATION_IS_GREGORIAN.
    """
    created_at = request.created_at or now_ms
    held = bucket if bucket is not None and bucket.expire_at >= now_ms else None
    if request.algorithm == Algorithm.TOKEN_BUCKET:
        if held is not None and request.behavior & _RESET:
            return Decision(None, _under(request, request.limit, 0))
        if isinstance(held, TokenBucket):
            return _on_token(held, request, created_at, interval)
        return _new_token(request, created_at, interval)
    if isinstance(held, LeakyBucket):
        return _on_leaky(held, request, created_at, now_ms, interval)
    return _new_leaky(request, created_at, now_ms, interval)


# -- token bucket -----------------------------------------------------------------------------------------------------


def _new_token(request: RateLimitRequest, created_at: int, interval: Interval | None) -> Decision:
    expire_at = _end(request, created_at, interval)
    if expire_at is None:
        return _no_interval(None, request)
    is_over = request.hits > request.limit
    remaining = request.limit if is_over else request.limit - request.hits
    bucket = TokenBucket(request.limit, request.duration, remaining, created_at, expire_at)
    return _token_answer(bucket, _OVER if is_over else _UNDER, remaining)


def _on_token(bucket: TokenBucket, request: RateLimitRequest, created_at: int, interval: Interval | None) -> Decision:
    if bucket.limit != request.limit:
        moved = min(max(bucket.remaining + request.limit - bucket.limit, 0), REMAINING_MAX)
        bucket = bucket._replace(limit=request.limit, remaining=moved)
    left = bucket.remaining  # before a renewal, see the head of this file
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
    """When a window ends that began at `since`; None if the duration names no calendar interval and should."""
    if not request.behavior & _GREGORIAN:
        return since + request.duration
    return None if interval is None else interval.end_ms


def _take_tokens(bucket: TokenBucket, request: RateLimitRequest, left: int) -> Decision:
    hits = request.hits
    if hits == 0:
        return _token_answer(bucket, bucket.status, left)
    if left == 0 and hits > 0:
        return _token_answer(bucket._replace(status=_OVER), _OVER, 0)
    if hits == bucket.remaining:
        return _token_answer(bucket._replace(remaining=0), bucket.status, 0)
    if hits > bucket.remaining:
        if request.behavior & _DRAIN:
            return _token_answer(bucket._replace(remaining=0), _OVER, 0)
        return _token_answer(bucket, _OVER, left)
    remaining = min(bucket.remaining - hits, REMAINING_MAX)
    return _token_answer(bucket._replace(remaining=remaining), bucket.status, remaining)


def _token_answer(bucket: TokenBucket, status: Status, remaining: int) -> Decision:
    return Decision(bucket, RateLimitResponse(status, bucket.limit, remaining, bucket.expire_at))


# -- leaky bucket -----------------------------------------------------------------------------------------------------


def _new_leaky(request: RateLimitRequest, created_at: int, now_ms: int, interval: Interval | None) -> Decision:
    duration = request.duration
    if request.behavior & _GREGORIAN:
        if interval is None:
            return _no_interval(None, request)
        duration = interval.end_ms - now_ms
    burst = request.burst or request.limit
    is_over = request.hits > burst
    remaining = 0 if is_over else burst - request.hits
    step_ms = truncated(_rate(request.duration, request.limit))
    reset_time = wrapped(created_at + (request.limit - remaining) * step_ms)
    bucket = LeakyBucket(burst, float(remaining), created_at, created_at + duration)
    return Decision(bucket, RateLimitResponse(_OVER if is_over else _UNDER, request.limit, remaining, reset_time))


def _on_leaky(
    bucket: LeakyBucket, request: RateLimitRequest, created_at: int, now_ms: int, interval: Interval | None
) -> Decision:
    burst = request.burst or request.limit
    remaining = float(burst) if request.behavior & _RESET else bucket.remaining
    if bucket.burst != burst and burst > truncated(remaining):
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
    if truncated(leak) > 0:
        remaining, updated_at = remaining + leak, created_at
    if truncated(remaining) > burst:
        remaining = float(burst)
    leaked = LeakyBucket(burst, remaining, updated_at, expire_at)
    return _pour(leaked, request, created_at, truncated(rate))


def _pour(bucket: LeakyBucket, request: RateLimitRequest, created_at: int, step_ms: int) -> Decision:
    hits, room = request.hits, truncated(bucket.remaining)
    if hits > room:
        reset_time = wrapped(created_at + (request.limit - room) * step_ms)
        if request.behavior & _DRAIN and room != 0:  # where there is no whole room, the fraction stays
            bucket, room = bucket._replace(remaining=0.0), 0
        return Decision(bucket, RateLimitResponse(_OVER, request.limit, room, reset_time))
    if hits == room:
        bucket = bucket._replace(remaining=0.0)
    elif hits:
        bucket = bucket._replace(remaining=bucket.remaining - hits)
    room = truncated(bucket.remaining)
    return Decision(bucket, _under(request, room, wrapped(created_at + (request.limit - room) * step_ms)))


def _rate(length_ms: int, limit: int) -> float:
    """Milliseconds for one hit to leak; without a limit, what a division by zero gives in Go."""
    if limit:
        return length_ms / limit
    return float("nan") if length_ms == 0 else float("inf") * length_ms


# -- both -------------------------------------------------------------------------------------------------------------


def _under(request: RateLimitRequest, remaining: int, reset_time: int) -> RateLimitResponse:
    return RateLimitResponse(_UNDER, request.limit, remaining, reset_time)


def _no_interval(bucket: Bucket | None, request: RateLimitRequest) -> Decision:
    return Decision(bucket, RateLimitResponse(error=gregorian.complaint(request.duration)))


def truncated(number: float) -> int:
    """A double cut to an int64, where amd64 gives the smallest for everything that does not fit and for NaN."""
    return int(number) if -(2.0**63) <= number < 2.0**63 else _INT64_MIN


def wrapped(number: int) -> int:
    """An integer of any size as an int64."""
    return (number - _INT64_MIN) % 2**64 + _INT64_MIN
