import pytest

from argosy.base.errors import Invalid
from argosy.ipni.backends import layout
from argosy.ipni.keyspace.layout import SLOTS, bounds, by_slot, from_bitmap, slot_of, to_bitmap
from tests.contracts.index_store_stage import many, unusual


@pytest.mark.parametrize("multihash", [*many("file", 20), *unusual()])
def test_a_multihash_lies_between_the_bounds_of_its_slot(multihash: bytes) -> None:
    start, end = bounds(slot_of(multihash))
    assert start <= layout.place(multihash)
    assert not end or layout.place(multihash) < end


def test_the_slots_are_adjacent_and_complete() -> None:
    assert bounds(0)[0] == b"\0\0"
    assert all(bounds(slot)[1] == bounds(slot + 1)[0] for slot in range(SLOTS - 1))
    assert bounds(SLOTS - 1)[1] == b""


def test_multihashes_are_split_without_loss() -> None:
    hashes = many("file", 100)
    split = by_slot(hashes)
    assert sorted(each for part in split.values() for each in part) == sorted(hashes)
    assert all(slot_of(each) == slot for slot, part in split.items() for each in part)


def test_an_invalid_multihash_has_no_slot() -> None:
    with pytest.raises(Invalid):
        slot_of(b"\x12\x20short")


@pytest.mark.parametrize("slots", [set(), {0}, {SLOTS - 1}, {1, 7, 8, 4000}, set(range(SLOTS))])
def test_a_set_of_slots_is_read_as_it_was_written(slots: set[int]) -> None:
    assert from_bitmap(to_bitmap(slots)) == slots


def test_a_set_of_slots_of_another_size_is_refused() -> None:
    with pytest.raises(Invalid, match="not 3"):
        from_bitmap(b"abc")
