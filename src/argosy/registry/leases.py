"""Who leads what. The store's clock alone says when a lease is over, and the fence grows with every change of hands.

Whatever is written under a lease is written `under` it: the same step that writes looks whether the lease still holds.
"""

from dataclasses import replace

from argosy.base.errors import Fenced, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_span, put_row
from argosy.registry.rows import LeaderLease
from argosy.registry.tables import LEADER_LEASE
from argosy.registry.transaction import Get, Now, T, Transaction, TransactionBody, read_many, transaction

TTL_MS = 10_000  # renewed every 3 s; a leader that cannot renew for 7 s stops by itself
TTL_MS_MAX = 3_600_000


@transaction
def acquire(scope: str, holder: str, ttl_ms: int = TTL_MS) -> TransactionBody[LeaderLease | None]:
    """Takes a scope that is free or over, or prolongs one's own; None if somebody else leads."""
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
    """Prolongs a lease; False if it is no longer this one: stop leading."""
    check_span("a lease", ttl_ms, TTL_MS_MAX)
    lease, clock = yield from _read(scope)
    if not is_held(lease, clock) or (lease.holder, lease.fence) != (holder, fence):
        return False
    yield from put_row(LEADER_LEASE, replace(lease, expires_at=clock + ttl_ms))
    return True


@transaction
def release(scope: str, holder: str, fence: int) -> TransactionBody[bool]:
    """Lets go; False if the lease is not this one. The fence stays."""
    lease, _ = yield from _read(scope)
    if (lease.holder, lease.fence) != (holder, fence):
        return False
    yield from put_row(LEADER_LEASE, replace(lease, holder=None, expires_at=0))
    return True


@transaction
def leader(scope: str) -> TransactionBody[LeaderLease | None]:
    """The lease of whoever leads now, or None."""
    lease, clock = yield from _read(scope)
    return lease if is_held(lease, clock) else None


@transaction
def everything() -> TransactionBody[list[LeaderLease]]:
    """All scopes that ever had a leader."""
    return (yield from crud.every(LEADER_LEASE))


@transaction
def under(scope: str, holder: str, fence: int, write: Transaction[T]) -> TransactionBody[T]:
    """Runs a program only while a lease holds; Fenced if it does not, and then nothing is written."""
    yield from guard(scope, holder, fence)
    return (yield from write)


def guard(scope: str, holder: str, fence: int) -> TransactionBody[None]:
    """Part of a program: the lease is now one of the rows that must not change until the commit."""
    lease, clock = yield from _read(scope)
    if not is_held(lease, clock) or (lease.holder, lease.fence) != (holder, fence):
        raise Fenced(f"{holder!r} no longer leads {scope!r} under fence {fence}: it stands at {lease.fence}")


def is_held(lease: LeaderLease, clock: int) -> bool:
    return lease.holder is not None and lease.expires_at > clock


def _read(scope: str) -> TransactionBody[tuple[LeaderLease, int]]:
    """The lease, or one that was never stored; and the clock."""
    check_key(LEADER_LEASE, (scope,))
    clock, lease = yield from read_many(Now(), Get(LEADER_LEASE, (scope,)))
    return lease or LeaderLease(scope, None, 0, 0, 0), clock


def _check(holder: str) -> None:
    if not holder:
        raise Invalid("a leader has a name")
