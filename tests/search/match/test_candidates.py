"""Intersections and unions of postings give the blocks that sets would give, as lists and as bitmaps."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.index.index import Postings, bitmap_length
from argosy.search.kernels.candidates import intersect, unite
from argosy.search.kernels.trigrams import KEYS
from argosy.search.match.needle import keys_without

BLOCKS = 700  # a bitmap of 44 words: longer postings are bitmaps

some_blocks = st.one_of(
    st.frozensets(st.integers(0, BLOCKS - 1), min_size=1, max_size=6),
    st.builds(
        lambda first, step: frozenset(range(first, BLOCKS, step)), st.integers(0, 40), st.sampled_from([1, 2, 17, 30])
    ),
)
tables = st.dictionaries(st.integers(0, (1 << 18) - 1), some_blocks, min_size=1, max_size=12)


def postings_of(table: dict[int, frozenset[int]]) -> Postings:
    """As they are written: ascending lists, or bitmaps where those are shorter."""
    words = bitmap_length(BLOCKS)
    present, lists = np.zeros(4096, np.uint64), []
    for key in sorted(table):
        present[key >> 6] |= np.uint64(1 << (key & 63))
        blocks = np.array(sorted(table[key]), np.uint16)
        if len(blocks) >= words:
            mask = np.zeros(words * 16, np.uint8)
            mask[blocks] = 1
            blocks = np.packbits(mask, bitorder="little").view(np.uint16)
        lists.append(blocks)
    counts = [int(word).bit_count() for word in present]
    ranks, offsets = np.cumsum([0, *counts]), np.cumsum([0, *map(len, lists)])
    return Postings(
        freeze(present),
        freeze(ranks.astype(np.uint32)),
        freeze(offsets.astype(np.uint32)),
        freeze(np.concatenate(lists)),
    )


def intersected(table: dict[int, frozenset[int]], keys: list[int]) -> list[int]:
    postings, out = postings_of(table), np.empty(BLOCKS, np.uint32)
    count = intersect(
        freeze(np.array(keys, np.int64)),
        bitmap_length(BLOCKS),
        postings.present,
        postings.ranks,
        postings.offsets,
        postings.blocks,
        out,
    )
    return [int(block) for block in out[:count]]


def united(table: dict[int, frozenset[int]], keys: list[int]) -> list[int]:
    postings, bits = postings_of(table), np.zeros(bitmap_length(BLOCKS), np.uint16)
    unite(
        freeze(np.array(keys, np.int64)),
        len(bits),
        postings.present,
        postings.ranks,
        postings.offsets,
        postings.blocks,
        bits,
    )
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()


@settings(deadline=None)
@given(tables, st.data())
def test_blocks_with_all_keys_are_the_intersection(table: dict[int, frozenset[int]], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(sorted(table)), min_size=1, max_size=5))
    assert intersected(table, keys) == sorted(frozenset.intersection(*(table[key] for key in keys)))


@settings(deadline=None)
@given(tables, st.data())
def test_blocks_with_any_key_are_the_union(table: dict[int, frozenset[int]], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from([*sorted(table), 5, 77]), max_size=5))
    assert united(table, keys) == sorted(frozenset().union(*(table.get(key, frozenset()) for key in keys)))


def test_a_key_that_is_nowhere_leaves_no_block() -> None:
    assert intersected({64: frozenset({1, 2})}, [64, 65]) == []


def test_a_short_list_leaps_through_a_long_one() -> None:
    long = frozenset(range(3, 43))
    assert intersected({1: frozenset({2, 3, 42, 43}), 2: long, 3: frozenset({42})}, [1, 2]) == [3, 42]
    assert intersected({1: frozenset({42}), 2: long}, [1, 2]) == [42]


@given(st.sets(st.integers(0, KEYS - 1)), st.data())
def test_keys_with_a_class_in_any_place_are_passed_over(keys: set[int], data: st.DataObject) -> None:
    theirs = [each for key in sorted(keys) for each in classes_of(key)]
    classes = data.draw(st.sets(st.sampled_from(theirs) | st.integers(0, 63) if theirs else st.integers(0, 63)))
    kept = [key for key in sorted(keys) if classes.isdisjoint(classes_of(key))]
    assert keys_without(classes, freeze(np.array(sorted(keys), np.int64))).tolist() == kept


def classes_of(key: int) -> list[int]:
    return [key >> 12, key >> 6 & 63, key & 63]
