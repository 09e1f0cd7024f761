"""Finds a literal in ranges of the text.

The pattern is compared at 64 positions at once, its two rarest bytes (by a fixed table) first, which runs at 40 % of
memory bandwidth, so C could at most be twice as fast. Where both agree, the other bytes are compared one by one until
no position is left or all have agreed. Text is prefetched, because the CPU predicts sequential reads but not which
block comes next.

Case is ignored with one `or`: for a letter, `byte | 32 == letter` holds for its two cases and for no other byte. Bytes
that are no letters are compared as they are, with a fold of 0.
"""

import numba
import numpy as np

from argosy.search.arrays import I64, U8, U32, U64
from argosy.search.kernels.compiler import BYTES, LONGS, TABLE, WORDS, helper, kernel
from argosy.search.kernels.simd import WINDOW, bytes_at, equal, fetch, lowest, words_at

_U = np.uintp
_RARE = numba.types.Array(numba.int64, 1, "C", readonly=True)
_POSITIONS = numba.uint32[::1]
_NONE = np.uint64(0)

# Columns of the `scan_parts` table, which has a row per index part. Sizes are values, the rest are addresses.
COLUMNS = 6
DATA, BLOCK_STARTS, BLOCK_DOCS, NAMES, NAME_STARTS, DATA_BYTES = range(COLUMNS)

# Columns of its input: pieces of parts by row and block range, as selected by `candidates.py`.
ROW, FIRST_BLOCK, PAST_BLOCK = range(3)
# Columns of its result per piece: number of matches, and index of its first file.
MATCHES, FIRST_FILE = range(2)
# Columns of its result per file.
FILE_ROW, DOCUMENT, FIRST_MATCH, IS_NAME = range(4)

_CAPACITY, _CAPACITY_FILES = 4096, 256  # initial, for matches and files

STRIDE = 2 * WINDOW  # positions skipped at once where nothing matches with a single branch
_AHEAD_BYTES = 1024  # prefetch distance, in ranges that can be long


@helper
def _agreeing(data: U8, at: int, pattern: U8, folds: U8, rare: I64, mask: int) -> int:
    """The positions of the mask at which all rare bytes agree; the first two are checked already."""
    k = 2
    # Usually one more comparison clears the mask, so the remaining bytes of the pattern are seldom read.
    while mask != _NONE and k < rare.size:
        place = rare[_U(k)]
        mask &= equal(data, _U(at + place), pattern[_U(place)], folds[_U(place)])
        k += 1
    return mask


@helper
def _next(data: U8, at: int, end: int, pattern: U8, folds: U8, rare: I64, ahead: int) -> tuple[int, int]:
    """Finds the next 64 positions of which some agree in all rare bytes; returns the position after them, and the mask.

    Prefetches `ahead` bytes in advance. Returns a position past the end if none agree.
    """
    # A pattern of one byte compares it twice, which is cheaper than a second loop.
    i, j = rare[0], rare[min(1, rare.size - 1)]
    byte_i, fold_i, byte_j, fold_j = pattern[_U(i)], folds[_U(i)], pattern[_U(j)], folds[_U(j)]
    while at < end:
        beyond = at + WINDOW
        fetch(data, _U(at + ahead))
        fetch(data, _U(beyond + ahead))
        here = equal(data, _U(at + i), byte_i, fold_i) & equal(data, _U(at + j), byte_j, fold_j)
        there = equal(data, _U(beyond + i), byte_i, fold_i) & equal(data, _U(beyond + j), byte_j, fold_j)
        if here | there != _NONE:
            here = _agreeing(data, at, pattern, folds, rare, here)
            if here != _NONE:
                return beyond, here
            there = _agreeing(data, beyond, pattern, folds, rare, there)
            if there != _NONE:
                return beyond + WINDOW, there
        at += STRIDE
    return at, _NONE


@helper
def _is_here(data: U8, at: int, pattern: U8, folds: U8) -> bool:
    k = 0
    while k < pattern.size and np.uint8(data[_U(at + k)] | folds[_U(k)]) == pattern[_U(k)]:
        k += 1
    return k == pattern.size


