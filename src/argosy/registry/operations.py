"""Long-running changes that a leader drives through phases. The next leader resumes at the last committed phase.

Every step carries the fence of its leader: once a newer leader has resumed an operation, the previous one is rejected.
A scope has one operation at a time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from argosy.base.errors import Conflict, Fenced, Invalid
from argosy.registry import crud
from argosy.registry.crud import BATCH_MAX, check_key, check_unique, put_row, require
from argosy.registry.rows import ControlOperation, OperationStatus
from argosy.registry.tables import OPERATIONS
from argosy.registry.transaction import (
    Delete,
    Get,
    Now,
    TransactionBody,
    commit,
    find,
    get,
    now,
    read_many,
    transaction,
)

_ENDED = (OperationStatus.COMPLETED, OperationStatus.FAILED)


@transaction
def start(
    operation_id: str, type: str, scope: str, *, phase: str, fence: int, state: Mapping[str, Any] | None = None
) -> TransactionBody[ControlOperation]:
    """Starts an operation. Raises `Conflict` if the id exists or the scope has another operation."""
    check_key(OPERATIONS, (operation_id, scope))
    if not type or not phase:
        raise Invalid(f"an operation has a type and a first phase, not {type!r} and {phase!r}")
    clock, found = yield from read_many(Now(), Get(OPERATIONS, (operation_id,)))
    if found is not None:
        raise Conflict(f"operation {operation_id!r} already exists")
    operation = ControlOperation(
        operation_id,
        type,
        scope,
        phase,
        OperationStatus.RUNNING,
        clock,
        clock,
        clock,
        fence,
        state or {},
        busy_scope=scope,
    )
    yield from check_unique(OPERATIONS, operation)
    return (yield from put_row(OPERATIONS, operation))


@transaction
def advance(
    operation_id: str, fence: int, phase: str, state: Mapping[str, Any] | None = None
) -> TransactionBody[ControlOperation]:
    """Commits a phase (or, in the same phase, progress); without a state, the last one stays."""
    if not phase:
        raise Invalid("a phase has a name")
    operation, clock = yield from _require_led(operation_id, fence)
    if operation.status is not OperationStatus.RUNNING:
        raise Conflict(f"operation {operation_id!r} is {operation.status}: it does not advance")
    moved = replace(
        operation,
        phase=phase,
        phase_started_at=clock if phase != operation.phase else operation.phase_started_at,
        updated_at=clock,
        fence=fence,
        state=operation.state if state is None else state,
    )
    return (yield from put_row(OPERATIONS, moved))


@transaction
def pause(operation_id: str, fence: int, error: str | None = None) -> TransactionBody[ControlOperation]:
    """Pauses an operation until it is resumed."""
    return (yield from _set_status(operation_id, fence, OperationStatus.PAUSED, error))


@transaction
def finish(operation_id: str, fence: int, error: str | None = None) -> TransactionBody[ControlOperation]:
    """Completes an operation, or fails it with an error, and frees its scope."""
    status = OperationStatus.COMPLETED if error is None else OperationStatus.FAILED
    return (yield from _set_status(operation_id, fence, status, error))


@transaction
def resume(scope: str, fence: int) -> TransactionBody[ControlOperation | None]:
    """Resumes the operation of a scope under a new leader's fence; None if there is none."""
    check_key(OPERATIONS, (scope,))
    clock = yield from now()
    busy = yield from find(OPERATIONS, "busy", scope, limit=1)
    if not busy:
        return None
    _check_fence(busy[0], fence)
    resumed = replace(busy[0], status=OperationStatus.RUNNING, fence=fence, updated_at=clock)
    return (yield from put_row(OPERATIONS, resumed))


@transaction
def read(operation_id: str) -> TransactionBody[ControlOperation | None]:
    check_key(OPERATIONS, (operation_id,))
    return (yield from get(OPERATIONS, operation_id))


@transaction
def everything(scope: str | None = None) -> TransactionBody[list[ControlOperation]]:
    """All operations, or those of a scope, oldest first."""
    if scope is None:
        return (yield from crud.every(OPERATIONS))
    return (yield from crud.every(OPERATIONS, "scope", (scope,)))


@transaction
def prune(before: int) -> TransactionBody[int]:
    """Deletes a batch of operations that ended before a time; call it until it returns 0."""
    ended: list[ControlOperation] = []
    for status in _ENDED:
        if len(ended) < BATCH_MAX:
            ended += yield from find(OPERATIONS, "status", status, until=before - 1, limit=BATCH_MAX - len(ended))
    if ended:
        yield from commit(*(Delete(OPERATIONS, operation) for operation in ended))
    return len(ended)


def _set_status(
    operation_id: str, fence: int, status: OperationStatus, error: str | None
) -> TransactionBody[ControlOperation]:
    operation, clock = yield from _require_led(operation_id, fence)
    if operation.status in _ENDED:
        raise Conflict(f"operation {operation_id!r} is {operation.status} already")
    turned = replace(operation, status=status, updated_at=clock, fence=fence, error=error)
    return (yield from put_row(OPERATIONS, replace(turned, busy_scope=None) if status in _ENDED else turned))


def _require_led(operation_id: str, fence: int) -> TransactionBody[tuple[ControlOperation, int]]:
    clock = yield from now()
    operation = yield from require(OPERATIONS, operation_id)
    _check_fence(operation, fence)
    return operation, clock


def _check_fence(operation: ControlOperation, fence: int) -> None:
    if fence < operation.fence:
        raise Fenced(f"operation {operation.operation_id!r} is led under fence {operation.fence}, not {fence}: stop")
