"""Admin login sessions. A missing, expired or revoked session is invalid.

Revoking sets a flag, keeps the expiry, and notifies all gateways at once.
"""

from dataclasses import replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import BATCH_MAX, check_key, check_span, put_row
from argosy.registry.rows import AdminSession
from argosy.registry.tables import ADMIN_SESSIONS, REVOKED_CHANNEL
from argosy.registry.transaction import (
    Delete,
    Get,
    Notify,
    Now,
    Put,
    TransactionBody,
    Write,
    commit,
    get,
    read_many,
    transaction,
)

TTL_MS = 3_600_000
TTL_MS_MAX = 30 * 86_400_000
USER_AGENT_CHARS_MAX = 256  # browsers send any length; the rest is truncated
SOURCE_IP_CHARS_MAX = 64


@transaction
def insert(
    session_id: str,
    *,
    csrf_token: str,
    admin_key_hash: str,
    ttl_ms: int = TTL_MS,
    user_agent: str | None = None,
    source_ip: str | None = None,
) -> TransactionBody[AdminSession]:
    """Creates a session. Raises `Conflict` if the id exists."""
    check_key(ADMIN_SESSIONS, (session_id,))
    check_span("an admin session", ttl_ms, TTL_MS_MAX)
    if not csrf_token or not admin_key_hash:
        raise Invalid("an admin session has a csrf token and the hash of the key it was opened with")
    clock, known = yield from read_many(Now(), Get(ADMIN_SESSIONS, (session_id,)))
    if known is not None:
        raise Conflict("this admin session already exists: draw another id")
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
def read(session_id: str) -> TransactionBody[AdminSession | None]:
    """The session, or None if it is missing, expired or revoked."""
    check_key(ADMIN_SESSIONS, (session_id,))
    session = yield from get(ADMIN_SESSIONS, session_id)
    return None if session is None or session.is_revoked else session


@transaction
def revoke(session_id: str) -> TransactionBody[bool]:
    """Revokes a session. Returns False if there is no valid one."""
    session = yield from read(session_id)
    if session is None:
        return False
    yield from commit(*_revocation(session))
    return True


@transaction
def revoke_all(admin_key_hash: str) -> TransactionBody[int]:
    """Ends a batch of the sessions that were opened with a key; call it until it returns 0."""
    sessions = yield from crud.every(ADMIN_SESSIONS, "key", (admin_key_hash,))
    valid = [session for session in sessions if not session.is_revoked][:BATCH_MAX]
    if valid:
        yield from commit(*(write for session in valid for write in _revocation(session)))
    return len(valid)


@transaction
def prune() -> TransactionBody[int]:
    """Deletes a batch of revoked sessions (those that are over go by themselves); call it until it returns 0."""
    sessions = yield from crud.every(ADMIN_SESSIONS)
    revoked = [session for session in sessions if session.is_revoked][:BATCH_MAX]
    if revoked:
        yield from commit(*(Delete(ADMIN_SESSIONS, session) for session in revoked))
    return len(revoked)


def _revocation(session: AdminSession) -> tuple[Write, Write]:
    flagged = replace(session, is_revoked=True)
    return Put(ADMIN_SESSIONS, flagged), Notify(REVOKED_CHANNEL, session.session_id)
