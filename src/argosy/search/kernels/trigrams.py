"""Trigram keys: folds bytes to classes, collects the keys of a text, writes postings.

A byte is folded to one of 64 classes, so that a trigram is an 18-bit number and one index serves both case modes. Upper
and lower case share a class; digits, `_` and the punctuation common in code have classes of their own. CR, LF and NUL
are one class, so that a line end is the same at the end of a document. All other bytes are spread over the classes: a
shared class costs an extra candidate block, never a wrong result.

Postings are built in two passes: `collect_keys` lists the keys of each block, then `fill_postings` writes each block
number to its postings. A block is indexed by its own trigrams, those that include one byte before or after it, and, if
it ends inside a line, those of `overlap` further bytes: a literal that begins in the block is found by the keys of its
first `overlap` bytes. The position before the first byte counts as a line end. A document's first block is also indexed
by the trigrams of its name, so that one lookup covers content and name.
"""

import numba
import numpy as np
import numpy.typing as npt

from argosy.search.arrays import OVERLAP_BYTES, U8, U16, U32, U64, freeze
from argosy.search.kernels.compiler import BYTES, WORDS, helper, kernel

CLASS_BITS = 6
KEYS = 1 << 3 * CLASS_BITS  # number of trigrams
LINE_END = 0  # the class of a line end, and of the position before the first byte

# As many as fit: with the three shared classes they make 64, which are six bits.
_ALONE = b"\n \tabcdefghijklmnopqrstuvwxyz0123456789_,.()=-;:/*\\{}#>'[<]&\""  # in the order of their classes
_SHARED = b"|+`!%$@?~^"  # too rare for classes of their own; they share the last three
_LINE_ENDS = b"\0\r\n"


def _classes() -> U8:
    # The factor is odd, so 64 consecutive bytes, such as the continuation bytes of UTF-8, get 64 different classes.
    table = np.array([(byte * 29 + 7) % 64 for byte in range(256)], np.uint8)
    for number, byte in enumerate(_ALONE):
        table[byte] = table[ord(chr(byte).upper())] = number
    for number, byte in enumerate(_SHARED):
        table[byte] = len(_ALONE) + number % (64 - len(_ALONE))
    table[list(_LINE_ENDS)] = LINE_END
    return freeze(table)


CLASSES = _classes()


def key_of(a: int, b: int, c: int) -> int:
    """The key of three bytes in a row."""
    return int(CLASSES[a]) << 2 * CLASS_BITS | int(CLASSES[b]) << CLASS_BITS | int(CLASSES[c])


def keys_of(literal: bytes) -> npt.NDArray[np.int64]:
    """The distinct keys, ascending, of any block in which `literal` begins; none if it is shorter than three bytes.

    Only the first OVERLAP_BYTES count, because a block that ends inside a line indexes no more of what follows.
    """
    return freeze(_keys_of(np.frombuffer(literal, np.uint8)[:OVERLAP_BYTES], CLASSES))


@kernel((BYTES, BYTES))
def _keys_of(text: U8, classes: U8) -> npt.NDArray[np.int64]:
    keys = np.empty(max(text.size - 2, 0), np.int64)
    count = 0
    for i in range(keys.size):
        key = np.int64(0)
        for j in range(i, i + 3):
            key = key << 6 | np.int64(classes[np.uintp(text[np.uintp(j)])])
        at = count
        # Insertion into a sorted list, because a literal has few keys and numba's own sort is slow to load.
        while at > 0 and keys[np.uintp(at - 1)] > key:
            at -= 1
        if at > 0 and keys[np.uintp(at - 1)] == key:
            continue
        for j in range(count, at, -1):
            keys[np.uintp(j)] = keys[np.uintp(j - 1)]
        keys[np.uintp(at)] = key
        count += 1
    return keys[:count]


_WORDS = 1 << 12  # one bit for each of 2^18 keys


@helper
def _ones(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel(numba.int64(BYTES, BYTES))
def distinct_keys(content: U8, classes: U8) -> int:
    """The number of distinct trigram keys in the content: text has few, compressed or encoded data many."""
    if content.size < 3:
        return 0
    # A bitmap of 32 KiB, which stays in the L1 cache; a set would be many times slower.
    seen: U64 = np.zeros(_WORDS, np.uint64)
    key = np.uint32(classes[content[0]]) << np.uint32(6) | np.uint32(classes[content[1]])
    for at in range(2, content.size):
        key = (key << np.uint32(6) | np.uint32(classes[content[np.uintp(at)]])) & np.uint32(0x3FFFF)
        seen[np.uintp(key >> np.uint32(6))] |= np.uint64(1) << np.uint64(key & np.uint32(63))
    count = 0
    for word in seen:
        count += _ones(word)
    return count


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
    # A stamp per key instead of a set per block: nothing has to be cleared between blocks.
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
        # A whole line needs only its newline and one byte beyond; a cut line needs what a literal across the cut would
        # be looked up by.
        last = min(end + (1 if last_byte == 10 or last_byte == 0 else overlap), size)
        document = int(block_docs[block])
        is_first = block == 0 or int(block_docs[block - 1]) != document
        name_start, name_end = int(name_starts[document]), int(name_starts[document + 1])
        # Checked by the worst case, a new key at every byte, so that the loop needs no check.
        if filled + last - start + (name_end - name_start if is_first else 0) > capacity:
            break
        stamp = np.uint16(block + 1)  # never 0, which means that no block has the key yet; nothing need be reset
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
