"""Finding a literal in ranges of the text.

The three statically rarest bytes of the pattern are compared at 128 positions at once (the compiler turns the loop into
vector instructions); only where all three agree is the rest looked at.
"""

import numba
import numpy as np

from argosy.search.index.segment import I64, U8, U32, U64
from argosy.search.kernels.compiling import BYTES, LONGS, WORDS, helper, kernel

_U = np.uintp
_RARE = numba.types.Array(numba.int64, 1, "C", readonly=True)
_POSITIONS = numba.uint32[::1]

STRIDE = 128                    # positions compared at once; the flags are read back as 64-bit words
_WORDS = STRIDE // 8


@helper
def _trailing_bytes(word: int) -> int:
    """How many zero bytes stand below the lowest set bit."""
    below = (word & (~word + np.uint64(1))) - np.uint64(1)
    below = below - ((below >> np.uint64(1)) & np.uint64(0x5555555555555555))
    below = (below & np.uint64(0x3333333333333333)) + ((below >> np.uint64(2)) & np.uint64(0x3333333333333333))
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(((below * np.uint64(0x0101010101010101)) >> np.uint64(56)) >> np.uint64(3))


@helper
def _flag(
    data: U8,
    at0: int, at1: int, at2: int,
    fold0: int, fold1: int, fold2: int,
    byte0: int, byte1: int, byte2: int,
    flags: U8,
) -> None:  # fmt: skip
    for i in range(STRIDE):
        x = np.uint8(data[at0 + _U(i)] | fold0)
        y = np.uint8(data[at1 + _U(i)] | fold1)
        z = np.uint8(data[at2 + _U(i)] | fold2)
        flags[_U(i)] = np.uint8(x == byte0) & np.uint8(y == byte1) & np.uint8(z == byte2)


@helper
def _is_blank(words: U64) -> bool:
    """Whether no flag is set: nearly always, and this too is done by vector instructions."""
    some = np.uint64(0)
    for w in range(_WORDS):
        some |= words[_U(w)]
    return some == np.uint64(0)


@helper
def _is_here(data: U8, at: int, pattern: U8, folds: U8) -> bool:
    k = 0
    while k < pattern.size and np.uint8(data[_U(at + k)] | folds[_U(k)]) == pattern[_U(k)]:
        k += 1
    return k == pattern.size


@kernel((BYTES, WORDS, WORDS, BYTES, BYTES, _RARE, numba.int64, numba.int64, numba.int64, _POSITIONS))
def scan(
    data: U8,
    starts: U32,
    ends: U32,
    pattern: U8,
    folds: U8,
    rare: I64,
    advance: int,
    first_range: int,
    first_position: int,
    out: U32,
) -> tuple[int, int, int]:
    """Where the pattern begins inside the ranges, ascending, until `out` is full.

    After a match the next may begin `advance` bytes on: the pattern's length, or 1 if overlaps are wanted. A match may
    end beyond its range, never beyond the data. Returns (found, range, position): go on from there; all is done when
    the range is the number of ranges. `folds[k]` is 32 where case does not matter (pattern[k] is lower then).
    """
    flags = np.zeros(STRIDE, np.uint8)
    words = flags.view(np.uint64)
    size = pattern.size
    last = data.size - size                 # the last place where the pattern could begin
    i0, i1, i2 = rare[0], rare[1], rare[2]
    found = 0
    free = first_position                   # no match may begin before the previous one has ended
    for r in range(first_range, starts.size):
        at = max(np.int64(starts[r]), free)
        end = min(np.int64(ends[r]) - 1, last) + 1
        while at < end:
            if at + STRIDE + size < data.size:
                _flag(
                    data, _U(at + i0), _U(at + i1), _U(at + i2), folds[i0], folds[i1], folds[i2],
                    pattern[i0], pattern[i1], pattern[i2], flags,
                )  # fmt: skip
                if _is_blank(words):
                    at += STRIDE
                    continue
                for w in range(_WORDS):
                    word = words[_U(w)]
                    while word:
                        here = at + (w << 3) + _trailing_bytes(word)
                        word &= word - np.uint64(1)
                        if here < free or here >= end or not _is_here(data, here, pattern, folds):
                            continue
                        if found == out.size:
                            return found, r, here
                        out[_U(found)] = here
                        found += 1
                        free = here + advance
                at += STRIDE
            else:
                if at >= free and _is_here(data, at, pattern, folds):
                    if found == out.size:
                        return found, r, at
                    out[_U(found)] = at
                    found += 1
                    free = at + advance
                at += 1
    return found, np.int64(starts.size), free


