"""Tenants: a key is stored and looked up by its hash."""

import hashlib

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import policies
from tests.registry.interpreter import START_MS, Interpreter

HASH = policies.hash_api_key("secret-1")


def test_a_row_written_under_a_hash_is_read_under_it() -> None:
    """Defect R13: written under one hash, looked up under another."""
    store = Interpreter()
    assert hashlib.sha256(b"secret-1").hexdigest() == HASH
    put = store.run(policies.put_tenant(HASH, "acme", 2))
    assert store.run(policies.read_tenant(HASH)) == put
    assert store.run(policies.read_tenant(policies.hash_api_key("secret-2"))) is None
    assert "secret-1" not in repr(store.state)


@pytest.mark.parametrize("key", ["secret-1", HASH.upper(), HASH[:-1], ""])
def test_a_raw_key_is_rejected_and_not_repeated(key: str) -> None:
    for program in (policies.put_tenant(key, "acme"), policies.read_tenant(key), policies.remove_tenant(key)):
        with pytest.raises(Invalid, match="sha-256") as refused:
            Interpreter().run(program)
        assert not key or key not in str(refused.value)


def test_a_tenant_is_changed_whatever_its_version_or_only_at_one() -> None:
    store = Interpreter()
    store.run(policies.put_tenant(HASH, "acme", 2))
    store.pass_time(9)
    changed = store.run(policies.put_tenant(HASH, "acme", None))
    assert (changed.group_id, changed.version, changed.added_at) == (None, 2, START_MS)
    with pytest.raises(Conflict):
        store.run(policies.put_tenant(HASH, "acme", 3, expected_version=1))
    with pytest.raises(NotFound):
        store.run(policies.put_tenant(policies.hash_api_key("other"), "acme", 3, expected_version=1))
    with pytest.raises(Invalid):
        store.run(policies.put_tenant(HASH, "", 3))
    with pytest.raises(Invalid):
        store.run(policies.put_tenant(HASH, "acme", -1))


def test_keys_are_listed_and_deleted() -> None:
    store = Interpreter()
    hashes = [policies.hash_api_key(str(n)) for n in range(5)]
    for key in hashes:
        store.run(policies.put_tenant(key, "acme"))
        store.pass_time(1)
    assert [tenant.api_key_hash for tenant in store.run(policies.list_tenants())] == hashes
    assert store.run(policies.remove_tenant(hashes[0]))
    assert not store.run(policies.remove_tenant(hashes[0]))
    assert len(store.run(policies.list_tenants())) == 4
