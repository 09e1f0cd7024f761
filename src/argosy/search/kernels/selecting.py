"""From blocks to their documents and back, by masks over the documents; and blocks cut into shares."""

import numba
import numpy as np

from argosy.search.index.segment import I64, U32, Flags
from argosy.search.kernels.compiling import WORDS, kernel

_U = np.uintp
_FLAGS = numba.boolean[::1]


@kernel((WORDS, WORDS, _FLAGS))
def mark_documents(blocks: U32, block_docs: U32, mask: Flags) -> None:
    """Sets the documents of these blocks."""
    for i in range(blocks.size):
        mask[_U(block_docs[_U(blocks[i])])] = True


@kernel((WORDS, WORDS, _FLAGS))
def mark_first_documents(blocks: U32, block_docs: U32, mask: Flags) -> None:
    """Sets the documents of which these blocks are the first."""
    for i in range(blocks.size):
        block = np.int64(blocks[i])
        document = block_docs[_U(block)]
        if block == 0 or block_docs[_U(block - 1)] != document:
            mask[_U(document)] = True


@kernel((WORDS, WORDS, _FLAGS))
def blocks_within(blocks: U32, block_docs: U32, mask: Flags) -> U32:
    """Those of the blocks that belong to documents of the mask."""
    out = np.empty(blocks.size, np.uint32)
    count = 0
    for i in range(blocks.size):
        out[count] = blocks[i]
        count += np.int64(mask[_U(block_docs[_U(blocks[i])])])
    return out[:count].copy()


@kernel((WORDS, WORDS, WORDS, numba.int64, numba.int64))
def shares(blocks: U32, block_starts: U32, block_docs: U32, bytes_max: int, documents_max: int) -> I64:
    """Ascending blocks cut into shares of whole documents: rows of (past the last block, documents, bytes).

    A share is closed before a document that would take it past a bound, so one document may well be past it alone.
    """
    rows = np.empty((blocks.size, 3), np.int64)
    count, at = 0, 0
    documents, size = 0, 0
    while at < blocks.size:
        document = block_docs[_U(blocks[at])]
        end, own = at, 0
        while end < blocks.size and block_docs[_U(blocks[end])] == document:
            block = np.int64(blocks[end])
            own += np.int64(block_starts[_U(block + 1)]) - np.int64(block_starts[_U(block)])
            end += 1
        if documents and (size + own > bytes_max or documents == documents_max):
            rows[count, 0], rows[count, 1], rows[count, 2] = at, documents, size
            count += 1
            documents, size = 0, 0
        documents += 1
        size += own
        at = end
    if documents:
        rows[count, 0], rows[count, 1], rows[count, 2] = at, documents, size
        count += 1
    return rows[:count].copy()
