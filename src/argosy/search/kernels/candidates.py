"""Finds the blocks that can contain a literal: intersects and unites postings, of one segment or of many per call."""

import numba
import numpy as np

from argosy.search.arrays import I64, U16, U32, U64
from argosy.search.kernels.compiler import LONGS, SHORTS, TABLE, WORDS, helper, kernel
from argosy.search.kernels.simd import longs_at, shorts_at, words_at

_U = np.uintp
_KEYS = numba.types.Array(numba.int64, 1, "C", readonly=True)
_OUT = numba.uint32[::1]
_BITS = numba.uint16[::1]

# Columns of the `select_in_parts` table, which has a row per index part. Sizes are values, the rest are addresses.
COLUMNS = 13
PRESENT, RANKS, OFFSETS, POSTINGS, BLOCK_STARTS, BLOCK_DOCS, BRANCHES, ODD_FOLDS = range(8)
BLOCKS, ALL_DOCUMENTS, BITMAP_WORDS, TRAITS, ODD_FOLDS_COUNT = range(8, COLUMNS)

# Columns of its result, which has a row per part that is not filtered out.
ROW, FIRST_BLOCK, PAST_BLOCK, DOCUMENTS, BYTES = range(5)
UNDECIDED = -1  # instead of the end of its blocks: bytes alone do not decide for this part

# Copies of constants in `index/index.py` and `kernels/trigrams.py`: a kernel's cache does not notice a change in
# another file.
_ODD_NAME = 8
_CLASS_BITS = 6
_CAPACITY_BLOCKS = 4096  # initial capacity of the result
_FILTERED_BLOCKS_MAX = 2048  # of a part that is filtered here: about 8 MB of text

# A posting this many times longer than the remaining candidates is searched by galloping instead of merging: a merge
# reads every entry, galloping a number that grows with the logarithm of those between two candidates.
_LEAP_RATIO = 16


# Bits are summed in parallel, without a branch or a table.
@helper
def _ones(word: int) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@helper
def _rank(key: int, present: U64, ranks: U32) -> int:
    """The position of the key among those present, or -1."""
    word = present[_U(key >> 6)]
    bit = np.uint64(key & 63)
    if (word >> bit) & np.uint64(1) == 0:
        return np.int64(-1)
    return np.int64(ranks[_U(key >> 6)]) + np.int64(_ones(word & ((np.uint64(1) << bit) - np.uint64(1))))


@helper
def _filter_by_bitmap(out: U32, count: int, blocks: U16, start: int) -> int:
    remaining = 0
    for i in range(count):
        # Written first and counted afterwards: without a branch, which the CPU could not predict.
        block = out[i]
        out[remaining] = block
        remaining += np.int64((blocks[_U(start + (block >> 4))] >> np.uint16(block & 15)) & np.uint16(1))
    return remaining


@helper
def _filter_by_galloping(out: U32, count: int, blocks: U16, start: int, length: int) -> int:
    remaining = 0
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
            out[remaining] = block
            remaining += 1
    return remaining


@helper
def _filter_by_merging(out: U32, count: int, blocks: U16, start: int, length: int) -> int:
    remaining = 0
    at = start
    end = start + length
    for i in range(count):
        block = out[i]
        while at < end and blocks[_U(at)] < block:
            at += 1
        if at < end and blocks[_U(at)] == block:
            out[remaining] = block
            remaining += 1
    return remaining


@helper
def _intersect_bitmaps(starts: I64, blocks: U16, words: int, out: U32) -> int:
    # Word by word over all bitmaps first, because LLVM vectorizes this loop; bits are only listed in the second.
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
    """Sorts postings by length. Insertion sort, because there are few and numba's own sort is slow to load.

    Shortest first, so that the candidates are never more than the shortest posting and only shrink from there.
    """
    for i in range(1, lengths.size):
        start, length = starts[_U(i)], lengths[_U(i)]
        at = i
        while at > 0 and lengths[_U(at - 1)] > length:
            starts[_U(at)], lengths[_U(at)] = starts[_U(at - 1)], lengths[_U(at - 1)]
            at -= 1
        starts[_U(at)], lengths[_U(at)] = start, length


