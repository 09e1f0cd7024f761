"""From blocks to their documents and back, by masks over the documents."""

import numba
import numpy as np

from argosy.search.index.segment import U32, Flags
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