@helper
def _scan_range(
    data: U8,
    at: int,
    end: int,
    ahead: int,
    pattern: U8,
    folds: U8,
    rare: I64,
    advance: int,
    free: int,
    places: U32,
    found: int,
    with_positions: bool,
) -> tuple[int, int, int]:
    """The matches that begin in a range, none before `free`; after a match the next can begin `advance` bytes later.

    Returns the number of matches so far, the new `free`, and the position to resume at if `out` is full, else -1.
    Without `with_positions`, matches are only counted.
    """
    size = pattern.size
    last = data.size - size  # the last position at which the pattern can begin
    # From here on, 128 positions at once would exceed the data, and reading past an array can end the process.
    near = data.size - STRIDE - size
    at = max(at, free)
    end = min(end - 1, last) + 1
    while at < end:
        if at < near:
            at, mask = _next(data, at, min(end, near), pattern, folds, rare, ahead)
            while mask != _NONE:
                here = at - WINDOW + lowest(mask)
                mask &= mask - np.uint64(1)
                if here < free or here >= end:  # inside the previous match, or past the range: the window is wider
                    continue
                if with_positions:
                    if found == places.size:
                        return found, free, here
                    places[_U(found)] = here
                found += 1
                free = here + advance
        else:
            if at >= free and _is_here(data, at, pattern, folds):
                if with_positions:
                    if found == places.size:
                        return found, free, at
                    places[_U(found)] = at
                found += 1
                free = at + advance
            at += 1
    return found, free, np.int64(-1)


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
    """The positions inside the ranges at which the pattern begins, ascending, until `out` is full.

    After a match the next can begin `advance` bytes later: the pattern's length, or 1 to include overlaps. A match can
    end beyond its range, never beyond the data. Returns (found, range, position) to resume from; the scan is complete
    when range equals the number of ranges. `folds[k]` is 32 where case is ignored (pattern[k] is lower case then).
    """
    found = 0
    free = first_position  # no match can begin before the previous one has ended
    for r in range(first_range, starts.size):
        start, end = np.int64(starts[r]), np.int64(ends[r])
        found, free, on = _scan_range(
            data, start, end, _AHEAD_BYTES, pattern, folds, rare, advance, free, out, found, True
        )
        if on >= 0:
            return found, r, on
    return found, np.int64(starts.size), free


@helper
def _grow(places: U32, found: int, more: int) -> U32:
    """A copy with capacity for `more` further positions, at least twice as large."""
    larger = np.empty(2 * places.size + more, np.uint32)
    larger[:found] = places[:found]
    return larger


@helper
def _scan_name(
    data: U8, at: int, end: int, pattern: U8, folds: U8, places: U32, found: int, with_positions: bool
) -> int:
    while at <= end - pattern.size:
        if _is_here(data, at, pattern, folds):
            if with_positions:
                places[_U(found)] = at
            found += 1
            at += pattern.size
        else:
            at += 1
    return found


