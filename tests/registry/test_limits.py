"""Limits: a window with an end, a lock that doubles, an event that counts once."""

import pytest

from argosy.base.errors import Invalid
from argosy.registry import limits
from argosy.registry.limits import RateDecision
from tests.registry.interpreter import Interpreter

MINUTE = 60_000


def test_hits_are_counted_in_a_window_that_starts_with_the_first() -> None:
    """Defect R19: counting and setting the end were two steps, and the limit was ignored."""
    store = Interpreter()
    assert store.run(limits.hit_search_ui("1.2.3.4", limit=2)) == RateDecision(True, 1, 0)
    store.pass_time(MINUTE - 10)
    assert store.run(limits.hit_search_ui("1.2.3.4", limit=2)) == RateDecision(True, 2, 0)
    assert store.run(limits.hit_search_ui("1.2.3.4", limit=2)) == RateDecision(False, 3, 10)
    assert store.run(limits.hit_search_ui("::1", limit=2)) == RateDecision(True, 1, 0)
    store.pass_time(10)
    assert store.run(limits.hit_search_ui("1.2.3.4", limit=2)) == RateDecision(True, 1, 0)


def test_the_defaults_are_sixty_searches_and_ten_log_ins_a_minute() -> None:
    store = Interpreter()
    assert [store.run(limits.hit_search_ui("ip")).is_allowed for _ in range(61)] == [True] * 60 + [False]
    assert [store.run(limits.hit_admin_login("ip")).is_allowed for _ in range(11)] == [True] * 10 + [False]


def test_the_fifth_failure_locks_and_each_further_one_doubles_up_to_a_day() -> None:
    """Defect R20: a flag only, under the wrong key, without doubling."""
    store = Interpreter()
    locks = []
    for _ in range(14):
        locks.append(store.run(limits.login_failed("ip")) // MINUTE)
        store.pass_time(locks[-1] * MINUTE)
    assert locks == [0, 0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440]
    assert limits.lock_ms(10**6) == 24 * 60 * MINUTE


def test_a_locked_address_gets_the_remaining_time_and_is_not_counted() -> None:
    store = Interpreter()
    for _ in range(5):
        store.run(limits.login_failed("ip"))
    store.pass_time(MINUTE)
    assert store.run(limits.hit_admin_login("ip")) == RateDecision(False, 0, 9 * MINUTE)
    assert store.run(limits.login_locked_ms("ip")) == 9 * MINUTE
    assert store.run(limits.login_locked_ms("other")) == 0
    store.pass_time(9 * MINUTE)
    assert store.run(limits.hit_admin_login("ip")) == RateDecision(True, 1, 0)


def test_failures_outlive_their_lock_but_expire() -> None:
    """Later-branch defects: doubling restarted after a lock, and a counter below the threshold never expired."""
    store = Interpreter()
    for _ in range(5):
        store.run(limits.login_failed("ip"))
    store.pass_time(11 * MINUTE)
    assert store.run(limits.login_failed("ip")) == 20 * MINUTE
    store.pass_time(20 * MINUTE + limits.FAILURES_TTL_MS)
    assert store.run(limits.login_failed("ip")) == 0
    store.pass_time(limits.FAILURES_TTL_MS)
    assert [store.run(limits.login_failed("ip")) for _ in range(5)] == [0, 0, 0, 0, 10 * MINUTE]


def test_a_log_in_that_succeeds_clears_both() -> None:
    store = Interpreter()
    for _ in range(10):
        store.run(limits.hit_admin_login("ip"))
    store.run(limits.login_failed("ip"))
    store.run(limits.login_succeeded("ip"))
    store.run(limits.login_succeeded("never failed"))
    assert store.run(limits.hit_admin_login("ip")).count == 1
    assert store.run(limits.login_failed("ip")) == 0


def test_failures_at_once_are_all_counted() -> None:
    store = Interpreter()
    store.meanwhile(*(limits.login_failed("ip") for _ in range(4)))
    assert store.run(limits.login_failed("ip")) == 10 * MINUTE


def test_an_event_counts_once_within_a_day_however_often_it_is_reported() -> None:
    """A later-branch defect: reporting it again reset its expiry, so it never expired."""
    store = Interpreter()
    assert store.run(limits.is_first_seen("docs", "e1"))
    store.pass_time(limits.BEACON_MS - 1)
    assert not store.run(limits.is_first_seen("docs", "e1"))
    assert store.run(limits.is_first_seen("logs", "e1"))
    store.pass_time(1)
    store.meanwhile(limits.is_first_seen("docs", "e1"))
    assert not store.run(limits.is_first_seen("docs", "e1"))


def test_bad_input_is_rejected() -> None:
    store = Interpreter()
    for program in (
        limits.hit_search_ui("", limit=1),
        limits.hit_search_ui("ip", limit=0),
        limits.hit_search_ui("ip", window_ms=0),
        limits.is_first_seen("docs", "e", ttl_ms=0),
    ):
        with pytest.raises(Invalid):
            store.run(program)
