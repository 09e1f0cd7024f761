"""Validates that the arrays of a received segment are consistent.

Kernels are compiled without bounds checks, so an offset past the end would read foreign memory. Segments built by this
process are consistent by construction; a received segment is validated once, before it is used.
"""

from collections.abc import Iterator

import numpy as np

from argosy.search.documents import SkipReason
from argosy.search.index.index import SEGMENT_BLOCKS_MAX, DocTable, Postings, Segment, Symbols, Text, bitmap_length
from argosy.search.index.sections import Array
from argosy.search.kernels.trigrams import KEYS
from argosy.search.symbols import KINDS


def faults(segment: Segment) -> Iterator[str]:
    """Describes each inconsistency. Later checks rely on earlier ones, so the caller must stop at the first."""
    # In the order in which kernels follow the arrays: from the text to its blocks to what refers to blocks.
    yield from _text_faults("content", segment.content)
    if segment.content.blocks > SEGMENT_BLOCKS_MAX:
        yield f"{segment.content.blocks} blocks, more than {SEGMENT_BLOCKS_MAX}"
    yield from _text_faults("names", segment.names)
    if segment.names.documents != segment.content.documents:
        yield f"{segment.names.documents} names for {segment.content.documents} contents"
    yield from _posting_faults(segment.postings, segment.content.blocks)
    yield from _symbol_faults(segment.symbols, len(segment.content.data))
    yield from _table_faults(segment.table, segment.content.documents, len(segment.languages))


def _rises(array: Array, first: int, last: int) -> bool:
    """Whether the array is strictly ascending from `first` to `last`."""
    return bool(len(array) and array[0] == first and array[-1] == last and (array[1:] > array[:-1]).all())


def _text_faults(name: str, text: Text) -> Iterator[str]:
    size = len(text.data)
    if not _rises(text.starts, 0, size):
        yield f"{name}: documents do not cover the text"
    if text.data[text.starts[1:] - 1].any():
        yield f"{name}: a document without its NUL"
    if not _rises(text.block_starts, 0, size):
        yield f"{name}: blocks do not cover the text"
    if not len(text.block_starts) - 1 == len(text.block_docs) == len(text.block_lines):
        yield f"{name}: block tables of different lengths"
    if (text.block_docs >= text.documents).any():
        yield f"{name}: a block of no document"
    begins = text.block_starts[:-1] >= text.starts[text.block_docs]
    ends = text.block_starts[1:] <= text.starts[text.block_docs + 1]
    if not (begins & ends).all():
        yield f"{name}: a block across documents"


def _posting_faults(postings: Postings, blocks: int) -> Iterator[str]:
    if len(postings.present) != KEYS // 64:
        yield "postings: a directory of the wrong size"
    ranks = np.concatenate(([0], np.cumsum(np.bitwise_count(postings.present), dtype=np.int64)))
    if not np.array_equal(ranks, postings.ranks):
        yield "postings: ranks do not count the keys"
    if len(postings.offsets) != ranks[-1] + 1 or not _rises(postings.offsets, 0, len(postings.blocks)):
        yield "postings: offsets do not cover the postings"
    length = bitmap_length(blocks)
    offsets = postings.offsets.astype(np.int64)
    sizes = offsets[1:] - offsets[:-1]
    if (sizes > length).any():
        yield "postings: a posting longer than a bitmap"
    is_list = np.repeat(sizes < length, sizes)
    if (postings.blocks[is_list] >= blocks).any():
        yield "postings: a block number out of range"
    bitmaps = postings.offsets[:-1][sizes == length]
    for word in range(blocks // 16, length):
        # The last words of a bitmap are padding, which kernels read as block numbers when it is not zero.
        known = np.uint16((1 << max(0, blocks - 16 * word)) - 1)
        if (postings.blocks[bitmaps + np.uint32(word)] & ~known).any():
            yield "postings: a bitmap with a block number out of range"


def _symbol_faults(symbols: Symbols, text_bytes: int) -> Iterator[str]:
    count = len(symbols.starts)
    if not count == len(symbols.lengths) == len(symbols.kinds) == len(symbols.points) == len(symbols.parents):
        yield "symbols: tables of different lengths"
    if (symbols.starts.astype(np.int64) + symbols.lengths > text_bytes).any():
        yield "symbols: a name outside the text"
    if (symbols.starts[1:] < symbols.starts[:-1]).any():
        yield "symbols: not in text order"
    if (symbols.kinds >= len(KINDS)).any():
        yield "symbols: an unknown kind"
    if (symbols.parents < -1).any() or (symbols.parents >= count).any():
        yield "symbols: a parent out of range"


def _table_faults(table: DocTable, documents: int, languages: int) -> Iterator[str]:
    columns = (table.languages, table.categories, table.skips, table.traits, table.blob_ids)
    if any(len(column) != documents for column in columns):
        yield f"table: not one row for each of {documents} documents"
    if (table.languages >= languages).any():
        yield "table: a language out of range"
    if (table.skips >= len(SkipReason)).any():
        yield "table: an unknown skip reason"
