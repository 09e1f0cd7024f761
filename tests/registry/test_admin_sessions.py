"""Admin sessions: missing, expired and revoked are all no session."""

import pytest

from argosy.base.errors import Conflict, Invalid
from argosy.registry import sessions
from argosy.registry.rows import AdminSession
from argosy.registry.tables import REVOKED_CHANNEL
from argosy.registry.transaction import Transaction
from tests.registry.interpreter import START_MS, Interpreter


def insert(session_id: str, key: str = "key-1", **given: object) -> Transaction[AdminSession]:
    return sessions.insert_admin(session_id, csrf_token="t", admin_key_hash=key, **given)  # type: ignore[arg-type]


def test_a_session_is_valid_until_it_expires() -> None:
    store = Interpreter()
    session = store.run(insert("s", user_agent="browser " * 100, source_ip="::1"))
    assert (session.created_at, session.expires_at) == (START_MS, START_MS + 3_600_000)
    assert session.user_agent is not None
    assert len(session.user_agent) == sessions.USER_AGENT_CHARS_MAX
    store.pass_time(3_599_999)
    assert store.run(sessions.read_admin("s")) == session
    store.pass_time(1)
    assert store.run(sessions.read_admin("s")) is None
    assert store.run(sessions.read_admin("unknown")) is None
    assert not store.run(sessions.revoke_admin("s"))


def test_revoking_keeps_the_expiry_and_notifies_everyone() -> None:
    """Defect R18: a revoked session lived on for its full lifetime."""
    store = Interpreter()
    session = store.run(insert("s", ttl_ms=5000))
    store.pass_time(1000)
    assert store.run(sessions.revoke_admin("s"))
    assert store.run(sessions.read_admin("s")) is None
    assert store.state.rows["admin_sessions"]["s",].expires_at == session.expires_at
    assert store.notifications == [(REVOKED_CHANNEL, "s")]
    assert not store.run(sessions.revoke_admin("s"))
    assert len(store.notifications) == 1


def test_an_id_is_unique_even_among_revoked_sessions() -> None:
    store = Interpreter()
    store.run(insert("s"))
    store.run(sessions.revoke_admin("s"))
    with pytest.raises(Conflict):
        store.run(insert("s"))


def test_all_sessions_of_a_key_end_when_the_key_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "BATCH_MAX", 2)
    store = Interpreter()
    for n in range(3):
        store.run(insert(f"s{n}"))
    store.run(insert("other", "key-2"))
    assert [store.run(sessions.revoke_admins("key-1")) for _ in range(3)] == [2, 1, 0]
    assert [session_id for _, session_id in store.notifications] == ["s0", "s1", "s2"]
    assert store.run(sessions.read_admin("other")) is not None
    assert [store.run(sessions.prune_admins()) for _ in range(3)] == [2, 1, 0]
    assert set(store.state.rows["admin_sessions"]) == {("other",)}


def test_bad_input_is_rejected() -> None:
    store = Interpreter()
    with pytest.raises(Invalid, match="csrf"):
        store.run(insert("s", ""))
    with pytest.raises(Invalid, match="milliseconds"):
        store.run(insert("s", ttl_ms=0))
