"""The circuit breaker: opens after consecutive failures, admits one probe, and waits longer each time."""

from argosy.base.clock import seeded_random
from argosy.base.retry import Backoff
from argosy.gateway.load_balancer import Breaker, BreakerState


def breaker(failures_max: int = 3) -> Breaker:
    return Breaker(failures_max, Backoff(first_s=1.0, ceiling_s=8.0), seeded_random(1))


def open_breaker(now: float = 0.0) -> Breaker:
    made = breaker()
    for _ in range(3):
        made.on_failure(now)
    return made


def test_failures_in_a_row_open_it() -> None:
    made = breaker()
    made.on_failure(0.0)
    made.on_failure(0.0)
    assert made.admits(0.0)
    made.on_failure(0.0)
    assert made.state is BreakerState.OPEN
    assert not made.admits(0.4)


def test_a_success_in_between_resets_the_count() -> None:
    made = breaker()
    for _ in range(5):
        made.on_failure(0.0)
        made.on_failure(0.0)
        made.on_success()
    assert made.state is BreakerState.CLOSED


def test_a_single_probe_detects_whether_the_node_is_back() -> None:
    made = open_breaker()
    at = made.retry_at
    assert 0.5 <= at <= 1.0
    assert made.admits(at)
    made.on_start(at)
    assert made.state is BreakerState.HALF_OPEN
    assert not made.admits(at)
    made.on_success()
    assert made.admits(at)


def test_each_failed_probe_lengthens_the_wait_up_to_a_ceiling() -> None:
    made, waits = open_breaker(), []
    for _ in range(6):
        at = made.retry_at
        made.on_start(at)
        made.on_failure(at)
        waits.append(made.retry_at - at)
    assert [1 <= waits[0] <= 2, 2 <= waits[1] <= 4, 4 <= waits[2] <= 8] == [True] * 3
    assert all(4 <= wait <= 8 for wait in waits[3:])


def test_after_a_success_the_waits_start_short_again() -> None:
    made = open_breaker()
    made.on_start(made.retry_at)
    made.on_failure(made.retry_at)
    made.on_success()
    for _ in range(3):
        made.on_failure(100.0)
    assert made.retry_at - 100.0 <= 1.0


def test_failures_of_older_requests_do_not_lengthen_the_wait() -> None:
    made = open_breaker()
    at = made.retry_at
    made.on_failure(0.3)
    made.on_failure(0.4)
    assert made.retry_at == at


def test_a_cancelled_probe_allows_the_next_one() -> None:
    made = open_breaker()
    at = made.retry_at
    made.on_start(at)
    made.on_cancel(at + 1)
    assert made.state is BreakerState.OPEN
    assert made.admits(at + 1)


def test_cancelling_an_ordinary_request_changes_nothing() -> None:
    made = breaker()
    made.on_start(0.0)
    made.on_cancel(0.0)
    assert made.state is BreakerState.CLOSED
    late = open_breaker()
    at = late.retry_at
    late.on_cancel(0.1)
    assert late.retry_at == at