@helper
def _find_postings(keys: I64, present: U64, ranks: U32, offsets: U32, starts: I64, lengths: I64) -> int:
    """Finds the postings of the keys, shortest first; returns their number of entries, or -1 if a key is missing."""
    # A first pass over `present` alone: most segments lack a key of a rare literal, and this array of 32 KiB is then
    # all that is read of them.
    for i in range(keys.size):
        if (present[_U(keys[i] >> 6)] >> np.uint64(keys[i] & 63)) & np.uint64(1) == 0:
            return np.int64(-1)
    entries = np.int64(0)
    for i in range(keys.size):
        rank = _rank(keys[i], present, ranks)
        starts[i] = offsets[_U(rank)]
        lengths[i] = np.int64(offsets[_U(rank + 1)]) - starts[i]
        entries += lengths[i]
    _by_length(starts, lengths)
    return entries


@helper
def _in_all(starts: I64, lengths: I64, bitmap_words: int, blocks: U16, out: U32) -> int:
    """The blocks in all of these postings, which are sorted by length."""
    # A bitmap is the longest form of a posting, so if the first one is a bitmap, all are. Then whole words are combined
    # and block numbers are written only once, at the end.
    if lengths[0] == bitmap_words:
        return _intersect_bitmaps(starts, blocks, bitmap_words, out)
    count = lengths[0]
    for i in range(count):
        out[i] = blocks[_U(starts[0] + i)]
    for i in range(1, starts.size):
        if count == 0:
            break
        if lengths[i] == bitmap_words:
            count = _filter_by_bitmap(out, count, blocks, starts[i])
        elif lengths[i] > _LEAP_RATIO * count:
            count = _filter_by_galloping(out, count, blocks, starts[i], lengths[i])
        else:
            count = _filter_by_merging(out, count, blocks, starts[i], lengths[i])
    return count


@helper
def _intersect(
    keys: I64, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, out: U32
) -> tuple[int, int]:
    """Returns the number of blocks, and the number of entries of the postings."""
    starts = np.empty(keys.size, np.int64)
    lengths = np.empty(keys.size, np.int64)
    entries = _find_postings(keys, present, ranks, offsets, starts, lengths)
    if entries < 0:
        return 0, 0
    return _in_all(starts, lengths, bitmap_words, blocks, out), entries


@kernel((_KEYS, numba.int64, LONGS, WORDS, WORDS, SHORTS, _OUT))
def intersect(keys: I64, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, out: U32) -> int:
    """Writes the blocks that hold every key to `out`, ascending; returns their number."""
    return _intersect(keys, bitmap_words, present, ranks, offsets, blocks, out)[0]


@helper
def _drop_deleted(block_starts: U32, block_docs: U32, branches: U64, out: U32, count: int) -> tuple[int, int, int]:
    """Removes blocks of deleted documents (on no branch); returns the remaining blocks, documents and bytes.

    Postings are shared between versions of an index, so they still list deleted documents; branches are per version.
    """
    remaining, documents, size = 0, 0, 0
    last = np.int64(-1)
    for i in range(count):
        block = np.int64(out[i])
        document = np.int64(block_docs[_U(block)])
        if branches[_U(document)] == 0:
            continue
        out[remaining] = block
        remaining += 1
        size += np.int64(block_starts[_U(block + 1)]) - np.int64(block_starts[_U(block)])
        documents += np.int64(document != last)
        last = document
    return remaining, documents, size


@helper
def _without(keys: I64, classes: U16) -> I64:
    """The keys that contain none of these classes."""
    remaining = np.empty(keys.size, np.int64)
    count = 0
    for i in range(keys.size):
        has_none = True
        for c in range(classes.size):
            for shift in range(0, 3 * _CLASS_BITS, _CLASS_BITS):
                has_none &= (keys[i] >> shift) & ((1 << _CLASS_BITS) - 1) != np.int64(classes[c])
        remaining[count] = keys[i]
        count += np.int64(has_none)
    return remaining[:count]


