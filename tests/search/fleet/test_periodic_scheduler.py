"""Errands to every repository, each at its own time, a few under way at once."""

from argosy.search.fleet.periodic_scheduler import PeriodicScheduler


def gone_to(rounds: PeriodicScheduler, now: float, first: int = 1) -> list[str]:
    names = []
    while (name := rounds.next(now)) is not None:
        rounds.begin(first + len(names), name)
        names.append(name)
    return names


def test_what_is_due_goes_in_order_as_far_as_there_are_places() -> None:
    rounds = PeriodicScheduler(places=2)
    for name, at in [("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 9.0)]:
        rounds.set(name, at)
    assert gone_to(rounds, 5.0) == ["a", "b"]
    assert rounds.deadline() == 9.0  # c is due and waits for a place, not for time
    assert "c" in rounds
    assert rounds.end(1) == "a"
    assert gone_to(rounds, 5.0, first=3) == ["c"]
    assert rounds.under_way == 2


def test_an_errand_that_was_moved_or_cancelled_is_not_run() -> None:
    rounds = PeriodicScheduler(places=1)
    for name in "abc":
        rounds.set(name, 1.0)
    assert gone_to(rounds, 1.0) == ["a"]
    rounds.set("b", 7.0)
    rounds.cancel("c")
    assert rounds.end(1) == "a"
    assert gone_to(rounds, 2.0) == []
    assert gone_to(rounds, 7.0) == ["b"]
    assert rounds.end(99) is None
