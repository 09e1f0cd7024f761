"""Change delivery: cursors only move forward, and overflow is exact to the byte."""

import pytest

from argosy.base.errors import Conflict, Invalid
from argosy.registry import changes
from argosy.registry.changes import OverflowStats
from tests.registry.interpreter import Interpreter


def test_events_of_an_index_are_numbered() -> None:
    store = Interpreter()
    assert store.run(changes.last_seq("docs")) == 0
    assert [store.run(changes.next_seq(index)) for index in ("docs", "docs", "logs")] == [1, 2, 1]
    assert store.run(changes.last_seq("docs")) == 2


def test_a_cursor_moves_forward_from_its_position() -> None:
    """Defect R16: a cursor could go back, and the list of cursors was empty."""
    store = Interpreter()
    assert store.run(changes.advance("hook", "docs", expected_seq=0, new_seq=5)).last_event_seq == 5
    with pytest.raises(Conflict, match="is at 5, not 0"):
        store.run(changes.advance("hook", "docs", expected_seq=0, new_seq=9))
    with pytest.raises(Invalid, match="forward"):
        store.run(changes.advance("hook", "docs", expected_seq=5, new_seq=5))
    store.run(changes.advance("hook", "docs", expected_seq=5, new_seq=7))
    store.run(changes.advance("hook", "logs", expected_seq=0, new_seq=1))
    store.run(changes.advance("nats", "docs", expected_seq=0, new_seq=2))
    assert [(c.index_uid, c.last_event_seq) for c in store.run(changes.cursors("hook"))] == [("docs", 7), ("logs", 1)]


def test_of_two_concurrent_advances_one_is_rejected() -> None:
    store = Interpreter()
    store.meanwhile(changes.advance("hook", "docs", expected_seq=0, new_seq=3))
    with pytest.raises(Conflict, match="is at 3"):
        store.run(changes.advance("hook", "docs", expected_seq=0, new_seq=8))


def test_overflow_drops_the_oldest_and_counts_bytes_exactly() -> None:
    """Defect R21: one string, a size check that raced, and no way to consume."""
    store = Interpreter()
    for event in (b"aaaa", b"bbb", b"cc"):
        store.run(changes.push("hook", event, max_bytes=10))
    assert store.run(changes.overflow("hook")) == OverflowStats(3, 9, 0)
    store.run(changes.push("hook", b"dd", max_bytes=10))
    assert store.run(changes.overflow("hook")) == OverflowStats(3, 7, 1)
    assert store.run(changes.pop("hook", 2)) == (b"bbb", b"cc")
    assert store.run(changes.overflow("hook")) == OverflowStats(1, 2, 1)
    assert store.run(changes.pop("hook", 9)) == (b"dd",)
    assert store.run(changes.pop("hook")) == ()
    assert store.run(changes.overflow("other")) == OverflowStats(0, 0, 0)


def test_an_event_that_cannot_fit_is_rejected_before_it_drops_others() -> None:
    store = Interpreter()
    store.run(changes.push("hook", b"kept", max_bytes=10))
    with pytest.raises(Invalid, match="1 to 10 bytes"):
        store.run(changes.push("hook", b"x" * 11, max_bytes=10))
    with pytest.raises(Invalid):
        store.run(changes.push("hook", b""))
    assert store.run(changes.overflow("hook")) == OverflowStats(1, 4, 0)


def test_a_sink_leaves_nothing() -> None:
    store = Interpreter()
    for index in ("docs", "logs"):
        store.run(changes.advance("hook", index, expected_seq=0, new_seq=1))
    store.run(changes.push("hook", b"event"))
    assert (store.run(changes.remove_sink("hook")), store.run(changes.remove_sink("hook"))) == (2, 0)
    assert store.run(changes.cursor("hook", "docs")) is None
    assert store.run(changes.overflow("hook")) == OverflowStats(0, 0, 0)
