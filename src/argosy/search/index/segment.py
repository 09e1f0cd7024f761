"""The arrays of an index: up to 128 MiB of text with its trigrams, immutable once made.

Text is cut into blocks of about 4 KiB that end at a newline and never cross a document, so that a pattern without a
newline lies in one block. A trigram is an 18-bit number (three bytes folded to 6-bit classes, `kernels/classes.py`);
its posting is the sorted list of blocks that hold it, or a bitmap over all blocks where that is smaller.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

U8: TypeAlias = npt.NDArray[np.uint8]
U16: TypeAlias = npt.NDArray[np.uint16]
U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]
I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

SEGMENT_TEXT_BYTES = 128 << 20  # a segment is closed before it would grow past this (one document may)
SEGMENT_BLOCKS_MAX = 65_535  # block numbers are 16 bits
BLOCK_BYTES = 4096
LONG_LINE_BYTES = 2 * BLOCK_BYTES  # a longer line is cut, and the block before the cut indexes OVERLAP more bytes
OVERLAP_BYTES = 128


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Documents joined, each followed by one NUL, and the blocks they are cut into."""

    data: U8
    starts: U32  # documents + 1: where each begins; its end is the next start less one
    block_starts: U32  # blocks + 1
    block_docs: U32
    block_lines: U32  # newlines in the document before the block

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @property
    def blocks(self) -> int:
        return len(self.block_docs)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Trigram to blocks. A key's rank among the keys present is found by one popcount, without a search."""

    present: U64  # 4096 words: bit k of word w is key 64 w + k
    ranks: U32  # 4097: keys present before word w
    offsets: U32  # keys + 1: where each posting begins in `blocks`
    blocks: U16  # postings; one that is bitmap_length(blocks) long is a bitmap


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """Definitions in text order: where the name stands in the segment's data, what it is, what it lies in."""

    starts: U32
    lengths: U16
    kinds: U8  # index into KINDS of `symbols/kinds.py`
    points: U16  # what the kind is worth in this language, for ranking
    parents: I32  # position in these arrays, or -1


@dataclass(frozen=True, slots=True, eq=False)
class DocTable:
    """One entry per document, parallel to Text.starts."""

    languages: U16  # index into Segment.languages
    categories: U8  # Category
    skips: U8  # position in SkipReason
    traits: U8  # Trait
    blob_ids: U8  # (documents, width): what names each content


class Trait:
    """Bits of DocTable.traits: what makes a document need more care than a plain one."""

    INVALID_UTF8 = 1  # matched byte by byte, as Latin-1
    ODD_FOLD = 2  # holds a non-ASCII letter that folds to an ASCII one (Kelvin sign, long s)
    ODD_NAME = 8  # its path has a newline, is no UTF-8, or has a letter that folds oddly
    CUT_LINE = 4  # has a line longer than LONG_LINE_BYTES, so some block ends inside a line


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Everything about some of a repository's documents, best first, but which branches they are on."""

    content: Text
    postings: Postings
    names: Text  # paths as documents, in the same order; searched without postings
    symbols: Symbols
    table: DocTable
    languages: tuple[str, ...]
    checksums: tuple[int, ...] = ()  # of the arrays when they were made; `checking.py` compares
    traits: int = field(init=False)  # those that any document has: nearly always few, and soon asked
    odd_folds: tuple[int, ...] = field(init=False)  # the documents read as UTF-8 with ODD_FOLD: few, asked as often

    def __post_init__(self) -> None:
        traits = self.table.traits
        is_odd = traits & (Trait.ODD_FOLD | Trait.INVALID_UTF8) == Trait.ODD_FOLD
        object.__setattr__(self, "traits", int(np.bitwise_or.reduce(traits, initial=0)))
        object.__setattr__(self, "odd_folds", tuple(np.flatnonzero(is_odd).tolist()))

    def path(self, document: int) -> bytes:
        start, end = int(self.names.starts[document]), int(self.names.starts[document + 1]) - 1
        return self.names.data[start:end].tobytes()


def bitmap_length(blocks: int) -> int:
    """The length of a bitmap over so many blocks, in 16-bit words; always whole 64-bit words."""
    return (blocks + 63) // 64 * 4


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array itself, C-contiguous and from now on read-only: kernels are compiled for exactly that."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array
