"""Limits that all gateways share: hits within a window, failed logins, page events that count once.

A counter gets its expiry with its first hit, in the same step: if a crash could come between, the address would be
locked out forever. The record of failed logins expires, too, but later than the lock, so that the next failure doubles
the lock.
"""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.registry.crud import check_key, check_span, put_row
from argosy.registry.rows import BeaconSeen, LoginBackoff
from argosy.registry.tables import ADMIN_LOGIN_RATE, BEACONS, LOGIN_BACKOFF, SEARCH_UI_RATE, log_name
from argosy.registry.transaction import (
    CountUp,
    Delete,
    DropCounter,
    Get,
    Now,
    Put,
    TransactionBody,
    Write,
    commit,
    read_many,
    transaction,
)

WINDOW_MS = 60_000
WINDOW_MS_MAX = 86_400_000
# The design's limits, per address and window.
SEARCH_UI_HITS = 60
ADMIN_LOGIN_HITS = 10
FREE_FAILURES = 4  # the fifth failure in a row locks, as in the design: 10 minutes, doubling up to a day
LOCK_MS = 600_000
LOCK_MS_MAX = 86_400_000
FAILURES_TTL_MS = 86_400_000  # after the lock, or after the last failure
BEACON_MS = 86_400_000


@dataclass(frozen=True)
class RateDecision:
    is_allowed: bool
    count: int  # hits in this window, with this one; 0 if it was not counted
    retry_after_ms: int  # 0 if it is allowed


@transaction
def hit_search_ui(ip: str, *, limit: int = SEARCH_UI_HITS, window_ms: int = WINDOW_MS) -> TransactionBody[RateDecision]:
    """Counts a request of an address to the search page."""
    return (yield from _hit(log_name(SEARCH_UI_RATE, ip), limit, window_ms))


@transaction
def hit_admin_login(
    ip: str, *, limit: int = ADMIN_LOGIN_HITS, window_ms: int = WINDOW_MS
) -> TransactionBody[RateDecision]:
    """Counts a login attempt. While the address is locked, nothing is counted and the remaining time is returned."""
    check_key(LOGIN_BACKOFF, (ip,))
    clock, backoff = yield from read_many(Now(), Get(LOGIN_BACKOFF, (ip,)))
    # Not counted: the attempts during the lock could otherwise reject the address after it.
    if backoff is not None and backoff.next_allowed_at > clock:
        return RateDecision(False, 0, backoff.next_allowed_at - clock)
    return (yield from _hit(log_name(ADMIN_LOGIN_RATE, ip), limit, window_ms))


@transaction
def login_failed(ip: str) -> TransactionBody[int]:
    """Records a wrong key, and returns for how many milliseconds the address is now locked (0: not yet)."""
    check_key(LOGIN_BACKOFF, (ip,))
    clock, backoff_before = yield from read_many(Now(), Get(LOGIN_BACKOFF, (ip,)))
    # The record outlives the lock (FAILURES_TTL_MS), so the next failure continues the series.
    failures = 1 if backoff_before is None else backoff_before.failed_count + 1
    locked_ms = lock_ms(failures)
    allowed_at = clock + locked_ms
    version = 0 if backoff_before is None else backoff_before.version
    backoff = LoginBackoff(ip, failures, allowed_at, allowed_at + FAILURES_TTL_MS, version)
    yield from put_row(LOGIN_BACKOFF, backoff)
    return locked_ms


@transaction
def login_succeeded(ip: str) -> TransactionBody[None]:
    """Deletes the failures and attempts of an address."""
    check_key(LOGIN_BACKOFF, (ip,))
    # The address starts afresh, because its user has the key.
    (backoff,) = yield from read_many(Get(LOGIN_BACKOFF, (ip,)))
    deletes: list[Write] = [] if backoff is None else [Delete(LOGIN_BACKOFF, backoff)]
    yield from commit(DropCounter(log_name(ADMIN_LOGIN_RATE, ip)), *deletes)


@transaction
def login_locked_ms(ip: str) -> TransactionBody[int]:
    """Milliseconds for which an address is still locked; 0 if it is not."""
    check_key(LOGIN_BACKOFF, (ip,))
    clock, backoff = yield from read_many(Now(), Get(LOGIN_BACKOFF, (ip,)))
    return 0 if backoff is None else max(0, backoff.next_allowed_at - clock)


@transaction
def is_first_seen(index_uid: str, event_id: str, ttl_ms: int = BEACON_MS) -> TransactionBody[bool]:
    """True for the first report of a page event, False for later ones. Later reports do not extend the expiry."""
    check_key(BEACONS, (index_uid, event_id))
    check_span("the ttl of an event", ttl_ms, WINDOW_MS_MAX)
    clock, beacon = yield from read_many(Now(), Get(BEACONS, (index_uid, event_id)))
    if beacon is not None:
        return False
    # Version 0: of two reports at the same time one commits, and the other runs again and finds the row.
    yield from commit(Put(BEACONS, BeaconSeen(index_uid, event_id, clock + ttl_ms)))
    return True


def lock_ms(failures: int) -> int:
    """How long this many failures in a row lock an address: not at all, then 10 minutes, doubling up to a day."""
    if failures <= FREE_FAILURES:
        return 0
    doublings = min(failures - FREE_FAILURES - 1, 16)  # bounds the shift; the result is capped below anyway
    return min(LOCK_MS << doublings, LOCK_MS_MAX)


def _hit(counter: str, limit: int, window_ms: int) -> TransactionBody[RateDecision]:
    if limit < 1:
        raise Invalid(f"a limit allows at least 1 hit, not {limit}")
    check_span("a window", window_ms, WINDOW_MS_MAX)
    # One write without a read before it, so concurrent hits never race; those over the limit are counted, too.
    done = yield from commit(CountUp(counter, window_ms))
    count, left_ms = done.counts[0]
    return RateDecision(count <= limit, count, 0 if count <= limit else left_ms)
