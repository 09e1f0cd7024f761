"""The order of tasks: by start, priority and id within a tenant, and fair among tenants."""

import random

from hypothesis import given
from hypothesis import strategies as st

from argosy.jobs.shard.queue import SWEEP_MIN, DelayQueue, Entry, TaskQueue

NOW = 1_000


def entry(start: int, id: str, *, priority: int = 50) -> Entry:
    return (start, priority, id, 1, f"task-{id}", 1, ())


def drain(queue: TaskQueue, group: str, now: int, most: int = 10_000) -> list[str]:
    taken = []
    while len(taken) < most and (task_id := queue.pop_due(group, now)) is not None:
        taken.append(task_id.removeprefix("task-"))
        queue.remove(task_id, 0)
    return taken


def test_one_tenants_hundred_thousand_tasks_delay_anothers_by_one() -> None:
    queue = TaskQueue()
    for number in range(100_000):
        queue.push("g", "noisy", entry(0, f"n{number}"))
    assert drain(queue, "g", NOW, 10) == sorted(f"n{number}" for number in range(100_000))[:10]
    queue.push("g", "quiet", entry(NOW, "q"))
    assert "q" in drain(queue, "g", NOW, 2)


def test_tenants_with_due_tasks_take_turns() -> None:
    queue = TaskQueue()
    for tenant in "abc":
        for number in range(3):
            queue.push("g", tenant, entry(number, f"{tenant}{number}"))
    queue.push("g", "later", entry(NOW + 1, "later"))
    assert drain(queue, "g", NOW) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]
    assert queue.next_at("g") == NOW + 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 3)), max_size=40), st.randoms())
def test_within_a_tenant_the_order_is_total_despite_removals(
    tasks: list[tuple[str, int, int]], dice: random.Random
) -> None:
    queue = TaskQueue()
    entries: dict[str, list[Entry]] = {"a": [], "b": []}
    for number, (tenant, start, priority) in enumerate(tasks):
        new_entry = entry(start, f"{number * 31 % 97}-{number}", priority=priority)
        queue.push("g", tenant, new_entry)
        if dice.random() < 0.3:
            queue.remove(new_entry[4], start)
        else:
            entries[tenant].append(new_entry)
    due = [new_entry for new_entry in sorted(entries["a"]) + sorted(entries["b"]) if new_entry[0] <= 10]
    taken = drain(queue, "g", 10)
    for tenant in "ab":
        expected = [new_entry[2] for new_entry in sorted(entries[tenant]) if new_entry[0] <= 10]
        assert [id for id in taken if id in expected] == expected
    assert len(taken) == len(due)
    assert queue.waiting == len(entries["a"]) + len(entries["b"]) - len(due)


def test_removed_tasks_do_not_linger() -> None:
    queue = TaskQueue()
    for number in range(4 * SWEEP_MIN):
        queue.push("g", "t", entry(number, f"{number}"))
    for number in range(4 * SWEEP_MIN - 1):
        queue.remove(f"task-{number}", number)
    assert sum(len(heap) for heap in queue.groups["g"].heaps.values()) <= SWEEP_MIN + 1
    assert drain(queue, "g", 10**9) == [f"{4 * SWEEP_MIN - 1}"]


def test_a_returned_task_comes_first_again_unless_removed_meanwhile() -> None:
    queue = TaskQueue()
    for id in "ab":
        queue.push("g", "t", entry(0, id))
    first, second = queue.pop_due("g", NOW), queue.pop_due("g", NOW)
    assert first is not None
    assert second is not None
    queue.remove(second, 0)
    queue.requeue(first)
    queue.requeue(second)
    assert drain(queue, "g", NOW) == ["a"]


def test_a_timer_has_one_time_per_key() -> None:
    timed: DelayQueue[str] = DelayQueue()
    timed.push(10, "a", "first")
    timed.push(20, "a", "second")
    assert timed.pop_due(15) is None
    assert timed.next_at() == 20
    assert timed.pop_due(20) == ("a", "second")
    timed.requeue("a")
    assert timed.remove("a") == "second"
    assert timed.next_at() is None
