"""Peers of the throttle benchmark: the rate limiters token-bucket and limits.

They answer another question, a quota for each client whether or not anything is short, so only the cost of a decision
is compared.
"""

from collections.abc import Callable, Mapping
from typing import Any

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter
from token_bucket import Limiter
from token_bucket import MemoryStorage as BucketStorage

from argosy.base.backends.servers import Valkey
from argosy.bench.throttle.decisions import NanosecondClock, call_each, least_ns


def token_bucket_ns(rounds: int) -> float:
    """With a rate that is never exceeded, so that it always admits."""
    return least_ns(call_each(Limiter(1_000_000, 1_000_000, BucketStorage()).consume), rounds)


def limits_fixed_ns(rounds: int) -> float:
    return least_ns(call_each(_hit(FixedWindowRateLimiter, MemoryStorage())), rounds)


def limits_moving_ns(rounds: int) -> float:
    return least_ns(call_each(_hit(MovingWindowRateLimiter, MemoryStorage())), rounds)


def limits_redis_ns(server: Valkey, rounds: int, clock: NanosecondClock) -> float:
    """Each decision is a round trip to the server."""
    return least_ns(call_each(_hit(FixedWindowRateLimiter, RedisStorage(server.url))), rounds, clock)


def _hit(strategy: Callable[[Any], Any], storage: Any) -> Callable[[str], object]:
    limiter = strategy(storage)
    allowed = RateLimitItemPerMinute(100)
    return lambda client: limiter.hit(allowed, client)


CPU_RUNS: Mapping[str, Callable[[int], float]] = {
    "token-bucket": token_bucket_ns,
    "limits fixed": limits_fixed_ns,
    "limits moving": limits_moving_ns,
}
