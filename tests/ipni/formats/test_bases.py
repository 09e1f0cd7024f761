"""Encodings of bytes as text are canonical."""

from base64 import b32decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import bases

SIGNS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_bases_read_what_they_write(data: bytes) -> None:
    assert bases.from_base58(bases.base58(data)) == data
    assert bases.from_base32(bases.base32(data)) == data == bases.from_base32(bases.base32(data).upper())
    assert bases.from_base64(bases.base64(data)) == data == bases.from_base64(bases.padded_base64(data))
    assert bases.from_base64url(bases.base64url(data)) == data


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", ""), ("00", "1"), ("0000", "11"), ("39", "z"), ("3a", "21"), ("0d22", "zy"), ("0d23", "zz"),
        ("0d24", "211"),
        ("00000000000000000000", "1111111111"), ("516b6fcd0f", "ABnLTmg"), ("572e4794", "3EFU7m"),
    ],
)  # fmt: skip
def test_known_bytes_have_known_base58(data: str, text: str) -> None:
    assert bases.base58(bytes.fromhex(data)) == text
    assert bases.from_base58(text).hex() == data


@settings(deadline=None)
@given(st.text(SIGNS, max_size=60))
def test_any_base58_is_one_value(text: str) -> None:
    assert bases.base58(bases.from_base58(text)) == text


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "ä", "1 1", "\ud800", "?", "1" * 513])
def test_invalid_base58_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        bases.from_base58(text)


@settings(deadline=None)
@given(st.text("abcdefghijklmnopqrstuvwxyz234567", max_size=60))
def test_base32_is_decoded_as_the_standard_requires_or_rejected(text: str) -> None:
    try:
        data = bases.from_base32(text)
    except Invalid:
        assert len(text) % 8
        return
    assert data == b32decode(text.upper() + "=" * (-len(text) % 8))
    assert bases.base32(data) == text


@pytest.mark.parametrize(
    "text", ["a", "aaa", "aaaaaa", "ab", "a1", "a0", "a8", "a_", " a", "+a", "aa\n", "äa", "ſa", "aa======"]
)
def test_invalid_base32_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        bases.from_base32(text)


@pytest.mark.parametrize("text", ["A", "AB", "AAB", "AA=", "AAAA=", "A A=", "ä", "AA-_", "===="])
def test_base64_has_one_form(text: str) -> None:
    with pytest.raises(Invalid):
        bases.from_base64(text)


def test_the_two_alphabets_of_base64_are_not_mixed() -> None:
    with pytest.raises(Invalid):
        bases.from_base64url("++//")
    assert bases.from_base64url("--__") == bases.from_base64("++//")
