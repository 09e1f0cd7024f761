"""Operations: one at a time in a scope, led under a fence, resumed at the last phase committed."""

import pytest

from argosy.base.errors import Conflict, Fenced, Invalid, NotFound
from argosy.registry import leadership
from argosy.registry.rows import ControlOperation, OperationStatus
from argosy.registry.transaction import Transaction
from tests.registry.interpreter import START_MS, Interpreter


def start(operation_id: str, scope: str = "reshard:docs", fence: int = 1) -> Transaction[ControlOperation]:
    return leadership.start_operation(operation_id, "reshard", scope, phase="copy", fence=fence, state={"done": 0})


def test_a_new_leader_resumes_at_the_last_phase_committed() -> None:
    store = Interpreter()
    store.run(start("op1"))
    store.pass_time(5)
    store.run(leadership.advance_operation("op1", 1, "verify", {"done": 10}))
    store.pass_time(5)
    resumed = store.run(leadership.resume_operation("reshard:docs", 2))
    assert resumed is not None
    assert (resumed.phase, resumed.state, resumed.fence) == ("verify", {"done": 10}, 2)
    assert (resumed.phase_started_at, resumed.updated_at) == (START_MS + 5, START_MS + 10)


def test_a_leader_that_was_replaced_is_rejected() -> None:
    store = Interpreter()
    store.run(start("op1"))
    store.run(leadership.resume_operation("reshard:docs", 2))
    for program in (
        leadership.advance_operation("op1", 1, "swap"),
        leadership.finish_operation("op1", 1),
        leadership.pause_operation("op1", 1),
    ):
        with pytest.raises(Fenced, match="fence 2, not 1"):
            store.run(program)
    with pytest.raises(Fenced):
        store.run(leadership.resume_operation("reshard:docs", 1))
    assert store.run(leadership.advance_operation("op1", 2, "swap")).phase == "swap"


def test_a_scope_has_one_operation_at_a_time() -> None:
    store = Interpreter()
    store.run(start("op1"))
    with pytest.raises(Conflict, match="'op1' already has busy_scope"):
        store.run(start("op2"))
    with pytest.raises(Conflict, match="'op1' already exists"):
        store.run(start("op1", "other"))
    store.run(start("op3", "reshard:logs"))
    assert store.run(leadership.finish_operation("op1", 1)).status is OperationStatus.COMPLETED
    assert store.run(start("op2")).version == 1
    assert [each.operation_id for each in store.run(leadership.list_operations("reshard:docs"))] == ["op1", "op2"]
    assert len(store.run(leadership.list_operations())) == 3


def test_progress_within_a_phase_keeps_its_start() -> None:
    store = Interpreter()
    store.run(start("op1"))
    store.pass_time(5)
    moved = store.run(leadership.advance_operation("op1", 1, "copy", {"done": 3}))
    assert (moved.phase_started_at, moved.updated_at, moved.state) == (START_MS, START_MS + 5, {"done": 3})
    assert store.run(leadership.advance_operation("op1", 1, "verify")).state == {"done": 3}


def test_a_paused_operation_continues_when_it_is_resumed() -> None:
    store = Interpreter()
    store.run(start("op1"))
    assert store.run(leadership.pause_operation("op1", 1, "node away")).error == "node away"
    with pytest.raises(Conflict, match="is paused"):
        store.run(leadership.advance_operation("op1", 1, "verify"))
    resumed = store.run(leadership.resume_operation("reshard:docs", 1))
    assert resumed is not None
    assert resumed.status is OperationStatus.RUNNING


def test_an_ended_operation_stays_ended() -> None:
    store = Interpreter()
    store.run(start("op1"))
    assert store.run(leadership.finish_operation("op1", 1, "disk full")).status is OperationStatus.FAILED
    with pytest.raises(Conflict, match="failed already"):
        store.run(leadership.finish_operation("op1", 1))
    assert store.run(leadership.resume_operation("reshard:docs", 2)) is None
    with pytest.raises(NotFound):
        store.run(leadership.finish_operation("op9", 1))


def test_old_operations_are_pruned_when_they_have_ended() -> None:
    store = Interpreter()
    for n in range(3):
        store.run(start(f"op{n}", f"scope{n}"))
    store.run(leadership.finish_operation("op0", 1))
    store.run(leadership.finish_operation("op1", 1, "no"))
    assert store.run(leadership.prune_operations(START_MS)) == 0
    assert [store.run(leadership.prune_operations(START_MS + 1)) for _ in range(2)] == [2, 0]
    assert store.run(leadership.read_operation("op0")) is None
    assert store.run(leadership.read_operation("op2")) is not None


def test_bad_input_is_rejected() -> None:
    store = Interpreter()
    with pytest.raises(Invalid):
        store.run(leadership.start_operation("op", "", "scope", phase="p", fence=1))
    with pytest.raises(Invalid):
        store.run(leadership.advance_operation("op", 1, ""))
