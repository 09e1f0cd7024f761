"""What one decision costs: ours is to register a request and to report its outcome, the others' is one call.

CPU is that of this thread. Of many measurements the least counts: whatever else the machine does only adds to it.
A congested client has blame on all its levels, so that every part of both calls is gone through.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from argosy.base.backends.servers import Valkey
from argosy.throttle import FairThrottle, Outcome

CLIENTS = [f"client-{number:04d}" for number in range(1000)]
HUNDRED = 100  # clients that are timed together: short enough that little comes between
ROUNDS = 7  # over all clients
BLAME = 12  # failures of each congested client: a probability of 0.48

Clock = Callable[[], int]


def least_ns(decide: Callable[[Sequence[str]], None], rounds: int, clock: Clock = time.thread_time_ns) -> float:
    """Nanoseconds per client, of the hundred clients that were decided on soonest."""
    found = []
    for _ in range(rounds):
        for start in range(0, len(CLIENTS), HUNDRED):
            some = CLIENTS[start : start + HUNDRED]
            started = clock()
            decide(some)
            found.append(clock() - started)
    return min(found) / HUNDRED


def healthy_ns(rounds: int = ROUNDS) -> float:
    """Nobody fails."""
    return least_ns(_both(FairThrottle()), rounds)


def congested_ns(rounds: int = ROUNDS, *, is_shared: bool = False, clock: Clock = time.thread_time_ns) -> float:
    """Everybody has failed, and is let through all the same; `is_shared` keeps account for the other instances."""
    return least_ns(_both(_blaming(is_shared=is_shared)), rounds, clock)


def turned_away_ns(rounds: int = ROUNDS, *, is_shared: bool = False, clock: Clock = time.thread_time_ns) -> float:
    """Everybody has failed, and about half are turned away: nothing is reported of them, as it should be."""
    throttle = _blaming(is_shared=is_shared)
    register, report, outcome = throttle.register, throttle.report, Outcome.SUCCESS

    def decide(clients: Sequence[str]) -> None:
        for client in clients:
            if not register(client).throttled:
                report(client, outcome)

    return least_ns(decide, rounds, clock)


def _blaming(*, is_shared: bool) -> FairThrottle:
    throttle = FairThrottle()
    if is_shared:
        throttle.share()
    for client in CLIENTS:
        for _ in range(BLAME):
            throttle.report(client, Outcome.FAILURE)
    return throttle


def _both(throttle: FairThrottle) -> Callable[[Sequence[str]], None]:
    register, report, outcome = throttle.register, throttle.report, Outcome.SUCCESS

    def decide(clients: Sequence[str]) -> None:
        for client in clients:
            register(client)
            report(client, outcome)

    return decide


def token_bucket_ns(rounds: int = ROUNDS) -> float:
    from token_bucket import Limiter, MemoryStorage

    return least_ns(_each(Limiter(1_000_000, 1_000_000, MemoryStorage()).consume), rounds)


def limits_memory_ns(rounds: int = ROUNDS, *, is_moving: bool = False) -> float:
    from limits.storage import MemoryStorage

    return least_ns(_each(_limiter(MemoryStorage(), is_moving=is_moving)), rounds)


def limits_redis_ns(server: Valkey, rounds: int = ROUNDS, *, clock: Clock = time.thread_time_ns) -> float:
    from limits.storage import RedisStorage

    return least_ns(_each(_limiter(RedisStorage(server.url))), rounds, clock)


def _limiter(storage: Any, *, is_moving: bool = False) -> Callable[[str], object]:
    from limits import RateLimitItemPerMinute
    from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

    limiter = (MovingWindowRateLimiter if is_moving else FixedWindowRateLimiter)(storage)
    allowed = RateLimitItemPerMinute(100)
    return lambda client: limiter.hit(allowed, client)


def _each(hit: Callable[[str], object]) -> Callable[[Sequence[str]], None]:
    def decide(clients: Sequence[str]) -> None:
        for client in clients:
            hit(client)

    return decide
