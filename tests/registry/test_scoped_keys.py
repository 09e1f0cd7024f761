"""Scoped keys: the old one is revoked only when every live gateway has used the new one."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import scoped_keys
from argosy.registry.rows import ScopedKey
from argosy.registry.scoped_keys import RevocationCheck
from tests.registry.interpreter import START_MS, Interpreter


def rotated(store: Interpreter, *pod_ids: str) -> None:
    """Generation 2 is in force, and these gateways are alive."""
    store.run(scoped_keys.rotate("docs", "k1", expected_generation=0))
    store.run(scoped_keys.rotate("docs", "k2", expected_generation=1))
    for pod in pod_ids:
        store.run(scoped_keys.heartbeat_pod(pod))


def test_rotations_count_generations() -> None:
    """Defect R22: a bare string without previous key and generation."""
    store = Interpreter()
    rotated(store)
    assert store.run(scoped_keys.read("docs")) == ScopedKey("docs", "k2", "k1", START_MS, 2, 2)
    with pytest.raises(Conflict, match="generation 2, not 1"):
        store.run(scoped_keys.rotate("docs", "k3", expected_generation=1))
    with pytest.raises(Conflict, match="'k1' of 'docs' has not been revoked"):
        store.run(scoped_keys.rotate("docs", "k3", expected_generation=2))
    assert [key.index_uid for key in store.run(scoped_keys.everything())] == ["docs"]


def test_of_two_rotations_at_once_one_is_rejected() -> None:
    store = Interpreter()
    store.meanwhile(scoped_keys.rotate("docs", "k1", expected_generation=0))
    with pytest.raises(Conflict):
        store.run(scoped_keys.rotate("docs", "k9", expected_generation=0))


def test_the_gate_waits_for_every_live_gateway() -> None:
    store = Interpreter()
    rotated(store, "p1", "p2")
    store.run(scoped_keys.observe("p1", "docs", 2))
    store.run(scoped_keys.observe("p2", "docs", 1))
    assert store.run(scoped_keys.gate("docs")) == RevocationCheck(False, ("p2",))
    assert store.run(scoped_keys.revoke_previous("docs", 2)) is None
    store.run(scoped_keys.observe("p2", "docs", 2))
    assert store.run(scoped_keys.gate("docs")) == RevocationCheck(True, ())
    assert store.run(scoped_keys.revoke_previous("docs", 2)) == "k1"
    assert store.run(scoped_keys.revoke_previous("docs", 2)) is None
    assert store.run(scoped_keys.rotate("docs", "k3", expected_generation=2)).previous_uid == "k2"
    with pytest.raises(Conflict, match="generation 3, not 2"):
        store.run(scoped_keys.revoke_previous("docs", 2))


def test_a_crashed_gateway_blocks_nothing_and_an_expired_report_does_not_count() -> None:
    store = Interpreter()
    rotated(store, "dead", "p1")
    store.run(scoped_keys.observe("p1", "docs", 2))
    assert store.run(scoped_keys.gate("docs")) == RevocationCheck(False, ("dead",))
    store.pass_time(scoped_keys.WINDOW_MS)
    store.run(scoped_keys.heartbeat_pod("p1"))
    assert store.run(scoped_keys.gate("docs")) == RevocationCheck(False, ("p1",)), "its report has expired"
    store.run(scoped_keys.observe("p1", "docs", 2))
    assert store.run(scoped_keys.gate("docs")).is_open


def test_without_live_gateways_nothing_is_revoked() -> None:
    store = Interpreter()
    rotated(store)
    assert store.run(scoped_keys.gate("docs")) == RevocationCheck(False, ())


def test_bad_input_is_rejected() -> None:
    store = Interpreter()
    with pytest.raises(Invalid):
        store.run(scoped_keys.rotate("docs", "", expected_generation=0))
    with pytest.raises(NotFound):
        store.run(scoped_keys.gate("docs"))
    with pytest.raises(Invalid):
        store.run(scoped_keys.observe("p", "docs", 1, ttl_ms=0))
