"""Builds postings in two passes: collects the keys of each block, then writes each block number to its postings.

A block is indexed by its own trigrams, those that include one byte before or after it, and, if it ends inside a line,
those of `overlap` further bytes: a literal that begins in the block is found by the keys of its first `overlap` bytes.
The position before the first byte counts as a line end. A document's first block is also indexed by the trigrams of its
name, so that one lookup covers content and name.
"""

import numba
import numpy as np
import numpy.typing as npt

from argosy.search.arrays import U8, U16, U32
from argosy.search.kernels.compiler import BYTES, WORDS, helper, kernel

BITMAP = 1 << 31  # flag in a cursor: its posting is a bitmap that begins there

_U16S = numba.uint16[::1]
_U32S = numba.uint32[::1]
_I64S = numba.int64[::1]


@helper
def _enter(
    data: U8, start: int, last: int, classes: U8, stamp: np.uint16, stamps: U16, counts: U32, keys: U32, filled: int
) -> int:
    """Adds the keys of the bytes from `start` (and the byte before it) to `last`, without those stamped already."""
    key = np.uint32(classes[data[np.uintp(start)]])
    if start > 0:
        key |= np.uint32(classes[data[np.uintp(start - 1)]]) << np.uint32(6)
    for at in range(start + 1, last):
        key = (key << np.uint32(6) | np.uint32(classes[data[np.uintp(at)]])) & np.uint32(0x3FFFF)
        if stamps[key] != stamp:
            stamps[key] = stamp
            counts[key] += np.uint32(1)
            keys[np.uintp(filled)] = key
            filled += 1
    return filled


@kernel(numba.int64(BYTES, WORDS, WORDS, BYTES, WORDS, numba.int64, BYTES, numba.int64, _U16S, _U32S, _U32S, _I64S))
def collect_keys(
    data: U8,
    block_starts: U32,
    block_docs: U32,
    names: U8,
    name_starts: U32,
    first: int,
    classes: U8,
    overlap: int,
    stamps: U16,
    counts: U32,
    keys: U32,
    ends: npt.NDArray[np.int64],
) -> int:
    """Writes the distinct keys of the blocks from `first` on to `keys`, until it may be too small for the next block.

    `ends[b]` is the end of block b's keys; `counts[k]` is incremented for each block with key k; `stamps` starts as
    zeros and is passed from call to call. Returns the next block.
    """
    size, blocks, capacity, filled = data.size, block_starts.size - 1, keys.size, 0
    block = first
    while block < blocks:
        start, end = int(block_starts[block]), int(block_starts[block + 1])
        last_byte = data[np.uintp(end - 1)]
        last = min(end + (1 if last_byte == 10 or last_byte == 0 else overlap), size)
        document = int(block_docs[block])
        is_first = block == 0 or int(block_docs[block - 1]) != document
        name_start, name_end = int(name_starts[document]), int(name_starts[document + 1])
        if filled + last - start + (name_end - name_start if is_first else 0) > capacity:
            break
        stamp = np.uint16(block + 1)
        filled = _enter(data, start, last, classes, stamp, stamps, counts, keys, filled)
        if is_first:
            filled = _enter(names, name_start, name_end, classes, stamp, stamps, counts, keys, filled)
        ends[np.uintp(block)] = filled
        block += 1
    return block


@kernel(numba.void(_U32S, _I64S, numba.int64, numba.int64, _U32S, _U16S))
def fill_postings(keys: U32, ends: npt.NDArray[np.int64], first: int, last: int, cursors: U32, postings: U16) -> None:
    """Writes blocks `first` to `last` - 1 to the postings of their keys, as collected by `collect_keys`."""
    at = 0
    for block in range(first, last):
        word, bit = np.uintp(block >> 4), np.uint16(1 << (block & 15))
        while at < ends[np.uintp(block)]:
            key = keys[np.uintp(at)]
            cursor = cursors[key]
            if cursor & np.uint32(BITMAP):
                postings[np.uintp(cursor & np.uint32(BITMAP - 1)) + word] |= bit
            else:
                postings[np.uintp(cursor)] = block
                cursors[key] = cursor + np.uint32(1)
            at += 1
