"""Idempotency: a key is reserved in one step, and later requests get the recorded result."""

import pytest

from argosy.base.errors import Invalid
from argosy.registry import idempotency
from argosy.registry.idempotency import BeginResult, IdempotencyVerdict
from tests.registry.interpreter import Interpreter

BODY, OTHER = b"a" * 32, b"b" * 32


def test_a_key_goes_from_new_to_pending_to_replay() -> None:
    store = Interpreter()
    assert store.run(idempotency.begin("k", BODY)) == BeginResult(IdempotencyVerdict.NEW)
    assert store.run(idempotency.begin("k", BODY)) == BeginResult(IdempotencyVerdict.PENDING)
    assert store.run(idempotency.begin("k", OTHER)) == BeginResult(IdempotencyVerdict.MISMATCH)
    assert store.run(idempotency.finish("k", "task-7"))
    assert store.run(idempotency.begin("k", BODY)) == BeginResult(IdempotencyVerdict.REPLAY, "task-7")
    assert store.run(idempotency.begin("k", OTHER)) == BeginResult(IdempotencyVerdict.MISMATCH)


def test_of_two_concurrent_requests_one_is_new() -> None:
    """Defect R17: the check and the record were two steps, so both missed."""
    store = Interpreter()
    store.meanwhile(idempotency.begin("k", BODY))
    assert store.run(idempotency.begin("k", BODY)) == BeginResult(IdempotencyVerdict.PENDING)


def test_finishing_does_not_prolong_a_key() -> None:
    store = Interpreter()
    store.run(idempotency.begin("k", BODY, ttl_ms=100))
    store.pass_time(99)
    assert store.run(idempotency.finish("k", "t"))
    store.pass_time(1)
    assert store.run(idempotency.begin("k", OTHER)) == BeginResult(IdempotencyVerdict.NEW)


def test_a_key_lives_a_day() -> None:
    store = Interpreter()
    store.run(idempotency.begin("k", BODY))
    store.pass_time(24 * 3_600_000 - 1)
    assert store.run(idempotency.begin("k", BODY)).verdict is IdempotencyVerdict.PENDING
    store.pass_time(1)
    assert not store.run(idempotency.finish("k", "t"))
    assert store.run(idempotency.begin("k", BODY)).verdict is IdempotencyVerdict.NEW


def test_only_a_pending_key_is_finished_or_abandoned() -> None:
    store = Interpreter()
    assert not store.run(idempotency.finish("k", "t"))
    assert not store.run(idempotency.abandon("k"))
    store.run(idempotency.begin("k", BODY))
    assert store.run(idempotency.abandon("k"))
    assert store.run(idempotency.begin("k", OTHER)).verdict is IdempotencyVerdict.NEW
    store.run(idempotency.finish("k", "t"))
    assert not store.run(idempotency.finish("k", "u"))
    assert not store.run(idempotency.abandon("k"))
    assert store.run(idempotency.begin("k", OTHER)) == BeginResult(IdempotencyVerdict.REPLAY, "t")


def test_bad_input_is_rejected() -> None:
    store = Interpreter()
    with pytest.raises(Invalid, match="sha-256"):
        store.run(idempotency.begin("k", b"short"))
    with pytest.raises(Invalid, match="255 characters"):
        store.run(idempotency.begin("k" * 256, BODY))
    with pytest.raises(Invalid, match="id of the task"):
        store.run(idempotency.finish("k", ""))
    with pytest.raises(Invalid, match="life"):
        store.run(idempotency.begin("k", BODY, ttl_ms=-1))
