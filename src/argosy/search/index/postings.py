"""Builds the trigram postings of a text.

The keys of each block are collected in chunks of fixed size and written to the postings from there, so that scratch
memory is about the size of the text and is never copied to grow.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import OVERLAP_BYTES, U32, freeze
from argosy.search.index.segment import LONG_LINE_BYTES, SEGMENT_BLOCKS_MAX, Postings, Text, bitmap_length
from argosy.search.kernels.classes import CLASSES, KEYS
from argosy.search.kernels.postings import BITMAP, collect_keys, fill_postings

CHUNK_KEYS_MAX = 1 << 22  # scratch is allocated in steps of 16 MiB
BLOCK_KEYS_MAX = LONG_LINE_BYTES + OVERLAP_BYTES + 2  # a chunk holds the keys of at least one block


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """The keys of consecutive blocks."""

    keys: U32
    first: int
    last: int  # exclusive


def postings_of(text: Text, names: Text) -> Postings:
    """Maps each trigram to its blocks; the first block of a document also has the trigrams of its name."""
    assert text.blocks <= SEGMENT_BLOCKS_MAX
    counts = np.zeros(KEYS, np.uint32)
    ends = np.empty(text.blocks, np.int64)
    chunks = _collect(text, names, counts, ends)
    length = bitmap_length(text.blocks)
    is_bitmap = counts >= length
    sizes = np.where(is_bitmap, length, counts).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    assert starts[-1] < BITMAP
    cursors = starts[:-1].astype(np.uint32)
    cursors[is_bitmap] |= np.uint32(BITMAP)
    blocks = np.zeros(starts[-1], np.uint16)
    while chunks:
        chunk = chunks.pop(0)  # freed after it is written
        fill_postings(chunk.keys, ends, chunk.first, chunk.last, cursors, blocks)
    is_present = (counts > 0).reshape(-1, 64)
    return Postings(
        present=freeze(np.packbits(is_present, axis=1, bitorder="little").reshape(-1).view(np.uint64).copy()),
        ranks=freeze(np.concatenate(([0], np.cumsum(is_present.sum(axis=1)))).astype(np.uint32)),
        offsets=freeze(np.append(starts[:-1][counts > 0], starts[-1]).astype(np.uint32)),
        blocks=freeze(blocks),
    )


def _collect(text: Text, names: Text, counts: U32, ends: npt.NDArray[np.int64]) -> list[_Chunk]:
    chunks: list[_Chunk] = []
    stamps = np.zeros(KEYS, np.uint16)
    longest = int(np.diff(names.starts).max(initial=0))
    capacity = max(BLOCK_KEYS_MAX + longest, min(CHUNK_KEYS_MAX, len(text.data) + len(names.data)))
    first = 0
    while first < text.blocks:
        keys = np.empty(capacity, np.uint32)
        last = collect_keys(
            text.data,
            text.block_starts,
            text.block_docs,
            names.data,
            names.starts,
            first,
            CLASSES,
            OVERLAP_BYTES,
            stamps,
            counts,
            keys,
            ends,
        )
        assert last > first
        chunks.append(_Chunk(keys, first, last))
        first = last
    return chunks
