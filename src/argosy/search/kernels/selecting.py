"""From blocks to their documents and back, by masks over the documents; blocks cut into shares; the best of scores."""

import numba
import numpy as np

from argosy.search.index.segment import F64, I64, U32, Flags
from argosy.search.kernels.compiling import WORDS, helper, kernel

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


@helper
def _is_better(scores: F64, a: int, b: int) -> bool:
    """Whether the score at place a is higher than that at b, or as high and earlier."""
    return scores[_U(a)] > scores[_U(b)] or (scores[_U(a)] == scores[_U(b)] and a < b)


@helper
def _sink(scores: F64, heap: I64, at: int, size: int) -> None:
    """Lets a place sink to where no worse one is beneath it."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_better(scores, heap[_U(child)], heap[_U(child + 1)]):
            child += 1
        if _is_better(scores, heap[_U(child)], heap[_U(at)]):
            break
        heap[_U(at)], heap[_U(child)] = heap[_U(child)], heap[_U(at)]
        at = child


@kernel((numba.float64[::1], numba.int64))
def best_of(scores: F64, size: int) -> I64:
    """The places of the highest scores, the highest first, the earliest of equals; 0 is all. NaN is no score."""
    heap = np.empty(min(size, scores.size) if size > 0 else scores.size, np.int64)
    count = 0
    for i in range(scores.size):
        if np.isnan(scores[i]):
            continue
        if count < heap.size:  # the worst of those kept is on top
            at = count
            count += 1
            while at > 0 and _is_better(scores, heap[_U((at - 1) >> 1)], i):
                heap[_U(at)] = heap[_U((at - 1) >> 1)]
                at = (at - 1) >> 1
            heap[_U(at)] = i
        elif _is_better(scores, i, heap[0]):
            heap[0] = i
            _sink(scores, heap, 0, count)
    for last in range(count - 1, 0, -1):
        heap[0], heap[_U(last)] = heap[_U(last)], heap[0]
        _sink(scores, heap, 0, last)
    return heap[:count]