@helper
def _meets_odd_folds(row: I64, all_keys: I64, odd_classes: U16) -> bool:
    """Whether a document with ODD_FOLD letters has all keys of the literal that contain no such letter."""
    # The Kelvin sign folds to k and the long s to s. Such a document can match without the keys that contain k or s,
    # but it must have all others, which rules out nearly every part that has such documents at all.
    odd = words_at(row[ODD_FOLDS], row[ODD_FOLDS_COUNT])
    if odd.size == 0:
        return False
    keys = _without(all_keys, odd_classes)
    if keys.size == 0:
        return True
    starts, lengths = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    present, ranks = longs_at(row[PRESENT], 4096), words_at(row[RANKS], 4097)
    if _find_postings(keys, present, ranks, words_at(row[OFFSETS], 1), starts, lengths) < 0:
        return False
    out = np.empty(row[BLOCKS], np.uint32)
    count = _in_all(starts, lengths, row[BITMAP_WORDS], shorts_at(row[POSTINGS], 1), out)
    block_docs = words_at(row[BLOCK_DOCS], row[BLOCKS])
    at = 0
    for i in range(count):
        document = block_docs[_U(out[i])]
        while at < odd.size and odd[_U(at)] < document:
            at += 1
        if at < odd.size and odd[_U(at)] == document:
            return True
    return False


@kernel((TABLE, numba.int64, numba.int64, _KEYS, SHORTS, numba.int64))
def select_in_parts(
    table: I64, first: int, past: int, keys: I64, odd_classes: U16, care: int
) -> tuple[U32, I64, int, int]:
    """The blocks that can contain a literal in the parts of these rows, without those of deleted documents.

    Returns the blocks of all parts, a row for each part that is not filtered out, in order, the number of parts looked
    up, and the number of posting entries read. If a part has traits in `care`, such as letters that fold oddly together
    with all keys free of `odd_classes`, bytes do not decide: its row has UNDECIDED, and it is not counted.
    """
    starts, lengths = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    found = np.empty((past - first, 5), np.int64)
    out = np.empty(_CAPACITY_BLOCKS, np.uint32)
    count, used, undecided, entries = 0, 0, 0, np.int64(0)
    for r in range(first, past):
        row = table[r]
        care_here = row[TRAITS] & care
        # A name that is odd can match whatever the postings say, so they are not even read.
        if care_here & _ODD_NAME or (care_here and _meets_odd_folds(row, keys, odd_classes)):
            found[count, ROW], found[count, FIRST_BLOCK], found[count, PAST_BLOCK] = r, used, UNDECIDED
            found[count, DOCUMENTS] = found[count, BYTES] = 0
            count, undecided = count + 1, undecided + 1
            continue
        present, ranks = longs_at(row[PRESENT], 4096), words_at(row[RANKS], 4097)
        # The array views are one item long where only their address matters: nothing checks bounds.
        size = _find_postings(keys, present, ranks, words_at(row[OFFSETS], 1), starts, lengths)
        if size < 0:
            continue
        entries += size
        if used + row[BLOCKS] > out.size:  # the intersection writes its shortest posting first, unfiltered
            # At least twice the size, so that the cost of copying stays linear.
            larger = np.empty(2 * out.size + row[BLOCKS], np.uint32)
            larger[:used] = out[:used]
            out = larger
        here = out[used:]
        remaining = _in_all(starts, lengths, row[BITMAP_WORDS], shorts_at(row[POSTINGS], 1), here)
        block_starts, block_docs = words_at(row[BLOCK_STARTS], row[BLOCKS] + 1), words_at(row[BLOCK_DOCS], row[BLOCKS])
        branches = longs_at(row[BRANCHES], row[ALL_DOCUMENTS])
        remaining, documents, size = _drop_deleted(block_starts, block_docs, branches, here, remaining)
        if remaining:
            found[count, ROW], found[count, FIRST_BLOCK], found[count, PAST_BLOCK] = r, used, used + remaining
            found[count, DOCUMENTS], found[count, BYTES] = documents, size
            count, used = count + 1, used + remaining
    return out[:used], found[:count], past - first - undecided, entries


@helper
def _entries_of(keys: I64, present: U64, ranks: U32, offsets: U32) -> int:
    entries = np.int64(0)
    for i in range(keys.size):
        rank = _rank(keys[i], present, ranks)
        if rank >= 0:
            entries += np.int64(offsets[_U(rank + 1)]) - np.int64(offsets[_U(rank)])
    return entries


@kernel((_KEYS, LONGS, WORDS, WORDS))
def entries_of(keys: I64, present: U64, ranks: U32, offsets: U32) -> int:
    """The total number of entries in the postings of these keys."""
    return _entries_of(keys, present, ranks, offsets)


