"""The limiter in this process: from threads, within its bound, and what it measures."""

from concurrent.futures import ThreadPoolExecutor

from argosy.base.clock import SystemClock
from argosy.base.metrics import Metrics
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.table import CHECKS, EVICTED, KEYS, now_ms
from tests.throttle.limits.stage import UNDER, HandClock, request

THREADS = 8


def test_threads_never_get_more_than_the_limit(clock: HandClock) -> None:
    limiter = MemoryLimiter(clock=clock)

    def call(_: int) -> int:
        answers = [limiter.check_now([request(1, limit=1000)])[0] for _ in range(200)]
        return sum(1 for answer in answers if answer.status == UNDER)

    with ThreadPoolExecutor(THREADS) as threads:
        assert sum(threads.map(call, range(THREADS))) == 1000


def test_a_limiter_measures_what_it_answered(clock: HandClock) -> None:
    metrics = Metrics()
    limiter = MemoryLimiter(clock=clock, keys_max=2, metrics=metrics)
    limiter.check_now([request(1, key=key) for key in ("a", "b", "c", "")])
    limiter.check_now([request(11, key="c")])
    assert {label: metrics.value(CHECKS, outcome=label) for label in ("under", "over", "error")} == {
        "under": 3,
        "over": 1,
        "error": 1,
    }
    assert (metrics.value(KEYS), metrics.value(EVICTED)) == (2, 1)


def test_the_time_is_in_whole_milliseconds_that_have_passed() -> None:
    class Fixed(SystemClock):
        def __init__(self, wall: float) -> None:
            self._wall = wall

        def wall(self) -> float:
            return self._wall

    assert now_ms(Fixed(1_700_000_000.1239)) == 1_700_000_000_123
    wrong = [ms for ms in range(1_700_000_000_000, 1_700_000_001_000) if now_ms(Fixed(ms / 1000)) != ms]
    assert wrong == []
