"""The adaptive limit on concurrent queries, and the order of waiting ones."""

from argosy.gateway.adaptive_limiter import LEAST, WINDOW, AdaptiveLimiter, QueryQueue

ALONE_S = 0.01
CORES = 3


def run(pace: AdaptiveLimiter, windows: int, *, cores: int | None, alone_s: float = ALONE_S) -> None:
    """Queries that come faster than they are answered; on so many cores those beyond them slow each other down."""
    for _ in range(windows * WINDOW):
        slower = 1.0 if cores is None else max(1.0, pace.limit / cores)
        pace.on_end(alone_s * slower, is_full=True)


def test_without_slowdown_the_limit_grows() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 100, cores=None)
    assert pace.limit == 256


def test_with_few_cores_few_requests_are_in_flight() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 50, cores=CORES)
    assert LEAST <= pace.limit <= 4 * CORES


def test_overload_is_reduced_within_a_few_windows() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 100, cores=None)
    run(pace, 10, cores=CORES)
    assert pace.limit <= 4 * CORES


def test_slower_queries_alone_are_no_overload() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 100, cores=None)
    run(pace, 60, cores=None, alone_s=20 * ALONE_S)
    assert pace.limit > 64


def test_with_few_requests_the_limit_is_unchanged() -> None:
    pace = AdaptiveLimiter(256)
    began = pace.limit
    for _ in range(50 * WINDOW):
        pace.on_end(ALONE_S, is_full=False)
    assert pace.limit == began


def test_any_limit_holds_however_low() -> None:
    for most in (1, 2, 5):
        pace = AdaptiveLimiter(most)
        run(pace, 50, cores=None)
        assert pace.limit == most
        run(pace, 50, cores=1)
        assert 1 <= pace.limit <= most


def test_requests_are_admitted_in_order_of_arrival() -> None:
    turns: QueryQueue[str] = QueryQueue(AdaptiveLimiter(2))
    for _ in range(2):
        assert turns.may_begin()
        turns.begin()
    assert not turns.may_begin()
    for name in ("a", "b", "c"):
        turns.wait(name)
    assert turns.end(ALONE_S) == ["a"]
    turns.begin()
    turns.leave("b")
    turns.leave("b")
    assert turns.end(ALONE_S) == ["c"]
    turns.begin()
    assert (turns.waiting, turns.under_way) == (0, 2)


def test_a_new_request_does_not_overtake_waiting_ones() -> None:
    turns: QueryQueue[str] = QueryQueue(AdaptiveLimiter(1))
    turns.begin()
    turns.wait("a")
    turns.under_way = 0
    assert not turns.may_begin()