@helper
def _has_all(keys: I64, present: U64, ranks: U32) -> bool:
    i = 0
    while i < keys.size and _rank(keys[i], present, ranks) >= 0:
        i += 1
    return i == keys.size


@helper
def _documents_with_all(row: I64, keys: I64, blocks: U32, documents: U32, count: int) -> int:
    """Filters the first `count` documents to those with a block that has every key; returns their number. A count of -1
    stands for all documents that are not deleted."""
    starts, lengths = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    present, ranks = longs_at(row[PRESENT], 4096), words_at(row[RANKS], 4097)
    if _find_postings(keys, present, ranks, words_at(row[OFFSETS], 1), starts, lengths) < 0:
        return 0
    found = _in_all(starts, lengths, row[BITMAP_WORDS], shorts_at(row[POSTINGS], 1), blocks)
    block_docs, branches = words_at(row[BLOCK_DOCS], row[BLOCKS]), longs_at(row[BRANCHES], row[ALL_DOCUMENTS])
    remaining, at, last = 0, 0, np.int64(-1)
    for i in range(found):
        document = np.int64(block_docs[_U(blocks[_U(i)])])
        # The blocks of a document are adjacent in ascending order.
        if document == last:
            continue
        last = document
        while at < count and np.int64(documents[_U(at)]) < document:
            at += 1
        if branches[_U(document)] != 0 if count < 0 else (at < count and np.int64(documents[_U(at)]) == document):
            documents[_U(remaining)] = document
            remaining += 1
    return remaining


@kernel((TABLE, numba.int64, numba.int64, _KEYS, _KEYS, _KEYS, _KEYS, SHORTS))
def parts_with_all(
    table: I64, first: int, past: int, keys: I64, firsts: I64, odd: I64, free: I64, odd_classes: U16
) -> tuple[I64, int, int]:
    """The rows of parts that can have a document with all of several literals, whose keys begin at `firsts`.

    Literals are looked up one after another until no document is left, as in `evaluate.py`; the key and entry counts
    are of the parts that are filtered out. A part is never filtered out if bytes do not decide: if a document can match
    without the literal (`free`, its traits) or with letters beyond ASCII (`odd`). A large part is filtered out only if
    it lacks a key, because checking its documents here and again in the search costs more than the search alone.
    """
    left = np.empty(past - first, np.int64)
    blocks, documents = np.empty(0, np.uint32), np.empty(0, np.uint32)
    count, lookups, entries = 0, 0, np.int64(0)
    for r in range(first, past):
        row = table[r]
        # Scratch of the largest part so far, because allocating for each of hundreds of parts would cost more than the
        # lookup.
        if blocks.size < row[BLOCKS] <= _FILTERED_BLOCKS_MAX:
            blocks, documents = np.empty(row[BLOCKS], np.uint32), np.empty(row[BLOCKS], np.uint32)
        present, ranks, offsets = longs_at(row[PRESENT], 4096), words_at(row[RANKS], 4097), words_at(row[OFFSETS], 1)
        own_lookups, own_entries, remaining = 0, np.int64(0), np.int64(-1)
        for literal in range(odd.size):
            own = keys[firsts[literal] : firsts[literal + 1]]
            is_odd = row[TRAITS] & odd[literal] and _meets_odd_folds(row, own, odd_classes)
            if is_odd or row[TRAITS] & free[literal]:
                remaining = np.int64(-1)
                break
            own_lookups += own.size
            own_entries += _entries_of(own, present, ranks, offsets)
            if row[BLOCKS] <= _FILTERED_BLOCKS_MAX:
                remaining = _documents_with_all(row, own, blocks, documents, remaining)
            elif not _has_all(own, present, ranks):
                remaining = np.int64(0)
            if remaining == 0:
                break
        # Filtered out: its lookups are counted here, because no task will count them.
        if remaining == 0:
            lookups += own_lookups
            entries += own_entries
        else:
            left[count] = r
            count += 1
    return left[:count], lookups, entries


@kernel((_KEYS, numba.int64, LONGS, WORDS, WORDS, SHORTS, _BITS))
def unite(keys: I64, bitmap_words: int, present: U64, ranks: U32, offsets: U32, blocks: U16, bits: U16) -> None:
    """Sets the bit of every block that has at least one of the keys."""
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
