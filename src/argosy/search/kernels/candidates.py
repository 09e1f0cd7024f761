"""Which blocks may hold a text: intersecting and uniting postings."""

import numba
import numpy as np

from argosy.search.index.segment import I64, U16, U32, U64
from argosy.search.kernels.compiling import LONGS, SHORTS, WORDS, helper, kernel

_U = np.uintp
_KEYS = numba.types.Array(numba.int64, 1, "C", readonly=True)
_OUT = numba.uint32[::1]
_BITS = numba.uint16[::1]

CLASS_BITS = 6                  # as in `classes.py`; a kernel's cache does not notice constants of other files

# A list this many times longer than what is left of the candidates is searched in leaps, not walked.
_LEAP_RATIO = 16


@helper
def _ones(word: int) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@helper
def _rank(key: int, present: U64, ranks: U32) -> int:
    """The key's place among those present, or -1."""
    word = present[_U(key >> 6)]
    bit = np.uint64(key & 63)
    if (word >> bit) & np.uint64(1) == 0:
        return np.int64(-1)
    return np.int64(ranks[_U(key >> 6)]) + np.int64(_ones(word & ((np.uint64(1) << bit) - np.uint64(1))))


@helper
def _keep_in_bitmap(out: U32, count: int, blocks: U16, start: int) -> int:
    kept = 0
    for i in range(count):
        block = out[i]
        out[kept] = block
        kept += np.int64((blocks[_U(start + (block >> 4))] >> np.uint16(block & 15)) & np.uint16(1))
    return kept


@helper
def _keep_by_leaps(out: U32, count: int, blocks: U16, start: int, length: int) -> int:
    kept = 0
    low = start
    end = start + length
    for i in range(count):
        block = out[i]
        step = 1
        probe = low
        while probe < end and blocks[_U(probe)] < block:
            low = probe + 1
            probe += step
            step <<= 1
        high = min(probe, end)
        while low < high:
            middle = (low + high) >> 1
            if blocks[_U(middle)] < block:
                low = middle + 1
            else:
                high = middle
        if low < end and blocks[_U(low)] == block:
            out[kept] = block
            kept += 1
    return kept


@helper
def _keep_by_walking(out: U32, count: int, blocks: U16, start: int, length: int) -> int:
    kept = 0
    at = start
    end = start + length
    for i in range(count):
        block = out[i]
        while at < end and blocks[_U(at)] < block:
            at += 1
        if at < end and blocks[_U(at)] == block:
            out[kept] = block
            kept += 1
    return kept


@helper
def _intersect_bitmaps(starts: I64, blocks: U16, words: int, out: U32) -> int:
    both = np.empty(words, np.uint16)
    for w in range(words):
        both[w] = blocks[_U(starts[0] + w)]
    for i in range(1, starts.size):
        for w in range(words):
            both[w] &= blocks[_U(starts[i] + w)]
    count = 0
    for w in range(words):
        if both[w]:
            for bit in range(16):
                if (both[w] >> np.uint16(bit)) & np.uint16(1):
                    out[count] = (w << 4) + bit
                    count += 1
    return count


@helper
def _by_length(starts: I64, lengths: I64) -> None:
    """Sorts postings, the shortest first. There are few, and numba's own sorting takes long to load."""
    for i in range(1, lengths.size):
        start, length = starts[_U(i)], lengths[_U(i)]
        at = i
        while at > 0 and lengths[_U(at - 1)] > length:
            starts[_U(at)], lengths[_U(at)] = starts[_U(at - 1)], lengths[_U(at - 1)]
            at -= 1
        starts[_U(at)], lengths[_U(at)] = start, length


