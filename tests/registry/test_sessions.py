"""Sessions: stored unchanged, removed at expiry, bounded in number."""

import pytest

from argosy.base.errors import Invalid
from argosy.registry import sessions
from argosy.registry.rows import ClientSession
from argosy.registry.transaction import Transaction
from tests.registry.interpreter import START_MS, Interpreter


def upsert(session_id: str, **given: object) -> Transaction[ClientSession]:
    values: dict[str, object] = {
        "last_write_task_id": "t1",
        "last_write_at": 5,
        "pinned_groups": {"docs": 2},
        "min_settings_version": 0,
    }
    return sessions.upsert(session_id, **(values | given))  # type: ignore[arg-type]


def test_null_values_round_trip() -> None:
    """Later-branch defect: an upsert left pins that were cleared."""
    store = Interpreter()
    store.run(upsert("s"))
    stored = store.run(upsert("s", last_write_task_id=None, last_write_at=None, pinned_groups={}))
    assert stored == ClientSession("s", None, None, {}, 0, START_MS + sessions.TTL_MS, 2)
    assert store.run(sessions.read("s")) == stored


def test_a_session_that_has_expired_is_invisible_and_may_be_created_again() -> None:
    store = Interpreter()
    store.run(upsert("s", ttl_ms=1000))
    store.pass_time(999)
    assert store.run(sessions.touch("s", 1000))
    store.pass_time(1000)
    assert store.run(sessions.read("s")) is None
    assert not store.run(sessions.touch("s"))
    assert store.run(sessions.pin("s", "docs", 1)) is None
    assert not store.run(sessions.end("s"))
    assert store.run(sessions.count()) == 0
    assert store.run(upsert("s")).version == 1


def test_a_pin_belongs_to_one_index() -> None:
    store = Interpreter()
    store.run(upsert("s"))
    store.meanwhile(sessions.pin("s", "logs", 1))
    pinned = store.run(sessions.pin("s", "wiki", 3))
    assert pinned is not None
    assert pinned.pinned_groups == {"docs": 2, "logs": 1, "wiki": 3}
    cleared = store.run(sessions.pin("s", "docs", None))
    assert cleared is not None
    assert cleared.pinned_groups == {"logs": 1, "wiki": 3}


def test_the_least_recently_used_session_is_evicted() -> None:
    store = Interpreter()
    for name in "abc":
        store.run(upsert(name, sessions_max=3))
        store.pass_time(1)
    store.run(sessions.touch("a"))
    store.run(upsert("d", sessions_max=3))
    assert [name for name in "abcd" if store.run(sessions.read(name))] == ["a", "c", "d"]
    store.run(upsert("c", sessions_max=3))
    assert store.run(sessions.count()) == 3


def test_a_session_can_be_ended() -> None:
    store = Interpreter()
    store.run(upsert("s"))
    assert store.run(sessions.end("s"))
    assert store.run(sessions.read("s")) is None


def test_bounds_are_checked() -> None:
    store = Interpreter()
    with pytest.raises(Invalid, match="life"):
        store.run(upsert("s", ttl_ms=0))
    with pytest.raises(Invalid, match="256 indexes"):
        store.run(upsert("s", pinned_groups={str(n): n for n in range(257)}))
    store.run(upsert("s", pinned_groups={str(n): n for n in range(256)}))
    with pytest.raises(Invalid, match="256 indexes"):
        store.run(sessions.pin("s", "one more", 1))
