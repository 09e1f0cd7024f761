"""Builds a segment: copies documents into its text, then computes blocks, postings, symbols and traits.

A builder takes documents best first and copies each content into the segment's text at once, so that the caller can
drop it. Besides the text it holds one small row per document. The arrays are built when the segment is full. For the
postings, the keys of each block are collected in chunks of fixed size and written to the postings from there, so that
scratch memory is about the size of the text and is never copied to grow.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import OVERLAP_BYTES, U8, U32, freeze
from argosy.search.documents import Category, Definition, SkipReason
from argosy.search.index.index import (
    BLOCK_BYTES,
    LONG_LINE_BYTES,
    SEGMENT_BLOCKS_MAX,
    SEGMENT_TEXT_BYTES,
    DocTable,
    Postings,
    Segment,
    Symbols,
    Text,
    Trait,
    bitmap_length,
)
from argosy.search.index.sections import with_checksums
from argosy.search.kernels.text_blocks import cut_blocks, mark_traits
from argosy.search.kernels.trigrams import BITMAP, CLASSES, KEYS, collect_keys, fill_postings
from argosy.search.symbols import KINDS, points

# Scratch is allocated in steps of 16 MiB. One array for the worst case, a new key at every byte, would be four times
# the text; doubling an array would copy it.
CHUNK_KEYS_MAX = 1 << 22
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
    # Equal sizes are bitmaps: readers tell a bitmap from a list by this length alone.
    is_bitmap = counts >= length
    sizes = np.where(is_bitmap, length, counts).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    # The top bit of a cursor is the bitmap flag, so positions must stay below it.
    assert starts[-1] < BITMAP
    # One cursor for each possible key, present or not: the kernel then indexes it by key, without a lookup.
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
    stamps = np.zeros(KEYS, np.uint16)  # 512 KiB: it stays in the L2 cache, where a set per block would not
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


NAME_BYTES_MAX = 0xFFFF  # lengths have 16 bits; a longer name is truncated

_CAPITALS = frozenset(range(ord("A"), ord("Z") + 1))
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_SKIPS: Mapping[SkipReason, int] = {reason: number for number, reason in enumerate(SkipReason)}


@dataclass(frozen=True, slots=True)
class Document:
    """A file to be indexed. A skipped file has no content."""

    path: bytes
    content: bytes = b""
    blob_id: bytes = b""
    language: str = ""
    category: Category = Category.CODE
    skip: SkipReason = SkipReason.NONE
    definitions: Sequence[Definition] = ()


class SegmentBuilder:
    """Collects the documents of one segment. `expected_bytes` is the estimated size of its text."""

    def __init__(self, *, expected_bytes: int = SEGMENT_TEXT_BYTES) -> None:
        # Pages of np.empty that are not written take no memory, so a generous estimate costs nothing.
        self._data: U8 = np.empty(max(1, min(expected_bytes, SEGMENT_TEXT_BYTES)), np.uint8)
        self._starts = [0]
        self._blocks = 0  # upper bound
        self._names: list[bytes] = []
        self._names_bytes = 0
        self._blob_ids: list[bytes] = []
        self._languages: dict[str, int] = {}
        self._rows: list[tuple[int, int, int]] = []
        self._symbols = SymbolBuilder()

    @property
    def documents(self) -> int:
        return len(self._names)

    @property
    def text_bytes(self) -> int:
        return self._starts[-1]

    def fits(self, path: bytes, content_bytes: int) -> bool:
        """Whether a document fits. The first always does, because a document can be larger than a segment."""
        return not self._names or (
            self.text_bytes + content_bytes < SEGMENT_TEXT_BYTES
            and self._names_bytes + len(path) < SEGMENT_TEXT_BYTES
            and self._blocks + blocks_at_most(content_bytes) <= SEGMENT_BLOCKS_MAX
        )

    def add(self, document: Document) -> None:
        """Appends the next document, which must fit."""
        content = document.content
        start = self.text_bytes
        end = start + len(content)
        if end + 1 > len(self._data):
            # By half, so that the cost of copying stays linear; the estimate can be short, because files grow.
            self._data.resize(max(end + 1, len(self._data) * 3 // 2), refcheck=False)
        self._data[start:end] = np.frombuffer(content, np.uint8)
        self._data[end] = 0
        self._starts.append(end + 1)
        self._blocks += blocks_at_most(len(content))
        self._names.append(document.path)
        self._names_bytes += len(document.path) + 1
        self._blob_ids.append(document.blob_id)
        language = self._languages.setdefault(document.language, len(self._languages))
        self._rows.append((language, int(document.category), _SKIPS[document.skip]))
        if document.definitions:
            self._symbols.add(
                document.definitions, start, language=document.language, path=document.path, content=content
            )

    def finish(self) -> Segment:
        """Returns the segment. The builder cannot be used afterwards."""
        data, self._data = self._data, np.empty(0, np.uint8)
        # In place: a copy would need twice the memory. Unused memory returns to the system.
        data.resize(self.text_bytes, refcheck=False)
        assert self._blocks <= SEGMENT_BLOCKS_MAX, "a document was added that does not fit"
        content, names = text_of(data, np.array(self._starts, np.uint32)), names_of(self._names)
        return with_checksums(
            Segment(
                content=content,
                postings=postings_of(content, names),
                names=names,
                symbols=self._symbols.finish(),
                table=self._table(content, names),
                languages=tuple(self._languages),
            )
        )

    def _table(self, content: Text, names: Text) -> DocTable:
        rows = np.array(self._rows, np.uint16).reshape(-1, 3)
        # One width for all, so that the column is one array: SHA-1 and SHA-256 ids have different lengths.
        width = max(map(len, self._blob_ids), default=0)
        ids = b"".join(blob_id.ljust(width, b"\0") for blob_id in self._blob_ids)
        return DocTable(
            languages=freeze(rows[:, 0].copy()),
            categories=freeze(rows[:, 1].astype(np.uint8)),
            skips=freeze(rows[:, 2].astype(np.uint8)),
            traits=freeze(traits_of(content, names)),
            blob_ids=freeze(np.frombuffer(ids, np.uint8).reshape(len(rows), width).copy()),
        )


def build_segment(documents: Iterable[Document]) -> Segment:
    """A segment of documents, in the order given, that fit one segment."""
    builder = SegmentBuilder(expected_bytes=0)
    for document in documents:
        builder.add(document)
    return builder.finish()


class SymbolBuilder:
    """Collects definitions in compact arrays, because a segment has millions."""

    def __init__(self) -> None:
        self._starts = array("I")
        self._lengths = array("H")
        self._kinds = array("B")
        self._points = array("H")
        self._parents = array("i")

    def add(self, definitions: Sequence[Definition], start: int, *, language: str, path: bytes, content: bytes) -> None:
        """Adds the definitions of a document that begins at `start` in the segment's text."""
        first = len(self._starts)
        # Of the name, points depend only on the case of its first letter (Go's exported names), so each form is
        # computed once: a header can define 100,000 names of one kind.
        forms = [(each.kind, content[each.start] in _CAPITALS) for each in definitions]
        worth = {form: points(language, form[0], path, b"A" if form[1] else b"a") for form in set(forms)}
        self._starts.extend([start + each.start for each in definitions])
        self._lengths.extend([min(each.length, NAME_BYTES_MAX) for each in definitions])
        self._kinds.extend([_NUMBERS[each.kind] for each in definitions])
        self._points.extend([worth[form] for form in forms])
        self._parents.extend([each.parent if each.parent < 0 else each.parent + first for each in definitions])

    def finish(self) -> Symbols:
        """Returns the arrays."""
        symbols = Symbols(
            starts=freeze(np.array(self._starts, np.uint32)),
            lengths=freeze(np.array(self._lengths, np.uint16)),
            kinds=freeze(np.array(self._kinds, np.uint8)),
            points=freeze(np.array(self._points, np.uint16)),
            parents=freeze(np.array(self._parents, np.int32)),
        )
        assert bool((symbols.starts[1:] >= symbols.starts[:-1]).all()), "definitions come in text order"
        return symbols


