"""Sessions of clients, for read-your-writes, and login sessions of admins. An expired session is invisible.

A client session records which group of nodes has its latest writes. Their number is bounded; the least recently used
one is evicted. A missing, expired or revoked admin session is invalid; revoking sets a flag, keeps the expiry, and
notifies all gateways at once.
"""

from collections.abc import Mapping
from dataclasses import replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import BATCH_MAX, check_key, check_span, put_row, with_version
from argosy.registry.rows import AdminSession, ClientSession
from argosy.registry.tables import ADMIN_SESSIONS, REVOKED_CHANNEL, SESSIONS
from argosy.registry.transaction import (
    CountRows,
    Delete,
    Find,
    Get,
    Notify,
    Now,
    Put,
    TransactionBody,
    Upsert,
    Write,
    commit,
    get,
    read_many,
    transaction,
)

# The design's 15 minutes.
TTL_MS = 900_000  # since the last use
TTL_MS_MAX = 7 * 86_400_000
SESSIONS_MAX = 100_000  # the design's bound; about 33 MB in Redis
EVICTED_MAX = 16  # sessions evicted for a new one
PINS_MAX = 256  # indexes one session has written to


@transaction
def upsert(
    session_id: str,
    *,
    last_write_task_id: str | None,
    last_write_at: int | None,
    pinned_groups: Mapping[str, int],
    min_settings_version: int,
    ttl_ms: int = TTL_MS,
    sessions_max: int = SESSIONS_MAX,
) -> TransactionBody[ClientSession]:
    """Stores a session. Fields that are None overwrite stored values, so that no stale write or pin remains."""
    check_key(SESSIONS, (session_id,))
    check_span("a session's life", ttl_ms, TTL_MS_MAX)
    if len(pinned_groups) > PINS_MAX:
        raise Invalid(f"a session pins at most {PINS_MAX} indexes, not {len(pinned_groups)}")
    clock, existing, number = yield from read_many(Now(), Get(SESSIONS, (session_id,)), CountRows(SESSIONS, "all"))
    session = ClientSession(
        session_id, last_write_task_id, last_write_at, pinned_groups, min_settings_version, clock + ttl_ms
    )
    evicted: list[Write] = []
    if existing is None and number >= sessions_max:
        # Bounded, because a setting that was lowered could make thousands superfluous at once.
        limit = min(number - sessions_max + 1, EVICTED_MAX)
        # The order is the time of expiry, which every use moves; so the first ones are those least recently used.
        (oldest,) = yield from read_many(Find(SESSIONS, "all", limit=limit))
        evicted = [Delete(SESSIONS, each) for each in oldest]
    # An upsert, because concurrent requests of one session must not reject each other.
    done = yield from commit(*evicted, Upsert(SESSIONS, session))
    return with_version(session, done.versions[-1])


@transaction
def pin(session_id: str, index_uid: str, group: int | None) -> TransactionBody[ClientSession | None]:
    """Sets or (with None) clears the group that serves one index. Returns None if the session has expired."""
    check_key(SESSIONS, (session_id, index_uid))
    session = yield from get(SESSIONS, session_id)
    if session is None:
        return None
    # One pin per index: a session may write to several, whose writes arrive in different groups.
    pins = {uid: pinned for uid, pinned in session.pinned_groups.items() if uid != index_uid}
    if group is not None:
        pins[index_uid] = group
    if len(pins) > PINS_MAX:
        raise Invalid(f"a session pins at most {PINS_MAX} indexes")
    return (yield from put_row(SESSIONS, replace(session, pinned_groups=pins)))


@transaction
def touch(session_id: str, ttl_ms: int = TTL_MS) -> TransactionBody[bool]:
    """Extends a session by its TTL. Returns False if it has expired."""
    check_key(SESSIONS, (session_id,))
    check_span("a session's life", ttl_ms, TTL_MS_MAX)
    clock, session = yield from read_many(Now(), Get(SESSIONS, (session_id,)))
    if session is None:
        return False
    yield from put_row(SESSIONS, replace(session, expires_at=clock + ttl_ms))
    return True


