"""Maps blocks to documents and back by document masks, splits blocks into shares, and selects the best scores."""

import numba
import numpy as np

from argosy.search.arrays import F64, I64, U32, Flags
from argosy.search.kernels.compiler import WORDS, helper, kernel

_U = np.uintp
_FLAGS = numba.boolean[::1]


@kernel((WORDS, WORDS, _FLAGS))
def mark_documents(blocks: U32, block_docs: U32, mask: Flags) -> None:
    """Sets the documents of these blocks."""
    for i in range(blocks.size):
        mask[_U(block_docs[_U(blocks[i])])] = True


@kernel((WORDS, WORDS, _FLAGS))
def mark_first_documents(blocks: U32, block_docs: U32, mask: Flags) -> None:
    """Sets the documents whose first block is among these."""
    for i in range(blocks.size):
        block = np.int64(blocks[i])
        document = block_docs[_U(block)]
        if block == 0 or block_docs[_U(block - 1)] != document:
            mask[_U(document)] = True


@kernel((WORDS, WORDS, _FLAGS))
def blocks_within(blocks: U32, block_docs: U32, mask: Flags) -> U32:
    """The blocks that belong to documents of the mask."""
    out = np.empty(blocks.size, np.uint32)
    count = 0
    for i in range(blocks.size):
        out[count] = blocks[i]
        count += np.int64(mask[_U(block_docs[_U(blocks[i])])])
    return out[:count].copy()


@kernel((WORDS, WORDS, WORDS, numba.int64, numba.int64))
def shares(blocks: U32, block_starts: U32, block_docs: U32, bytes_max: int, documents_max: int) -> I64:
    """Splits ascending blocks into shares of whole documents; returns rows of (end block, documents, bytes).

    A share ends before a document that would exceed a bound; a single document can exceed it alone.
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
        # Never inside a document: its matches are counted and scored together.
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
    """Whether score a is higher than score b, or equal and earlier: equal scores have one order."""
    return scores[_U(a)] > scores[_U(b)] or (scores[_U(a)] == scores[_U(b)] and a < b)


@helper
def _sink(scores: F64, heap: I64, at: int, size: int) -> None:
    """Restores the heap order from `at` downwards."""
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
    """The indexes of the `size` highest scores (0: all), highest first, the earlier of equals first. NaN is no
    score."""
    # A heap of the `size` best so far, because fifty are shown of up to 100,000: most scores are compared with the root
    # alone, and nothing is sorted but the fifty.
    heap = np.empty(min(size, scores.size) if size > 0 else scores.size, np.int64)
    count = 0
    for i in range(scores.size):
        if np.isnan(scores[i]):
            continue
        if count < heap.size:  # the root is the worst of the current best
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
