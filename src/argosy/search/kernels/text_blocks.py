"""Prepares the text of a segment: splits documents into blocks, and marks documents that need a slower search path.

A block consists of whole lines and never spans two documents. It is `block_bytes` long or slightly longer, as its lines
allow, and at most twice that plus a newline. Only a line longer than two blocks is cut; a line that does not fit starts
a new block. A short block is always followed by a long one, so a document of n bytes has at most n / block_bytes + 1
blocks.

Traits are invalid UTF-8 and letters that fold to ASCII, found in one pass. Valid UTF-8 is as in the Unicode standard:
shortest forms only, no surrogates, nothing above U+10FFFF. ASCII, which is nearly all code, is skipped 64 bytes at a
time.
"""

import numba
import numpy as np

from argosy.search.arrays import U8, U32
from argosy.search.kernels.compiler import BYTES, WORDS, helper, kernel

_OUT = numba.uint32[::1]
_NEWLINE = np.uint8(10)


@helper
def _next_cut(data: U8, start: int, end: int, block_bytes: int) -> int:
    """The end of the block that begins at `start`, in a document that ends at `end`."""
    if end - start <= block_bytes + block_bytes // 2:  # too little is left for two blocks
        return end
    limit = start + 2 * block_bytes
    at = start + block_bytes - 1
    while at < end and at <= limit:
        if data[np.uintp(at)] == _NEWLINE:
            return at + 1
        at += 1
    if end <= limit:
        return end
    at = start + block_bytes - 1  # the line here is long: it starts the next block
    while at > start:
        at -= 1
        if data[np.uintp(at)] == _NEWLINE:
            return at + 1
    return limit


@helper
def _newlines(data: U8, start: int, end: int) -> int:
    count = 0
    for at in range(start, end):
        count += int(data[np.uintp(at)] == _NEWLINE)
    return count


@kernel(numba.int64(BYTES, WORDS, numba.int64, _OUT, _OUT, _OUT))
def cut_blocks(data: U8, starts: U32, block_bytes: int, block_starts: U32, block_docs: U32, block_lines: U32) -> int:
    """Writes each block's start, document and number of newlines before it in that document; returns the block count.

    An empty document has a block too: the NUL after it. The last start written is the end of the data.
    """
    count = 0
    for document in range(starts.size - 1):
        at, end = int(starts[document]), int(starts[document + 1]) - 1
        line = 0
        while True:
            block_starts[np.uintp(count)] = at
            block_docs[np.uintp(count)] = document
            block_lines[np.uintp(count)] = line
            count += 1
            cut = _next_cut(data, at, end, block_bytes)
            if cut >= end:
                break
            line += _newlines(data, at, cut)
            at = cut
    block_starts[np.uintp(count)] = starts[starts.size - 1]
    return count


_STRIDE = 64
_INVALID, _ODD = 1, 2  # copies of Trait: a kernel's cache does not notice a change in another file


@helper
def _is_ascii(data: U8, start: int) -> bool:
    seen = np.uint8(0)
    for at in range(_STRIDE):
        seen |= data[np.uintp(start + at)]
    return bool(seen < 128)


@helper
def _sequence_length(data: U8, at: int) -> int:
    """The length of the well-formed sequence at a byte >= 128, or 0. Reads at most up to a NUL.

    The bounds of the second byte are those of table 3-7 of the Unicode standard: they exclude overlong forms (E0, F0),
    surrogates (ED) and code points above U+10FFFF (F4).
    """
    lead, second = data[np.uintp(at)], data[np.uintp(at + 1)]
    low, high, length = np.uint8(0x80), np.uint8(0xBF), 0
    if 0xC2 <= lead <= 0xDF:
        length = 2
    elif 0xE0 <= lead <= 0xEF:
        length = 3
        if lead == 0xE0:
            low = np.uint8(0xA0)
        elif lead == 0xED:
            high = np.uint8(0x9F)
    elif 0xF0 <= lead <= 0xF4:
        length = 4
        if lead == 0xF0:
            low = np.uint8(0x90)
        elif lead == 0xF4:
            high = np.uint8(0x8F)
    if length == 0 or second < low or second > high:
        return 0
    for more in range(2, length):
        if data[np.uintp(at + more)] & np.uint8(0xC0) != np.uint8(0x80):
            return 0
    return length


@helper
def _is_odd(data: U8, at: int) -> bool:
    """U+017F (long s) or U+212A (Kelvin sign)."""
    first, second = data[np.uintp(at)], data[np.uintp(at + 1)]
    if first == 0xC5:
        return bool(second == 0xBF)
    return bool(first == 0xE2 and second == 0x84 and data[np.uintp(at + 2)] == 0xAA)


@kernel(numba.void(BYTES, WORDS, numba.uint8[::1]))
def mark_traits(data: U8, starts: U32, traits: U8) -> None:
    """Sets INVALID_UTF8, or else ODD_FOLD where it applies, in each document's traits. The data ends with a NUL."""
    for document in range(starts.size - 1):
        at, end = int(starts[document]), int(starts[document + 1]) - 1
        found = 0
        while at < end:
            if at + _STRIDE <= end and _is_ascii(data, at):
                at += _STRIDE
                continue
            # After a byte beyond ASCII come more of them: the next stride is read byte by byte before ASCII is tried
            # again.
            stop = min(at + _STRIDE, end)
            while at < stop:
                if data[np.uintp(at)] < 128:
                    at += 1
                    continue
                length = _sequence_length(data, at)
                if length == 0:
                    # Invalid text is matched byte by byte, where nothing folds to ASCII, so ODD_FOLD no longer matters.
                    found = _INVALID
                    at = stop = end
                    break
                if _is_odd(data, at):
                    found = _ODD
                at += length
        traits[np.uintp(document)] |= np.uint8(found)
