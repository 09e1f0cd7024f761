"""Leader leases. Only the store's clock decides when a lease expires, and the fence grows with every new holder.

A transaction that must run under a lease is wrapped in `under`: the commit that writes also checks that the lease is
still held.
"""

from dataclasses import replace

from argosy.base.errors import Fenced, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_span, put_row
from argosy.registry.rows import LeaderLease
from argosy.registry.tables import LEADER_LEASE
from argosy.registry.transaction import Get, Now, T, Transaction, TransactionBody, read_many, transaction

TTL_MS = 10_000  # renewed every 3 s; a leader that cannot renew for 7 s stops
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
        taken = replace(lease, expires_at=clock + ttl_ms)
    else:
        taken = LeaderLease(scope, holder, clock + ttl_ms, lease.fence + 1, clock, lease.version)
    return (yield from put_row(LEADER_LEASE, taken))


@transaction
def renew(scope: str, holder: str, fence: int, ttl_ms: int = TTL_MS) -> TransactionBody[bool]:
    """Extends a lease. Returns False if it is lost; the caller stops leading."""
    check_span("a lease", ttl_ms, TTL_MS_MAX)
    lease, clock = yield from _read(scope)
    if not is_held(lease, clock) or (lease.holder, lease.fence) != (holder, fence):
        return False
    yield from put_row(LEADER_LEASE, replace(lease, expires_at=clock + ttl_ms))
    return True


@transaction
def release(scope: str, holder: str, fence: int) -> TransactionBody[bool]:
    """Releases a lease. Returns False if it is lost. The row and its fence stay."""
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
def everything() -> TransactionBody[list[LeaderLease]]:
    """All scopes that ever had a leader."""
    return (yield from crud.every(LEADER_LEASE))


@transaction
def under(scope: str, holder: str, fence: int, write: Transaction[T]) -> TransactionBody[T]:
    """Runs a transaction under a lease. Raises `Fenced`, and writes nothing, if the lease is not held."""
    yield from guard(scope, holder, fence)
    return (yield from write)


def guard(scope: str, holder: str, fence: int) -> TransactionBody[None]:
    """Part of a body: the lease becomes one of the rows that must not change before the commit."""
    lease, clock = yield from _read(scope)
    if not is_held(lease, clock) or (lease.holder, lease.fence) != (holder, fence):
        raise Fenced(f"{holder!r} no longer leads {scope!r} under fence {fence}: it stands at {lease.fence}")


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
