"""The adaptive limit on concurrent queries, and the order of waiting ones."""

from argosy.gateway.adaptive_limiter import LEAST, WINDOW, AdaptiveLimiter, QueryQueue

ALONE_S = 0.01
CORES = 3


def run(pace: AdaptiveLimiter, windows: int, *, cores: int | None, alone_s: float = ALONE_S) -> None:
    """Queries that come faster than they are answered; on so many cores those beyond them slow each other down."""
    for _ in range(windows * WINDOW):
        slower = 1.0 if cores is None else max(1.0, pace.limit / cores)
        pace.on_end(alone_s * slower, is_full=True)


def test_where_nothing_grows_slower_more_and_more_are_let_in() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 100, cores=None)
    assert pace.limit == 256


def test_where_cores_are_few_so_are_those_under_way() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 50, cores=CORES)
    assert LEAST <= pace.limit <= 4 * CORES


def test_a_crowd_is_thinned_out_within_a_few_windows() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 100, cores=None)
    run(pace, 10, cores=CORES)
    assert pace.limit <= 4 * CORES


def test_queries_that_take_longer_by_themselves_are_no_crowd() -> None:
    pace = AdaptiveLimiter(256)
    run(pace, 100, cores=None)
    run(pace, 60, cores=None, alone_s=20 * ALONE_S)
    assert pace.limit > 64


def test_where_few_ask_nothing_is_learnt_from_their_number() -> None:
    pace = AdaptiveLimiter(256)
    began = pace.limit
    for _ in range(50 * WINDOW):
        pace.on_end(ALONE_S, is_full=False)
    assert pace.limit == began


def test_the_bound_holds_however_low() -> None:
    for most in (1, 2, 5):
        pace = AdaptiveLimiter(most)
        run(pace, 50, cores=None)
        assert pace.limit == most
        run(pace, 50, cores=1)
        assert 1 <= pace.limit <= most


def test_turns_are_had_in_the_order_of_coming() -> None:
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


def test_who_comes_while_others_wait_does_not_overtake_them() -> None:
    turns: QueryQueue[str] = QueryQueue(AdaptiveLimiter(1))
    turns.begin()
    turns.wait("a")
    turns.under_way = 0
    assert not turns.may_begin()
