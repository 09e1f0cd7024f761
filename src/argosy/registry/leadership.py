"""Leader leases, and the long-running operations that a leader drives through phases.

Only the store's clock decides when a lease expires, so no two clocks are compared. The *fence* of a scope grows with
every new holder. A transaction that must run under a lease is wrapped in `under`: the commit that writes also checks
that the lease is still held.

An operation commits its phases, and the next leader resumes it at the last committed one. Every step carries the fence
of its leader: once a newer leader has resumed the operation, the previous one is rejected. A scope has one operation at
a time.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from argosy.base.errors import Conflict, Fenced, Invalid
from argosy.registry import crud
from argosy.registry.crud import BATCH_MAX, check_key, check_span, check_unique, put_row, require
from argosy.registry.rows import ControlOperation, LeaderLease, OperationStatus
from argosy.registry.tables import LEADER_LEASE, OPERATIONS
from argosy.registry.transaction import (
    Delete,
    Get,
    Now,
    T,
    Transaction,
    TransactionBody,
    commit,
    find,
    get,
    now,
    read_many,
    transaction,
)

# Renewed every 3 s. A leader that cannot renew for 7 s stops by itself, before the lease can expire.
TTL_MS = 10_000
TTL_MS_MAX = 3_600_000


@transaction
def acquire(scope: str, holder: str, ttl_ms: int = TTL_MS) -> TransactionBody[LeaderLease | None]:
    """Acquires a free or expired scope, or extends the caller's own lease. Returns None if another holder leads."""
    _check(holder)
    check_span("a lease", ttl_ms, TTL_MS_MAX)
    lease, clock = yield from _read(scope)
    if is_held(lease, clock):
        if lease.holder != holder:
            return None
        acquired = replace(lease, expires_at=clock + ttl_ms)
    else:
        # A new fence even for the same holder: writes of its earlier term may still be on their way.
        acquired = LeaderLease(scope, holder, clock + ttl_ms, lease.fence + 1, clock, lease.version)
    return (yield from put_row(LEADER_LEASE, acquired))


@transaction
def renew(scope: str, holder: str, fence: int, ttl_ms: int = TTL_MS) -> TransactionBody[bool]:
    """Extends a lease. Returns False if it is lost; the caller stops leading."""
    check_span("a lease", ttl_ms, TTL_MS_MAX)
    lease, clock = yield from _read(scope)
    # An expired lease counts as lost even if no one else has it yet: its holder had to stop leading by then.
    if not is_held(lease, clock) or (lease.holder, lease.fence) != (holder, fence):
        return False
    yield from put_row(LEADER_LEASE, replace(lease, expires_at=clock + ttl_ms))
    return True


@transaction
def release(scope: str, holder: str, fence: int) -> TransactionBody[bool]:
    """Releases a lease. Returns False if it is lost. The row stays, because its fence must never decrease."""
    lease, _ = yield from _read(scope)
    if (lease.holder, lease.fence) != (holder, fence):
        return False
    yield from put_row(LEADER_LEASE, replace(lease, holder=None, expires_at=0))
    return True


@transaction
def leader(scope: str) -> TransactionBody[LeaderLease | None]:
    """The current leader's lease, or None."""
    lease, clock = yield from _read(scope)
    return lease if is_held(lease, clock) else None


@transaction
def list_leases() -> TransactionBody[list[LeaderLease]]:
    """All scopes that ever had a leader."""
    return (yield from crud.every(LEADER_LEASE))


@transaction
def under(scope: str, holder: str, fence: int, write: Transaction[T]) -> TransactionBody[T]:
    """Runs a transaction under a lease. Raises `Fenced`, and writes nothing, if the lease is not held."""
    yield from guard(scope, holder, fence)
    return (yield from write)


