"""Periodic tasks per repository, each at its own time, a few at once."""

from argosy.search.fleet.periodic_scheduler import PeriodicScheduler


def gone_to(scheduler: PeriodicScheduler, now: float, first: int = 1) -> list[str]:
    names = []
    while (name := scheduler.next(now)) is not None:
        scheduler.begin(first + len(names), name)
        names.append(name)
    return names


def test_due_tasks_run_in_order_within_the_limit() -> None:
    scheduler = PeriodicScheduler(concurrency_max=2)
    for name, at in [("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 9.0)]:
        scheduler.set(name, at)
    assert gone_to(scheduler, 5.0) == ["a", "b"]
    assert scheduler.deadline() == 9.0  # c is due and waits for a place, not for time
    assert "c" in scheduler
    assert scheduler.end(1) == "a"
    assert gone_to(scheduler, 5.0, first=3) == ["c"]
    assert scheduler.under_way == 2


def test_a_moved_or_cancelled_task_is_not_run() -> None:
    scheduler = PeriodicScheduler(concurrency_max=1)
    for name in "abc":
        scheduler.set(name, 1.0)
    assert gone_to(scheduler, 1.0) == ["a"]
    scheduler.set("b", 7.0)
    scheduler.cancel("c")
    assert scheduler.end(1) == "a"
    assert gone_to(scheduler, 2.0) == []
    assert gone_to(scheduler, 7.0) == ["b"]
    assert scheduler.end(99) is None
