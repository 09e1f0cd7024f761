"""Deadlines combine: the first one counts, and None is never."""

from argosy.base.state_machine import earliest


def test_the_first_deadline_counts() -> None:
    assert earliest(3.0, 1.0, 2.0) == 1.0


def test_never_is_later_than_any_deadline() -> None:
    assert earliest(None, 5.0, None) == 5.0


def test_zero_is_a_deadline_and_not_never() -> None:
    assert earliest(0.0, None) == 0.0


def test_only_never_is_never() -> None:
    assert earliest(None, None) is None
    assert earliest() is None