@helper
def _intersect(
    keys: I64, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, out: U32
) -> tuple[int, int]:
    """How many blocks there are, and how many entries the postings have."""
    starts = np.empty(keys.size, np.int64)
    lengths = np.empty(keys.size, np.int64)
    entries = np.int64(0)
    for i in range(keys.size):
        rank = _rank(keys[i], present, ranks)
        if rank < 0:
            return 0, 0
        starts[i] = offsets[rank]
        lengths[i] = np.int64(offsets[rank + 1]) - starts[i]
        entries += lengths[i]
    _by_length(starts, lengths)
    if lengths[0] == bitmap_words:
        return _intersect_bitmaps(starts, blocks, bitmap_words, out), entries
    count = lengths[0]
    for i in range(count):
        out[i] = blocks[_U(starts[0] + i)]
    for i in range(1, keys.size):
        if count == 0:
            break
        if lengths[i] == bitmap_words:
            count = _keep_in_bitmap(out, count, blocks, starts[i])
        elif lengths[i] > _LEAP_RATIO * count:
            count = _keep_by_leaps(out, count, blocks, starts[i], lengths[i])
        else:
            count = _keep_by_walking(out, count, blocks, starts[i], lengths[i])
    return count, entries


@kernel((_KEYS, numba.int64, LONGS, WORDS, WORDS, SHORTS, _OUT))
def intersect(keys: I64, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, out: U32) -> int:
    """The blocks that hold every key, ascending in `out`; returns how many. Shortest posting first."""
    return _intersect(keys, bitmap_words, present, ranks, offsets, blocks, out)[0]


@kernel((_KEYS, SHORTS, numba.int64, LONGS, WORDS, WORDS, SHORTS, _OUT))
def intersect_without(
    keys: I64, classes: U16, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, out: U32
) -> int:
    """Like `intersect`, for the keys that have none of these classes in them; -1 if all of them have."""
    kept = np.empty(keys.size, np.int64)
    count = 0
    for i in range(keys.size):
        is_kept = True
        for c in range(classes.size):
            for shift in range(0, 3 * CLASS_BITS, CLASS_BITS):
                is_kept &= (keys[i] >> shift) & ((1 << CLASS_BITS) - 1) != np.int64(classes[c])
        kept[count] = keys[i]
        count += np.int64(is_kept)
    if count == 0:
        return np.int64(-1)
    return _intersect(kept[:count], bitmap_words, present, ranks, offsets, blocks, out)[0]


@kernel((_KEYS, numba.int64, LONGS, WORDS, WORDS, SHORTS, WORDS, WORDS, LONGS, _OUT))
def choose(
    keys: I64,
    bitmap_words: int,
    present: U64,
    ranks: U32,
    offsets: U32,
    blocks: U16,
    block_starts: U32,
    block_docs: U32,
    branches: U64,
    out: U32,
) -> tuple[int, int, int, int]:
    """Like `intersect`, without documents on no branch: how many blocks, documents, bytes and entries of postings."""
    count, entries = _intersect(keys, bitmap_words, present, ranks, offsets, blocks, out)
    kept, documents, size = 0, 0, 0
    last = np.int64(-1)
    for i in range(count):
        block = np.int64(out[i])
        document = np.int64(block_docs[_U(block)])
        if branches[_U(document)] == 0:
            continue
        out[kept] = block
        kept += 1
        size += np.int64(block_starts[_U(block + 1)]) - np.int64(block_starts[_U(block)])
        documents += np.int64(document != last)
        last = document
    return kept, documents, size, entries


@kernel((_KEYS, LONGS, WORDS, WORDS))
def entries_of(keys: I64, present: U64, ranks: U32, offsets: U32) -> int:
    """How many entries the postings of these keys have together."""
    entries = 0
    for i in range(keys.size):
        rank = _rank(keys[i], present, ranks)
        if rank >= 0:
            entries += np.int64(offsets[rank + 1]) - np.int64(offsets[rank])
    return entries


@kernel((_KEYS, numba.int64, LONGS, WORDS, WORDS, SHORTS, _BITS))
def unite(keys: I64, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, bits: U16) -> None:
    """Sets the bit of every block that holds at least one of the keys."""
    for i in range(keys.size):
        rank = _rank(keys[i], present, ranks)
        if rank < 0:
            continue
        start = np.int64(offsets[rank])
        length = np.int64(offsets[rank + 1]) - start
        if length == bitmap_words:
            for w in range(length):
                bits[_U(w)] |= blocks[_U(start + w)]
        else:
            for j in range(length):
                block = blocks[_U(start + j)]
                bits[_U(block >> np.uint16(4))] |= np.uint16(1) << (block & np.uint16(15))
