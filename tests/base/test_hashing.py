"""The hash of a name never changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.hashing import hash64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0xEF46DB3751D8E999),
        ("-", 0x7A162EBE4CE6FC55),
        ("test-tenant", 0x7BDA10A719882C53),
        ("tenant-0", 0x49F34396DBC21C44),
        ("customer-123", 0x0BB632D435317A69),
    ],
)
def test_known_names_have_known_hashes(text: str, expected: int) -> None:
    assert hash64(text) == expected


@given(st.text())
def test_text_is_hashed_as_its_utf8(text: str) -> None:
    assert hash64(text) == hash64(text.encode())


@given(st.binary(), st.integers(0, 2**64 - 1))
def test_a_hash_fits_in_64_unsigned_bits(data: bytes, seed: int) -> None:
    assert 0 <= hash64(data, seed) < 2**64


def test_another_seed_gives_another_hash() -> None:
    assert hash64("tenant-0", seed=1) != hash64("tenant-0")