@transaction
def read(session_id: str) -> TransactionBody[ClientSession | None]:
    """The session, or None if it has expired."""
    check_key(SESSIONS, (session_id,))
    return (yield from get(SESSIONS, session_id))


@transaction
def end(session_id: str) -> TransactionBody[bool]:
    check_key(SESSIONS, (session_id,))
    session = yield from get(SESSIONS, session_id)
    if session is None:
        return False
    yield from commit(Delete(SESSIONS, session))
    return True


@transaction
def count() -> TransactionBody[int]:
    """Number of live sessions."""
    (number,) = yield from read_many(CountRows(SESSIONS, "all"))
    counted: int = number
    return counted


# -- admin login sessions ---------------------------------------------------------------------------------------------


ADMIN_TTL_MS = 3_600_000
ADMIN_TTL_MS_MAX = 30 * 86_400_000
USER_AGENT_CHARS_MAX = 256  # browsers send any length; the rest is truncated
SOURCE_IP_CHARS_MAX = 64


@transaction
def insert_admin(
    session_id: str,
    *,
    csrf_token: str,
    admin_key_hash: str,
    ttl_ms: int = ADMIN_TTL_MS,
    user_agent: str | None = None,
    source_ip: str | None = None,
) -> TransactionBody[AdminSession]:
    """Creates a session. Raises `Conflict` if the id exists."""
    check_key(ADMIN_SESSIONS, (session_id,))
    check_span("an admin session", ttl_ms, ADMIN_TTL_MS_MAX)
    if not csrf_token or not admin_key_hash:
        raise Invalid("an admin session needs a csrf token and the hash of the key that it was opened with")
    clock, existing = yield from read_many(Now(), Get(ADMIN_SESSIONS, (session_id,)))
    if existing is not None:
        raise Conflict("this admin session already exists; generate another id")
    session = AdminSession(
        session_id,
        csrf_token,
        admin_key_hash,
        clock,
        clock + ttl_ms,
        user_agent=None if user_agent is None else user_agent[:USER_AGENT_CHARS_MAX],
        source_ip=None if source_ip is None else source_ip[:SOURCE_IP_CHARS_MAX],
    )
    return (yield from put_row(ADMIN_SESSIONS, session))


@transaction
def read_admin(session_id: str) -> TransactionBody[AdminSession | None]:
    """The session, or None if it is missing, expired or revoked."""
    check_key(ADMIN_SESSIONS, (session_id,))
    session = yield from get(ADMIN_SESSIONS, session_id)
    return None if session is None or session.is_revoked else session


@transaction
def revoke_admin(session_id: str) -> TransactionBody[bool]:
    """Revokes a session. Returns False if there is no valid one."""
    session = yield from read_admin(session_id)
    if session is None:
        return False
    yield from commit(*_revocation(session))
    return True


@transaction
def revoke_admins(admin_key_hash: str) -> TransactionBody[int]:
    """Revokes a batch of the sessions that were opened with a key; call it until it returns 0."""
    sessions = yield from crud.every(ADMIN_SESSIONS, "key", (admin_key_hash,))
    valid = [session for session in sessions if not session.is_revoked][:BATCH_MAX]
    if valid:
        yield from commit(*(write for session in valid for write in _revocation(session)))
    return len(valid)


@transaction
def prune_admins() -> TransactionBody[int]:
    """Deletes a batch of revoked sessions (expired ones disappear by themselves); call it until it returns 0."""
    sessions = yield from crud.every(ADMIN_SESSIONS)
    revoked = [session for session in sessions if session.is_revoked][:BATCH_MAX]
    if revoked:
        yield from commit(*(Delete(ADMIN_SESSIONS, session) for session in revoked))
    return len(revoked)


def _revocation(session: AdminSession) -> tuple[Write, Write]:
    flagged = replace(session, is_revoked=True)
    # The flag is authoritative; the message only clears caches earlier, so it may be lost.
    return Put(ADMIN_SESSIONS, flagged), Notify(REVOKED_CHANNEL, session.session_id)
