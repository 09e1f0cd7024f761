"""Leader leases: one leader per scope by the store's clock, and fences that only grow."""

import pytest

from argosy.base.errors import Fenced, Invalid
from argosy.registry import aliases, leadership
from argosy.registry.rows import LeaderLease
from tests.registry.interpreter import START_MS, Interpreter


def taken(store: Interpreter, scope: str, holder: str, ttl_ms: int = 100) -> int | None:
    lease = store.run(leadership.acquire(scope, holder, ttl_ms))
    return None if lease is None else lease.fence


def test_a_scope_has_one_leader_and_scopes_do_not_block_each_other() -> None:
    """Defect R10: one global key, scope ignored."""
    store = Interpreter()
    assert store.run(leadership.acquire("ilm", "a", 100)) == LeaderLease("ilm", "a", START_MS + 100, 1, START_MS, 1)
    assert taken(store, "ilm", "b") is None
    assert taken(store, "reshard:docs", "b") == 1
    assert [lease.scope for lease in store.run(leadership.list_leases())] == ["ilm", "reshard:docs"]


def test_the_leader_renews_its_own_lease_with_the_same_fence() -> None:
    """Defect R10: the holder could not renew."""
    store = Interpreter()
    taken(store, "ilm", "a")
    store.pass_time(60)
    assert taken(store, "ilm", "a") == 1
    store.pass_time(60)
    assert store.run(leadership.renew("ilm", "a", 1, 100))
    store.pass_time(99)
    held = store.run(leadership.leader("ilm"))
    assert held is not None
    assert (held.holder, held.fence, held.acquired_at) == ("a", 1, START_MS)


def test_the_fence_grows_whenever_a_lease_was_over() -> None:
    store = Interpreter()
    assert taken(store, "ilm", "a") == 1
    store.pass_time(100)
    assert store.run(leadership.leader("ilm")) is None
    assert taken(store, "ilm", "a") == 2
    store.pass_time(100)
    assert taken(store, "ilm", "b") == 3
    assert store.run(leadership.release("ilm", "b", 3))
    assert taken(store, "ilm", "c") == 4


def test_only_the_leader_renews_and_releases() -> None:
    """A later-branch defect: renewing without a look at the holder stole the lease."""
    store = Interpreter()
    taken(store, "ilm", "a")
    store.pass_time(100)
    taken(store, "ilm", "b")
    assert not store.run(leadership.renew("ilm", "a", 1))
    assert not store.run(leadership.release("ilm", "a", 1))
    assert not store.run(leadership.renew("ilm", "b", 1))
    assert not store.run(leadership.renew("other", "b", 2))
    store.pass_time(100)
    assert not store.run(leadership.renew("ilm", "b", 2)), "an expired lease is acquired again, not renewed"


def test_of_two_concurrent_acquisitions_one_leads() -> None:
    store = Interpreter()
    store.meanwhile(leadership.acquire("ilm", "b"))
    assert taken(store, "ilm", "a") is None


def test_a_write_of_a_replaced_leader_is_rejected() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["docs-1"]))
    taken(store, "alias_flip:docs", "a")
    flip = aliases.flip("docs", ["docs-2"])
    assert store.run(leadership.under("alias_flip:docs", "a", 1, flip)).current_uid == "docs-2"
    store.pass_time(100)
    with pytest.raises(Fenced, match="no longer leads"):
        store.run(leadership.under("alias_flip:docs", "a", 1, flip))
    taken(store, "alias_flip:docs", "b")
    with pytest.raises(Fenced, match="the current fence is 2"):
        store.run(leadership.under("alias_flip:docs", "a", 1, flip))
    alias = store.run(aliases.read("docs"))
    assert alias is not None
    assert alias.version == 2


def test_a_leader_replaced_between_its_read_and_its_commit_writes_nothing() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["docs-1"]))
    taken(store, "s", "a")
    store.meanwhile(leadership.release("s", "a", 1))
    with pytest.raises(Fenced):
        store.run(leadership.under("s", "a", 1, aliases.flip("docs", ["docs-2"])))


def test_bad_input_is_rejected() -> None:
    store = Interpreter()
    with pytest.raises(Invalid, match="name"):
        store.run(leadership.acquire("s", ""))
    with pytest.raises(Invalid, match="a lease must be 1 to"):
        store.run(leadership.acquire("s", "a", 0))
    with pytest.raises(Invalid, match="key"):
        store.run(leadership.acquire("", "a"))