def blocks_at_most(content_bytes: int) -> int:
    """An upper bound of the number of blocks of one document."""
    # See `text_blocks.py`: a short block is always followed by a long one.
    return content_bytes // BLOCK_BYTES + 1


def text_of(data: U8, starts: U32) -> Text:
    """Splits concatenated documents, each followed by a NUL, into blocks."""
    data, starts = freeze(data), freeze(starts)
    contents = np.diff(starts.astype(np.int64)) - 1
    capacity = int((contents // BLOCK_BYTES).sum()) + len(contents)
    block_starts, block_docs, block_lines = (np.empty(capacity + 1, np.uint32) for _ in range(3))
    blocks = cut_blocks(data, starts, BLOCK_BYTES, block_starts, block_docs, block_lines)
    return Text(
        data=data,
        starts=starts,
        block_starts=freeze(block_starts[: blocks + 1].copy()),
        block_docs=freeze(block_docs[:blocks].copy()),
        block_lines=freeze(block_lines[:blocks].copy()),
    )


def names_of(paths: Sequence[bytes]) -> Text:
    """Paths as documents of one block each."""
    data = freeze(np.frombuffer(b"".join(path + b"\0" for path in paths), np.uint8).copy())
    lengths = np.fromiter((len(path) + 1 for path in paths), np.int64, len(paths))
    starts = freeze(np.concatenate(([0], np.cumsum(lengths))).astype(np.uint32))
    return Text(
        data=data,
        starts=starts,
        block_starts=starts,
        block_docs=freeze(np.arange(len(paths), dtype=np.uint32)),
        block_lines=freeze(np.zeros(len(paths), np.uint32)),
    )


def traits_of(text: Text, names: Text) -> U8:
    """The traits (Trait) of each document."""
    traits = np.zeros(text.documents, np.uint8)
    mark_traits(names.data, names.starts, traits)
    # In a name, either trait has the same consequence.
    traits[:] = np.where(traits, Trait.ODD_NAME, 0)
    broken = np.flatnonzero(names.data == ord("\n"))
    traits[np.searchsorted(names.starts, broken, "right") - 1] |= Trait.ODD_NAME
    mark_traits(text.data, text.starts, traits)
    inner = np.flatnonzero(text.block_docs[1:] == text.block_docs[:-1])  # blocks continued by the next
    is_cut = text.data[text.block_starts[inner + 1] - 1] != ord("\n")
    traits[text.block_docs[inner[is_cut]]] |= Trait.CUT_LINE
    return traits
