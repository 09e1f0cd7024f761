"""Client sessions for read-your-writes: which group serves a session, until when.

An expired session is invisible. The number of sessions is bounded; the least recently used one is evicted.
"""

from collections.abc import Mapping
from dataclasses import replace

from argosy.base.errors import Invalid
from argosy.registry.crud import check_key, check_span, put_row, with_version
from argosy.registry.rows import ClientSession
from argosy.registry.tables import SESSIONS
from argosy.registry.transaction import (
    CountRows,
    Delete,
    Find,
    Get,
    Now,
    TransactionBody,
    Upsert,
    Write,
    commit,
    get,
    read_many,
    transaction,
)

TTL_MS = 900_000  # since the last use
TTL_MS_MAX = 7 * 86_400_000
SESSIONS_MAX = 100_000
EVICTED_MAX = 16  # sessions that row_from_values way for one
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
    """Stores a session; fields that are None overwrite stored values."""
    check_key(SESSIONS, (session_id,))
    check_span("a session's life", ttl_ms, TTL_MS_MAX)
    if len(pinned_groups) > PINS_MAX:
        raise Invalid(f"a session pins at most {PINS_MAX} indexes, not {len(pinned_groups)}")
    clock, known, number = yield from read_many(Now(), Get(SESSIONS, (session_id,)), CountRows(SESSIONS, "all"))
    session = ClientSession(
        session_id, last_write_task_id, last_write_at, pinned_groups, min_settings_version, clock + ttl_ms
    )
    evicted: list[Write] = []
    if known is None and number >= sessions_max:
        limit = min(number - sessions_max + 1, EVICTED_MAX)
        (oldest,) = yield from read_many(Find(SESSIONS, "all", limit=limit))
        evicted = [Delete(SESSIONS, each) for each in oldest]
    done = yield from commit(*evicted, Upsert(SESSIONS, session))
    return with_version(session, done.versions[-1])


@transaction
def pin(session_id: str, index_uid: str, group: int | None) -> TransactionBody[ClientSession | None]:
    """Sets or (with None) clears the group that answers for one index; None if the session is over."""
    check_key(SESSIONS, (session_id, index_uid))
    session = yield from get(SESSIONS, session_id)
    if session is None:
        return None
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