@kernel((BYTES, WORDS, WORDS, WORDS, BYTES, BYTES, _RARE, _POSITIONS, _POSITIONS, numba.int64[::1]))
def scan_blocks(
    data: U8,
    block_starts: U32,
    block_docs: U32,
    blocks: U32,
    pattern: U8,
    folds: U8,
    rare: I64,
    places: U32,
    documents: U32,
    firsts: I64,
) -> tuple[int, int]:
    """Where the pattern begins in these blocks, grouped by document: (matches, documents with any).

    `documents` has room for all the blocks', `firsts` for one more: where each one's matches begin. All matches are
    counted, and as many told as `places` has room for.
    """
    flags = np.zeros(STRIDE, np.uint8)
    words = flags.view(np.uint64)
    size = pattern.size
    last = data.size - size
    i0, i1, i2 = rare[0], rare[1], rare[2]
    found, files = 0, 0
    free = np.int64(0)
    for b in range(blocks.size):
        block = np.int64(blocks[b])
        before = found
        at = max(np.int64(block_starts[_U(block)]), free)
        end = min(np.int64(block_starts[_U(block + 1)]) - 1, last) + 1
        while at < end:
            if at + STRIDE + size < data.size:
                _flag(
                    data, _U(at + i0), _U(at + i1), _U(at + i2), folds[i0], folds[i1], folds[i2],
                    pattern[i0], pattern[i1], pattern[i2], flags,
                )  # fmt: skip
                if _is_blank(words):
                    at += STRIDE
                    continue
                for w in range(_WORDS):
                    word = words[_U(w)]
                    while word:
                        here = at + (w << 3) + _trailing_bytes(word)
                        word &= word - np.uint64(1)
                        if here < free or here >= end or not _is_here(data, here, pattern, folds):
                            continue
                        if found < places.size:
                            places[_U(found)] = here
                        found += 1
                        free = here + size
                at += STRIDE
            else:
                if at >= free and _is_here(data, at, pattern, folds):
                    if found < places.size:
                        places[_U(found)] = at
                    found += 1
                    free = at + size
                at += 1
        if found > before and (files == 0 or documents[_U(files - 1)] != block_docs[_U(block)]):
            documents[_U(files)] = block_docs[_U(block)]
            firsts[_U(files)] = before
            files += 1
    firsts[_U(files)] = found
    return found, files


@kernel((BYTES, WORDS, WORDS, WORDS, WORDS, BYTES, BYTES, _POSITIONS, _POSITIONS, numba.int64[::1]))
def scan_names(
    data: U8,
    starts: U32,
    block_docs: U32,
    blocks: U32,
    others: U32,
    pattern: U8,
    folds: U8,
    places: U32,
    documents: U32,
    firsts: I64,
) -> tuple[int, int]:
    """Like `scan_blocks`, in the names of the documents that begin with one of these blocks, but for the `others`.

    The others ascend as the blocks do. `places` has room for all that fit into the names.
    """
    found, files, other = 0, 0, 0
    for b in range(blocks.size):
        block = np.int64(blocks[b])
        document = block_docs[_U(block)]
        if block > 0 and block_docs[_U(block - 1)] == document:
            continue
        while other < others.size and others[_U(other)] < document:
            other += 1
        if other < others.size and others[_U(other)] == document:
            continue
        before = found
        at = np.int64(starts[_U(document)])
        last = np.int64(starts[_U(document) + _U(1)]) - 1 - pattern.size
        while at <= last:
            if _is_here(data, at, pattern, folds):
                places[_U(found)] = at
                found += 1
                at += pattern.size
            else:
                at += 1
        if found > before:
            documents[_U(files)] = document
            firsts[_U(files)] = before
            files += 1
    firsts[_U(files)] = found
    return found, files


