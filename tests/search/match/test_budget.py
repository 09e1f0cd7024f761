"""Deadline and cancellation: a spent budget stays spent, and the flag is not read again."""

from argosy.search.match.limits import Budget
from argosy.search.model import LimitHit
from tests.search.match.search_calls import CountingFlag


def test_time_runs_out_at_the_deadline() -> None:
    now = 100.0
    budget = Budget(lambda: now, wall_time_s=2.0)
    now = 101.9
    assert not budget.is_spent()
    now = 102.0
    assert budget.is_spent()
    now = 0.0
    assert budget.is_spent()
    assert budget.limit_hit is LimitHit.WALL_TIME


def test_no_wall_time_is_no_deadline() -> None:
    times = iter([0.0, 1e9, 2e9])
    budget = Budget(lambda: next(times))
    assert not budget.is_spent()
    assert budget.limit_hit is None


def test_a_raised_flag_is_seen_and_not_read_again() -> None:
    flag = CountingFlag(2)
    budget = Budget(lambda: 0.0, is_cancelled=flag)
    assert not budget.is_spent()
    assert budget.is_spent()
    assert budget.is_spent()
    assert (budget.limit_hit, flag.seen) == (LimitHit.CANCELLED, 2)


def test_at_the_deadline_the_caller_still_waits_for_the_result() -> None:
    flag = False
    budget = Budget(iter([0.0, 5.0]).__next__, wall_time_s=1.0, is_cancelled=lambda: flag)
    assert budget.is_spent()
    assert not budget.is_cancelled()
    flag = True
    assert budget.is_cancelled()
    assert budget.limit_hit is LimitHit.CANCELLED
