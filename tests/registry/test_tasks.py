"""Control tasks: unique numbers, final states, lists newest first."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import tasks
from argosy.registry.crud import BATCH_MAX
from argosy.registry.rows import ControlTask, TaskStatus
from argosy.registry.tasks import TaskFilter
from tests.registry.interpreter import START_MS, Interpreter

S = TaskStatus


def add(store: Interpreter, task_id: str, **given: object) -> ControlTask:
    return store.run(tasks.insert(task_id, store.run(tasks.next_uid()), **given))  # type: ignore[arg-type]


def ids(page: tasks.TaskPage) -> list[str]:
    return [task.task_id for task in page.tasks]


@pytest.mark.parametrize(
    ("nodes", "whole"),
    [
        ((), S.ENQUEUED),
        ((S.SUCCEEDED, S.SUCCEEDED), S.SUCCEEDED),
        ((S.SUCCEEDED, S.FAILED, S.PROCESSING), S.FAILED),
        ((S.SUCCEEDED, S.PROCESSING, S.ENQUEUED), S.PROCESSING),
        ((S.SUCCEEDED, S.ENQUEUED), S.ENQUEUED),
        ((S.CANCELED, S.CANCELED), S.CANCELED),
        ((S.CANCELED, S.SUCCEEDED), S.FAILED),
    ],
)
def test_a_tasks_status_follows_from_its_nodes(nodes: tuple[TaskStatus, ...], whole: TaskStatus) -> None:
    assert tasks.aggregate(nodes) is whole


def test_a_new_task_has_the_stores_time_and_a_growing_number() -> None:
    store = Interpreter()
    first, second = add(store, "a", index_uid="docs", task_type="add"), add(store, "b")
    assert (first.task_uid, second.task_uid) == (1, 2)
    assert (first.created_at, first.status, first.started_at, first.version) == (START_MS, S.ENQUEUED, None, 1)
    assert store.run(tasks.read("a")) == first
    assert store.run(tasks.read("c")) is None


def test_an_id_is_unique() -> None:
    store = Interpreter()
    add(store, "a")
    with pytest.raises(Conflict, match="'a' already exists, as number 1"):
        add(store, "a")
    with pytest.raises(Invalid, match="next_uid"):
        store.run(tasks.insert("b", 0))
    assert store.run(tasks.count()) == 1


def test_a_task_that_has_ended_never_changes_again() -> None:
    store = Interpreter()
    add(store, "a")
    store.pass_time(5)
    assert store.run(tasks.set_status("a", S.PROCESSING)).started_at == START_MS + 5
    store.pass_time(5)
    ended = store.run(tasks.set_status("a", S.FAILED, "disk full"))
    assert (ended.error, ended.finished_at, ended.started_at) == ("disk full", START_MS + 10, START_MS + 5)
    revision = store.revision
    assert store.run(tasks.set_status("a", S.PROCESSING)) == ended
    assert store.run(tasks.set_status("a", S.SUCCEEDED)) == ended
    assert store.revision == revision
    with pytest.raises(NotFound, match="'b' not found"):
        store.run(tasks.set_status("b", S.FAILED))


def test_nodes_that_answer_at_once_do_not_overwrite_each_other() -> None:
    """Defect R4: an update read, changed and wrote the whole row."""
    store = Interpreter()
    add(store, "a", node_tasks={"n0": "7"})
    store.meanwhile(tasks.set_node_task("a", "n1", "11"), tasks.set_node_task("a", "n2", "12", "refused"))
    task = store.run(tasks.set_node_task("a", "n3", "13"))
    assert task.node_tasks == {"n0": "7", "n1": "11", "n2": "12", "n3": "13"}
    assert task.node_errors == {"n2": "refused"}
    with pytest.raises(Invalid):
        store.run(tasks.set_node_task("a", "", "1"))


def test_pages_go_from_newest_to_oldest() -> None:
    store = Interpreter()
    for name in "abcde":
        add(store, name)
    first = store.run(tasks.page(limit=2))
    assert (ids(first), first.next_uid) == (["e", "d"], 3)
    second = store.run(tasks.page(from_uid=first.next_uid, limit=2))
    assert (ids(second), second.next_uid) == (["c", "b"], 1)
    third = store.run(tasks.page(from_uid=second.next_uid, limit=2))
    assert (ids(third), third.next_uid) == (["a"], None)
    with pytest.raises(Invalid, match="1 to 1000"):
        store.run(tasks.page(limit=0))


def test_filters_narrow_one_another_and_values_are_alternatives() -> None:
    store = Interpreter()
    for n, (index, kind) in enumerate([("docs", "add"), ("docs", "drop"), ("logs", "add"), (None, "add")]):
        add(store, f"t{n}", index_uid=index, task_type=kind)
        store.pass_time(10)
    store.run(tasks.set_status("t0", S.SUCCEEDED))
    store.run(tasks.set_status("t2", S.FAILED))
    found = {
        "docs": TaskFilter(index_uids=["docs"]),
        "both": TaskFilter(index_uids=["docs", "logs"], types=["add"]),
        "ended": TaskFilter(statuses=[S.SUCCEEDED, S.FAILED]),
        "late": TaskFilter(created_after=START_MS + 10),
        "early": TaskFilter(created_before=START_MS + 10),
        "named": TaskFilter(uids=[1, 3, 99], types=["add"]),
        "nothing": TaskFilter(statuses=[]),
        "no number": TaskFilter(uids=[]),
    }
    assert {name: ids(store.run(tasks.page(where))) for name, where in found.items()} == {
        "docs": ["t1", "t0"],
        "both": ["t2", "t0"],
        "ended": ["t2", "t0"],
        "late": ["t3", "t2"],
        "early": ["t0"],
        "named": ["t2", "t0"],
        "nothing": [],
        "no number": [],
    }
    named = store.run(tasks.page(TaskFilter(uids=[1, 2, 3]), limit=1))
    assert (ids(named), named.next_uid) == (["t2"], 2)
    with pytest.raises(Invalid, match="100 tasks"):
        TaskFilter(uids=range(101))
    with pytest.raises(Invalid, match="16 indexes"):
        TaskFilter(index_uids=list("abcdefghijklmnopqrstuvw"))


def test_a_rare_task_is_found_after_many_others_by_paging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_SCAN", 2)
    monkeypatch.setattr(tasks, "SCAN_MAX", 6)
    store = Interpreter()
    add(store, "rare", task_type="rare")
    for n in range(9):
        add(store, f"t{n}", task_type="add")
    where, start, pages = TaskFilter(types=["rare"]), None, 0
    found: list[str] = []
    while True:
        page = store.run(tasks.page(where, from_uid=start, limit=5))
        found, start, pages = found + ids(page), page.next_uid, pages + 1
        if start is None:
            break
    assert (found, pages) == (["rare"], 2)


def test_counts_go_by_status() -> None:
    store = Interpreter()
    for name in "abc":
        add(store, name)
    store.run(tasks.set_status("a", S.SUCCEEDED))
    assert [store.run(tasks.count(status)) for status in (None, S.ENQUEUED, S.SUCCEEDED, S.FAILED)] == [3, 2, 1, 0]


def test_only_old_tasks_that_have_ended_are_pruned_a_batch_at_a_time() -> None:
    """Defect R23: tasks were never pruned."""
    store = Interpreter()
    for n in range(5):
        add(store, f"old{n}", status=S.SUCCEEDED if n else S.PROCESSING)
    store.pass_time(1000)
    add(store, "new", status=S.FAILED)
    assert [store.run(tasks.prune(START_MS + 1000, limit=3)) for _ in range(3)] == [3, 1, 0]
    assert ids(store.run(tasks.page())) == ["new", "old0"]
    with pytest.raises(Invalid):
        store.run(tasks.prune(0, limit=BATCH_MAX + 1))


def test_pruners_that_share_the_work_list_first_and_delete_their_part() -> None:
    store = Interpreter()
    for n in range(4):
        add(store, f"t{n}", status=S.SUCCEEDED)
    add(store, "busy", status=S.PROCESSING)
    store.pass_time(1)
    ended = store.run(tasks.list_ended(store.clock_ms, after_uid=1, limit=2))
    assert [task.task_id for task in ended] == ["t1", "t2"]
    assert store.run(tasks.delete_many(["t1", "t1", "busy", "unknown"])) == 1
    assert store.run(tasks.delete_many([])) == 0
    assert ids(store.run(tasks.page())) == ["busy", "t3", "t2", "t0"]
    with pytest.raises(Invalid, match="at most 500"):
        store.run(tasks.delete_many(["x"] * 501))
