"""Varints, multihashes and CIDs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import bases, cid, multihash, varint
from tests.ipni.formats.samples import CONTENT_HASH

CODES = [multihash.SHA2_256, multihash.SHA2_512, multihash.BLAKE2B_256]


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.binary(max_size=4))
def test_a_number_is_decoded_at_any_offset(number: int, before: bytes) -> None:
    data = before + varint.encode(number)
    assert varint.decode(data + b"\x01", len(before)) == (number, len(data))


@pytest.mark.parametrize("data", ["", "80", "8000", "ffffffffffffffffff01"])
def test_a_number_that_is_cut_long_or_not_shortest_is_refused(data: str) -> None:
    with pytest.raises(Invalid):
        varint.decode(bytes.fromhex(data))


def test_known_content_has_the_known_multihash_and_cid() -> None:
    parsed = cid.of(b"content-0")
    assert parsed.multihash == CONTENT_HASH
    assert str(parsed) == "bafkreierhpvfyl23stl65xt2jxpmseingetifel4xqiu5nhxfgrgikgqfq"


def test_no_entries_is_the_truncated_hash_of_no_bytes() -> None:
    assert cid.NO_ENTRIES.bytes.hex() == "01551210e3b0c44298fc1c149afbf4c8996fb924"
    assert multihash.is_of(cid.NO_ENTRIES.multihash, b"")


@settings(deadline=None)
@given(st.binary(max_size=64), st.sampled_from(CODES), st.sampled_from([cid.RAW, cid.DAG_CBOR, cid.DAG_JSON]))
def test_a_cid_is_the_same_through_text_and_bytes(data: bytes, code: int, codec: int) -> None:
    parsed = cid.of(data, codec, code)
    assert cid.parse(str(parsed)) == parsed == cid.decode(parsed.bytes)
    assert cid.decode_at(b"ab" + parsed.bytes + b"rest", 2) == (parsed, 2 + len(parsed.bytes))
    assert cid.parse("z" + bases.base58(parsed.bytes)) == parsed == cid.parse("f" + parsed.bytes.hex())
    assert multihash.is_of(parsed.multihash, data)
    assert not multihash.is_of(parsed.multihash, data + b"x")


def test_version_0_is_a_bare_sha2_256_in_base58() -> None:
    text = "QmSPbSLo26Lt3SZ5r9ccqtoM6zjuxobLxc7JM4VivCMCmB"
    parsed = cid.parse(text)
    assert (parsed.version, parsed.codec, str(parsed), cid.decode(parsed.bytes)) == (0, cid.DAG_PB, text, parsed)


@pytest.mark.parametrize(
    "text", ["", "Qm", "hello", "b", "bafk!", "b" + "a" * 600, "zQmSPbSLo26Lt3SZ5r9ccqtoM6zjuxobLxc7JM4VivCMCmB", "f0"]
)
def test_an_invalid_cid_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        cid.parse(text)


def test_trailing_bytes_after_a_cid_are_rejected() -> None:
    with pytest.raises(Invalid, match="1 bytes follow"):
        cid.decode(cid.of(b"x").bytes + b"\0")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_an_incomplete_multihash_is_rejected(data: bytes) -> None:
    try:
        code, digest = multihash.split(data)
    except Invalid:
        assert not multihash.is_whole(data)
    else:
        assert multihash.wrap(code, digest) == data
        assert multihash.is_whole(data)


def test_a_hash_truncated_too_far_does_not_verify() -> None:
    whole = multihash.of(b"x")
    assert multihash.is_of(multihash.wrap(multihash.SHA2_256, whole[2:18]), b"x")
    assert not multihash.is_of(multihash.wrap(multihash.SHA2_256, whole[2:17]), b"x")