@helper
def _fits(data: U8, at: int, size: int, table: U64) -> bool:
    k = 0
    while k < size and (table[data[_U(at + k)]] >> np.uint64(k)) & np.uint64(1):
        k += 1
    return k == size


@kernel((BYTES, WORDS, WORDS, BYTES, BYTES, _RARE, numba.int64, LONGS, numba.int64, numba.int64, _POSITIONS))
def scan_run(
    data: U8,
    starts: U32,
    ends: U32,
    pattern: U8,
    folds: U8,
    rare: I64,
    size: int,
    table: U64,
    first_range: int,
    first_position: int,
    out: U32,
) -> tuple[int, int, int]:
    """Like `scan`, overlaps included, for `size` (at most 64) bytes in a row of which each has a set.

    Bit k of table[b] says whether byte b may stand at place k. `pattern`, `folds` and `rare` give the bytes at three
    places whose sets are single bytes.
    """
    flags = np.zeros(STRIDE, np.uint8)
    words = flags.view(np.uint64)
    last = data.size - size
    i0, i1, i2 = rare[0], rare[1], rare[2]
    found = 0
    for r in range(first_range, starts.size):
        at = max(np.int64(starts[r]), first_position)
        end = min(np.int64(ends[r]) - 1, last) + 1
        while at < end:
            if at + STRIDE + size < data.size:
                _flag(
                    data, _U(at + i0), _U(at + i1), _U(at + i2), folds[0], folds[1], folds[2],
                    pattern[0], pattern[1], pattern[2], flags,
                )  # fmt: skip
                if _is_blank(words):
                    at += STRIDE
                    continue
                for w in range(_WORDS):
                    word = words[_U(w)]
                    while word:
                        here = at + (w << 3) + _trailing_bytes(word)
                        word &= word - np.uint64(1)
                        if here >= end or here < first_position or not _fits(data, here, size, table):
                            continue
                        if found == out.size:
                            return found, r, here
                        out[_U(found)] = here
                        found += 1
                at += STRIDE
            else:
                if _fits(data, at, size, table):
                    if found == out.size:
                        return found, r, at
                    out[_U(found)] = at
                    found += 1
                at += 1
    return found, np.int64(starts.size), first_position


@kernel((BYTES, WORDS, WORDS, numba.uint8, numba.uint8, WORDS, numba.uint8[::1]))
def tally_byte(data: U8, starts: U32, ends: U32, byte: int, fold: int, documents: U32, seen: U8) -> int:
    """How often one byte stands in the ranges, none of which crosses a document's end; `seen` marks the documents."""
    total = 0
    document = 0
    for r in range(starts.size):
        at = np.int64(starts[r])
        end = np.int64(ends[r])
        while np.int64(documents[_U(document + 1)]) <= at:
            document += 1
        count = 0
        while at + 128 <= end:
            few = np.uint8(0)
            for i in range(128):
                few += np.uint8(np.uint8(data[_U(at) + _U(i)] | fold) == byte)
            count += few
            at += 128
        while at < end:
            count += np.int64(np.uint8(data[_U(at)] | fold) == byte)
            at += 1
        if count:
            seen[_U(document)] = 1
            total += count
    return total


@kernel((WORDS, WORDS, WORDS))
def ranges_of(block_starts: U32, block_docs: U32, blocks: U32) -> tuple[U32, U32]:
    """The stretches of text that these blocks cover, neighbours of one document joined, without the NUL at its end."""
    starts = np.empty(blocks.size, np.uint32)
    ends = np.empty(blocks.size, np.uint32)
    count = 0
    for i in range(blocks.size):
        block = np.int64(blocks[i])
        start = block_starts[_U(block)]
        end = block_starts[_U(block + 1)]
        if block + 1 == block_docs.size or block_docs[_U(block + 1)] != block_docs[_U(block)]:
            end -= np.uint32(1)
        if count and ends[count - 1] == start:
            ends[count - 1] = end
        else:
            starts[count] = start
            ends[count] = end
            count += 1
    return starts[:count].copy(), ends[:count].copy()
