"""Batches are bounded and count only what they will change; the store's own contract is in tests/contracts."""

import pytest

from argosy.base import kv
from argosy.base.errors import Invalid
from argosy.base.kv import Batch


def test_a_batch_counts_each_key_once() -> None:
    batch = Batch().put(b"a", b"12").put(b"a", b"3").delete(b"b")
    assert len(batch) == 2
    assert batch.size_bytes == len(b"a3b")
    assert list(batch.ops()) == [(b"a", b"3"), (b"b", None)]


def test_a_batch_of_too_many_keys_is_rejected_unchanged(monkeypatch) -> None:
    monkeypatch.setattr(kv, "BATCH_OPS_MAX", 2)
    batch = Batch().put(b"a", b"").put(b"b", b"")
    with pytest.raises(Invalid, match="2 keys"):
        batch.delete(b"c")
    batch.put(b"b", b"changed")
    assert list(batch.ops()) == [(b"a", b""), (b"b", b"changed")]


def test_a_batch_of_too_many_bytes_is_rejected_unchanged(monkeypatch) -> None:
    monkeypatch.setattr(kv, "BATCH_BYTES_MAX", 4)
    batch = Batch().put(b"a", b"123")
    with pytest.raises(Invalid, match="4 bytes"):
        batch.put(b"b", b"")
    batch.put(b"a", b"1").put(b"b", b"1")
    assert batch.size_bytes == 4


@pytest.mark.parametrize("value", ["text", bytearray(b"x"), None, 1])
def test_a_value_that_is_not_bytes_is_refused(value: object) -> None:
    with pytest.raises(Invalid, match="must be bytes"):
        Batch().put(b"a", value)  # type: ignore[arg-type]
