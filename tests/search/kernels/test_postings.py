"""Keys of blocks: exactly those of the bytes in and around them and of the name, however the scratch is cut."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.kernels.trigrams import BITMAP, CLASSES, KEYS, collect_keys, fill_postings, key_of

OVERLAP = 4

texts = st.lists(st.sampled_from([b"ab", b"\n", b"xyz", b"\0", b"Q"]), min_size=1, max_size=30).map(b"".join)


def keys_in(text: bytes) -> set[int]:
    return {key_of(*text[i : i + 3]) for i in range(len(text) - 2)}


def expected(data: bytes, start: int, end: int) -> set[int]:
    """The keys of one block, by the rule as it is written."""
    last = end + (1 if data[end - 1] in b"\n\0" else OVERLAP)
    return keys_in((data[start - 1 : start] or b"\n") + data[start:last])


def collect(data: bytes, starts: list[int], room: int, names: list[bytes], owners: list[int]) -> list[list[int]]:
    """The keys of each block as the kernel finds them, in chunks of `room`; block i is of document owners[i]."""
    counts, stamps = np.zeros(KEYS, np.uint32), np.zeros(KEYS, np.uint16)
    ends = np.zeros(len(starts) - 1, np.int64)
    found: list[list[int]] = []
    text, bounds = freeze(np.frombuffer(data, np.uint8)), freeze(np.array(starts, np.uint32))
    joined = freeze(np.frombuffer(b"".join(name + b"\0" for name in names), np.uint8))
    name_starts = freeze(np.cumsum([0] + [len(name) + 1 for name in names]).astype(np.uint32))
    documents = freeze(np.array(owners, np.uint32))
    while len(found) < len(starts) - 1:
        keys = np.empty(room, np.uint32)
        first = len(found)
        last = collect_keys(
            text, bounds, documents, joined, name_starts, first, CLASSES, OVERLAP, stamps, counts, keys, ends
        )
        assert last > first
        begins = [0, *ends[first:last].tolist()]
        found += [keys[begin:end].tolist() for begin, end in pairwise(begins)]
    assert int(counts.sum()) == sum(map(len, found))
    return found


@settings(deadline=None)
@given(data=texts, cuts=st.sets(st.integers(1, 60)), chunk=st.integers(1, 3))
def test_a_block_has_the_keys_of_its_bytes_and_their_neighbours(data: bytes, cuts: set[int], chunk: int) -> None:
    starts = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    largest = max(end - start for start, end in pairwise(starts)) + OVERLAP
    names = [b"first", b"second"]
    owners = [int(number >= len(starts) // 2) for number in range(len(starts) - 1)]
    found = collect(data, starts, (largest + 8) * chunk, names, owners)
    assert all(len(keys) == len(set(keys)) for keys in found)
    expected_keys = [expected(data, start, end) for start, end in pairwise(starts)]
    for document, name in enumerate(names):
        if document in owners:
            expected_keys[owners.index(document)] |= keys_in(b"\0" + name + b"\0")
    assert [set(keys) for keys in found] == expected_keys


def test_the_first_line_begins_like_any_other() -> None:
    (keys,) = collect(b"abc\0", [0, 4], 10, [b"n"], [0])
    assert key_of(*b"\nab") in keys
    assert key_of(*b"bc\n") in keys


def test_a_posting_is_filled_as_a_list_or_as_a_bitmap() -> None:
    keys = np.array([7, 9, 7, 7], np.uint32)
    ends = np.array([2, 3, 4], np.int64)  # block 0 has 7 and 9, blocks 1 and 2 have 7
    cursors = np.zeros(KEYS, np.uint32)
    cursors[7], cursors[9] = BITMAP | 1, 0
    postings = np.zeros(5, np.uint16)
    fill_postings(keys, ends, 0, 3, cursors, postings)
    assert postings.tolist() == [0, 0b111, 0, 0, 0]
    assert cursors[9] == 1