@kernel((TABLE, numba.int64[:, ::1], _POSITIONS, BYTES, BYTES, _RARE, numba.boolean, numba.boolean))
def scan_parts(
    table: I64, pieces: I64, blocks: U32, pattern: U8, folds: U8, rare: I64, with_names: bool, with_positions: bool
) -> tuple[U32, I64, I64]:
    """Finds the pattern in these pieces, file by file; returns positions, files, and sums per piece.

    A name counts only if the content has no match; it is scanned with the document's first block. The files end with
    one extra row, past the last. Without `with_positions`, matches are only counted.
    """
    places = np.empty(_CAPACITY, np.uint32)
    files = np.empty((_CAPACITY_FILES, 4), np.int64)
    sums = np.empty((pieces.shape[0], 2), np.int64)
    found, count = 0, 0
    for p in range(pieces.shape[0]):
        row = table[pieces[p, ROW]]
        data, names = bytes_at(row[DATA], row[DATA_BYTES]), bytes_at(row[NAMES], 1)
        block_starts, name_starts = words_at(row[BLOCK_STARTS], 1), words_at(row[NAME_STARTS], 1)
        block_docs = words_at(row[BLOCK_DOCS], 1)
        sums[p, FIRST_FILE] = count
        first_of_piece = found
        free = np.int64(0)
        b, past = pieces[p, FIRST_BLOCK], pieces[p, PAST_BLOCK]
        while b < past:
            first = np.int64(blocks[_U(b)])
            document = block_docs[_U(first)]
            before = found
            while b < past and block_docs[_U(blocks[_U(b)])] == document:
                block = np.int64(blocks[_U(b)])
                start, end = np.int64(block_starts[_U(block)]), np.int64(block_starts[_U(block + 1)])
                if with_positions and places.size - found < (end - start) // pattern.size + 1:
                    places = _grow(places, found, (end - start) // pattern.size + 1)
                # Prefetch the next candidate block while this one is scanned: candidates are seldom adjacent.
                ahead = np.int64(block_starts[_U(blocks[_U(min(b + 1, past - 1))])]) - start
                found, free, _ = _scan_range(
                    data, start, end, ahead, pattern, folds, rare, pattern.size, free, places, found, with_positions
                )
                b += 1
            is_name = found == before
            # Only the first block of a document is indexed by its name, so any other candidate block is no sign of a
            # match in it.
            if is_name and with_names and (first == 0 or block_docs[_U(first - 1)] != document):
                start, end = np.int64(name_starts[_U(document)]), np.int64(name_starts[_U(document) + _U(1)]) - 1
                if with_positions and places.size - found < (end - start) // pattern.size + 1:
                    places = _grow(places, found, (end - start) // pattern.size + 1)
                found = _scan_name(names, start, end, pattern, folds, places, found, with_positions)
            if found > before:
                if count + 1 == files.shape[0]:
                    larger = np.empty((2 * files.shape[0], 4), np.int64)
                    larger[:count] = files[:count]
                    files = larger
                files[count, FILE_ROW], files[count, DOCUMENT] = pieces[p, ROW], document
                files[count, FIRST_MATCH], files[count, IS_NAME] = before, is_name
                count += 1
        sums[p, MATCHES] = found - first_of_piece
    files[count, FILE_ROW], files[count, DOCUMENT], files[count, FIRST_MATCH], files[count, IS_NAME] = -1, 0, found, 0
    return places[: found if with_positions else 0], files[: count + 1], sums


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
    """Like `scan` with overlaps, for a run of `size` (at most 64) bytes with a set of allowed values each.

    Bit k of table[b] says whether byte b is allowed at position k. `rare` are the positions whose sets have one byte,
    given in `pattern` and `folds`.
    """
    last = data.size - size
    near = data.size - STRIDE - size
    found = 0
    for r in range(first_range, starts.size):
        at = max(np.int64(starts[r]), first_position)
        end = min(np.int64(ends[r]) - 1, last) + 1
        while at < end:
            if at < near:
                at, mask = _next(data, at, min(end, near), pattern, folds, rare, _AHEAD_BYTES)
                while mask != _NONE:
                    here = at - WINDOW + lowest(mask)
                    mask &= mask - np.uint64(1)
                    if here >= end or not _fits(data, here, size, table):
                        continue
                    if found == out.size:
                        return found, r, here
                    out[_U(found)] = here
                    found += 1
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
    """Counts one byte in the ranges, none of which crosses the end of a document; marks the documents in `seen`."""
    total = 0
    document = 0
    for r in range(starts.size):
        at = np.int64(starts[r])
        end = np.int64(ends[r])
        # Ranges and documents ascend, so both are passed over once.
        while np.int64(documents[_U(document + 1)]) <= at:
            document += 1
        count = 0
        while at + 128 <= end:
            few = np.uint8(0)  # uint8, so that LLVM vectorizes the loop; 128 bytes cannot overflow it
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
    """The text ranges of these blocks, adjacent blocks of a document merged, without the NUL at its end.

    Merged, so that a match across two candidate blocks is inside one range.
    """
    starts = np.empty(blocks.size, np.uint32)
    ends = np.empty(blocks.size, np.uint32)
    count = 0
    for i in range(blocks.size):
        block = np.int64(blocks[i])
        start = block_starts[_U(block)]
        end = block_starts[_U(block + 1)]
        if block + 1 == block_docs.size or block_docs[_U(block + 1)] != block_docs[_U(block)]:
            # A literal has no NUL, and a regular expression must not see it.
            end -= np.uint32(1)
        if count and ends[count - 1] == start:
            ends[count - 1] = end
        else:
            starts[count] = start
            ends[count] = end
            count += 1
    return starts[:count].copy(), ends[:count].copy()
