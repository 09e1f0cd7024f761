"""Keys and rows of the content index round-trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.backends import layout
from argosy.ipni.formats import multihash, varint
from argosy.ipni.model import IndexValue
from tests.contracts.index_store_stage import digests_with_prefix, many, unusual

MULTIHASHES = st.builds(multihash.wrap, st.integers(0, 1 << 40), st.binary(min_size=1, max_size=128))
NUMBERS = st.integers(1, (1 << 40) - 1)


@given(MULTIHASHES | st.sampled_from([*many("file", 3), *unusual()]), NUMBERS)
def test_an_entry_round_trips(hashed: bytes, number: int) -> None:
    key = layout.entry_key(hashed, varint.encode(number))
    assert key.startswith(layout.place(hashed))
    assert layout.entry(key) == (number, hashed)


@given(st.sets(MULTIHASHES, min_size=2, max_size=20), NUMBERS)
def test_no_two_multihashes_share_a_key(hashes: set[bytes], number: int) -> None:
    assert len({layout.entry_key(each, varint.encode(number)) for each in hashes}) == len(hashes)


def test_the_entry_of_a_sha2_256_is_its_digest_and_the_number() -> None:
    (hashed,) = many("file", 1)
    assert layout.entry_key(hashed, b"\x07") == hashed[2:] + b"\x07"


@given(
    st.lists(MULTIHASHES | st.sampled_from([*many("file", 20), *digests_with_prefix(5)]), max_size=40),
    st.integers(1, 9),
)
def test_slices_hold_all_in_order_and_no_more_than_their_size(hashes: list[bytes], size_max: int) -> None:
    slices = list(layout.slices(hashes, size_max))
    assert sorted(each for piece in slices for each in piece.multihashes) == sorted(hashes)
    assert all(0 < len(piece.multihashes) <= size_max for piece in slices)
    begins = [begin for piece in slices for begin in layout.begins_of(piece.begins).tolist()]
    assert begins == sorted(begins)
    places = [layout.place(each)[: layout.BEGIN_BYTES] for piece in slices for each in piece.multihashes]
    assert [layout.begin_bytes(begin) for begin in begins] == places
    for piece in slices:
        assert piece.keys(b"\x01") == [layout.entry_key(each, b"\x01") for each in piece.multihashes]


def test_an_invalid_multihash_has_no_key() -> None:
    for wrong in (b"", b"\x12", b"\x12\x20abc", b"\x12\x20" + b"d" * 33):
        with pytest.raises(Invalid):
            layout.place(wrong)


@given(st.integers(0, 1 << 40), st.text(max_size=20), st.binary(max_size=64), st.binary(max_size=64))
def test_a_value_reads_as_it_was_written(entries: int, provider: str, context: bytes, metadata: bytes) -> None:
    value = IndexValue(provider, context, metadata)
    assert layout.read_value(layout.value_row(entries, value)) == (entries, value)