def guard(scope: str, holder: str, fence: int) -> TransactionBody[None]:
    """Part of a body. It reads the lease, so the lease is one of the rows that must be unchanged at the commit: a
    leader that is replaced between its check and its write cannot write."""
    lease, clock = yield from _read(scope)
    if not is_held(lease, clock) or (lease.holder, lease.fence) != (holder, fence):
        raise Fenced(f"{holder!r} no longer leads {scope!r} under fence {fence}: the current fence is {lease.fence}")


def is_held(lease: LeaderLease, clock: int) -> bool:
    return lease.holder is not None and lease.expires_at > clock


def _read(scope: str) -> TransactionBody[tuple[LeaderLease, int]]:
    """The lease, or a new one at version 0, and the clock."""
    check_key(LEADER_LEASE, (scope,))
    clock, lease = yield from read_many(Now(), Get(LEADER_LEASE, (scope,)))
    return lease or LeaderLease(scope, None, 0, 0, 0), clock


def _check(holder: str) -> None:
    if not holder:
        raise Invalid("a leader has a name")


# -- operations -------------------------------------------------------------------------------------------------------


_ENDED = (OperationStatus.COMPLETED, OperationStatus.FAILED)


@transaction
def start_operation(
    operation_id: str, type: str, scope: str, *, phase: str, fence: int, state: Mapping[str, Any] | None = None
) -> TransactionBody[ControlOperation]:
    """Starts an operation. Raises `Conflict` if the id exists or the scope has another operation."""
    check_key(OPERATIONS, (operation_id, scope))
    if not type or not phase:
        raise Invalid(f"an operation has a type and a first phase, not {type!r} and {phase!r}")
    clock, existing = yield from read_many(Now(), Get(OPERATIONS, (operation_id,)))
    if existing is not None:
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
    # The unique index on `busy_scope` allows one operation per scope. It is None once the operation has ended.
    yield from check_unique(OPERATIONS, operation)
    return (yield from put_row(OPERATIONS, operation))


@transaction
def advance_operation(
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
def pause_operation(operation_id: str, fence: int, error: str | None = None) -> TransactionBody[ControlOperation]:
    """Pauses an operation until it is resumed."""
    return (yield from _set_status(operation_id, fence, OperationStatus.PAUSED, error))


@transaction
def finish_operation(operation_id: str, fence: int, error: str | None = None) -> TransactionBody[ControlOperation]:
    """Completes an operation, or fails it with an error, and frees its scope."""
    status = OperationStatus.COMPLETED if error is None else OperationStatus.FAILED
    return (yield from _set_status(operation_id, fence, status, error))


@transaction
def resume_operation(scope: str, fence: int) -> TransactionBody[ControlOperation | None]:
    """Resumes the operation of a scope under a new leader's fence; None if there is none."""
    check_key(OPERATIONS, (scope,))
    clock = yield from now()
    busy = yield from find(OPERATIONS, "busy", scope, limit=1)
    if not busy:
        return None
    # A leader that was replaced must not take the operation back from its successor.
    _check_fence(busy[0], fence)
    resumed = replace(busy[0], status=OperationStatus.RUNNING, fence=fence, updated_at=clock)
    return (yield from put_row(OPERATIONS, resumed))


@transaction
def read_operation(operation_id: str) -> TransactionBody[ControlOperation | None]:
    check_key(OPERATIONS, (operation_id,))
    return (yield from get(OPERATIONS, operation_id))


@transaction
def list_operations(scope: str | None = None) -> TransactionBody[list[ControlOperation]]:
    """All operations, or those of a scope, oldest first."""
    if scope is None:
        return (yield from crud.every(OPERATIONS))
    return (yield from crud.every(OPERATIONS, "scope", (scope,)))


@transaction
def prune_operations(before: int) -> TransactionBody[int]:
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
    # An equal or greater fence passes: the operation may have been started under an earlier term of the same scope.
    if fence < operation.fence:
        raise Fenced(f"operation {operation.operation_id!r} is led under fence {operation.fence}, not {fence}: stop")
