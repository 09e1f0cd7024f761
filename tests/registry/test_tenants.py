"""Tenants: a key is known by its hash, to those who write and to those who read."""

import hashlib

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import tenants
from tests.registry.interpreter import START_MS, Interpreter

HASH = tenants.hash_of("secret-1")


def test_what_was_written_under_a_hash_is_read_under_it() -> None:
    """Defect R13: written under one hash, looked up under another."""
    store = Interpreter()
    assert hashlib.sha256(b"secret-1").hexdigest() == HASH
    put = store.run(tenants.put(HASH, "acme", 2))
    assert store.run(tenants.read(HASH)) == put
    assert store.run(tenants.read(tenants.hash_of("secret-2"))) is None
    assert "secret-1" not in repr(store.state)


@pytest.mark.parametrize("key", ["secret-1", HASH.upper(), HASH[:-1], ""])
def test_a_raw_key_is_refused_and_not_repeated(key: str) -> None:
    for program in (tenants.put(key, "acme"), tenants.read(key), tenants.remove(key)):
        with pytest.raises(Invalid, match="sha-256") as refused:
            Interpreter().run(program)
        assert not key or key not in str(refused.value)


def test_a_tenant_is_changed_whatever_its_version_or_only_at_one() -> None:
    store = Interpreter()
    store.run(tenants.put(HASH, "acme", 2))
    store.pass_time(9)
    changed = store.run(tenants.put(HASH, "acme", None))
    assert (changed.group_id, changed.version, changed.added_at) == (None, 2, START_MS)
    with pytest.raises(Conflict):
        store.run(tenants.put(HASH, "acme", 3, expected_version=1))
    with pytest.raises(NotFound):
        store.run(tenants.put(tenants.hash_of("other"), "acme", 3, expected_version=1))
    with pytest.raises(Invalid):
        store.run(tenants.put(HASH, "", 3))
    with pytest.raises(Invalid):
        store.run(tenants.put(HASH, "acme", -1))


def test_keys_are_listed_and_deleted() -> None:
    store = Interpreter()
    hashes = [tenants.hash_of(str(n)) for n in range(5)]
    for key in hashes:
        store.run(tenants.put(key, "acme"))
        store.pass_time(1)
    assert [tenant.api_key_hash for tenant in store.run(tenants.everything())] == hashes
    assert store.run(tenants.remove(hashes[0]))
    assert not store.run(tenants.remove(hashes[0]))
    assert len(store.run(tenants.everything())) == 4
