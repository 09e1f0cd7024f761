"""The cost of one decision: Argosy registers a request and reports its outcome, a peer makes one call.

CPU time is that of this thread. Of many measurements the least counts, because other load on the machine and cache
misses only add to it; a mean would mostly show the machine. A congested client has blame on all levels, so that every
part of both calls is executed.
"""

import time
from collections.abc import Callable, Sequence

from argosy.throttle import FairThrottle, Outcome

CLIENTS = [f"client-{number:04d}" for number in range(1000)]
CHUNK = 100  # clients that are timed together: long enough for the clock, short enough to be rarely interrupted
ROUNDS = 7  # over all clients
BLAME = 12  # failures of each congested client: a probability of 0.48

NanosecondClock = Callable[[], int]


def least_ns(
    decide: Callable[[Sequence[str]], None], rounds: int, clock: NanosecondClock = time.thread_time_ns
) -> float:
    """Nanoseconds per client, of the fastest chunk."""
    found = []
    for _ in range(rounds):
        for start in range(0, len(CLIENTS), CHUNK):
            chunk = CLIENTS[start : start + CHUNK]
            started = clock()
            decide(chunk)
            found.append(clock() - started)
    return min(found) / CHUNK


def call_each(call: Callable[[str], object]) -> Callable[[Sequence[str]], None]:
    """For a limiter that decides with one call."""

    def decide(clients: Sequence[str]) -> None:
        for client in clients:
            call(client)

    return decide


def healthy_ns(rounds: int = ROUNDS) -> float:
    """No request fails."""
    return least_ns(_register_and_report(FairThrottle()), rounds)


def admitted_ns(
    rounds: int = ROUNDS, *, is_shared: bool = False, clock: NanosecondClock = time.thread_time_ns
) -> float:
    """All clients are congested and every outcome is reported; with `is_shared`, deltas are kept for other instances.

    The most expensive path there is: blame is looked up, decided on and updated.
    """
    return least_ns(_register_and_report(_congested_throttle(is_shared=is_shared)), rounds, clock)


def congested_ns(rounds: int = ROUNDS) -> float:
    """All clients are congested and about half of the requests are throttled, of which nothing is reported."""
    throttle = _congested_throttle(is_shared=False)
    register, report, outcome = throttle.register, throttle.report, Outcome.SUCCESS

    def decide(clients: Sequence[str]) -> None:
        for client in clients:
            if not register(client).throttled:
                report(client, outcome)

    return least_ns(decide, rounds)


def _congested_throttle(*, is_shared: bool) -> FairThrottle:
    throttle = FairThrottle()
    if is_shared:
        throttle.share()
    for client in CLIENTS:
        for _ in range(BLAME):
            throttle.report(client, Outcome.FAILURE)
    return throttle


def _register_and_report(throttle: FairThrottle) -> Callable[[Sequence[str]], None]:
    register, report, outcome = throttle.register, throttle.report, Outcome.SUCCESS

    def decide(clients: Sequence[str]) -> None:
        for client in clients:
            register(client)
            report(client, outcome)

    return decide
