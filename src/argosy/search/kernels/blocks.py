"""Splits documents into blocks of whole lines, about `block_bytes` long. A block never spans two documents.

A block is `block_bytes` long or slightly longer, as its lines allow, and at most twice that plus a newline. Only a line
longer than two blocks is cut; a line that does not fit starts a new block. A short block is always followed by a long
one, so a document of n bytes has at most n / block_bytes + 1 blocks.
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
