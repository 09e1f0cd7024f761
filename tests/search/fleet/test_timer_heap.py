"""The heap of timers."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.search.fleet.periodic_scheduler import TimerHeap


def test_the_earliest_is_first_and_due_entries_come_in_order() -> None:
    timers: TimerHeap[str] = TimerHeap()
    for name, at in [("b", 2.0), ("a", 1.0), ("c", 3.0)]:
        timers.set(name, at)
    assert timers.first() == 1.0
    assert timers.pop_due(2.0) == ["a", "b"]
    assert timers.first() == 3.0
    assert "a" not in timers


def test_a_new_time_replaces_the_old_one() -> None:
    timers: TimerHeap[str] = TimerHeap()
    timers.set("a", 1.0)
    timers.set("a", 5.0)
    assert timers.first() == 5.0
    assert timers.pop_due(4.0) == []
    timers.set("a", 2.0)
    assert timers.pop_due(9.0) == ["a"]
    assert timers.first() is None


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 20)), max_size=200))
def test_it_is_a_table_of_times(steps: list[tuple[str, int | None]]) -> None:
    timers: TimerHeap[str] = TimerHeap()
    table: dict[str, int] = {}
    for name, at in steps:
        if at is None:
            timers.remove(name)
            table.pop(name, None)
        else:
            timers.set(name, at)
            table[name] = at
        assert timers.first() == min(table.values(), default=None)
    assert sorted(timers.pop_due(10)) == sorted(name for name, at in table.items() if at <= 10)
