"""From text to its trigrams' postings.

The keys of each block are collected in chunks of fixed size and scattered from there, so that the scratch is what the
text needs (about as much memory as the text itself) and none of it is copied as it grows.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy.search.index.segment import (
    LONG_LINE_BYTES,
    OVERLAP_BYTES,
    SEGMENT_BLOCKS_MAX,
    U32,
    Postings,
    Text,
    bitmap_length,
    frozen,
)
from argosy.search.kernels.classes import CLASSES, KEYS
from argosy.search.kernels.postings import BITMAP, collect_keys, fill_postings

CHUNK_KEYS_MAX = 1 << 22  # scratch is taken 16 MiB at a time
BLOCK_KEYS_MAX = LONG_LINE_BYTES + OVERLAP_BYTES + 2  # a chunk has room for one block's at least


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """The keys of some blocks in a row."""

    keys: U32
    first: int
    last: int  # past the last


def postings_of(text: Text, names: Text) -> Postings:
    """Every block of the text under each of its trigrams; a document's first one under those of its name, too."""
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
        chunk = chunks.pop(0)  # and is given back once it is entered
        fill_postings(chunk.keys, ends, chunk.first, chunk.last, cursors, blocks)
    is_present = (counts > 0).reshape(-1, 64)
    return Postings(
        present=frozen(np.packbits(is_present, axis=1, bitorder="little").reshape(-1).view(np.uint64).copy()),
        ranks=frozen(np.concatenate(([0], np.cumsum(is_present.sum(axis=1)))).astype(np.uint32)),
        offsets=frozen(np.append(starts[:-1][counts > 0], starts[-1]).astype(np.uint32)),
        blocks=frozen(blocks),
    )


def _collect(text: Text, names: Text, counts: U32, ends: npt.NDArray[np.int64]) -> list[_Chunk]:
    chunks: list[_Chunk] = []
    stamps = np.zeros(KEYS, np.uint16)
    longest = int(np.diff(names.starts).max(initial=0))
    room = max(BLOCK_KEYS_MAX + longest, min(CHUNK_KEYS_MAX, len(text.data) + len(names.data)))
    first = 0
    while first < text.blocks:
        keys = np.empty(room, np.uint32)
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
