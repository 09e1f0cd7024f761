"""The data of an index: segments, and for each the branches of its documents.

A segment holds up to 128 MiB of text with its trigrams and is immutable once built. Text is split into blocks of about
4 KiB that end at a newline and never span documents, so that a match without a newline lies in one block. A trigram is
an 18-bit number (three bytes folded to 6-bit classes, `kernels/trigrams.py`); its posting is the sorted list of blocks
that hold it, or a bitmap over all blocks where that is smaller.

A document on no branch is deleted: it stays in the arrays of its segment until the next full rebuild, and no search
returns it. So a new version of the repository shares the segments of the old one and adds what changed.
"""

from dataclasses import dataclass, field

import numpy as np

from argosy.search.arrays import I32, U8, U16, U32, U64
from argosy.search.model import Repository

# 128 MiB of text are 32,768 full blocks, so half of the block numbers are left for documents shorter than a block. A
# segment is finished before it exceeds this; a single document can.
SEGMENT_TEXT_BYTES = 128 << 20
# Block numbers have 16 bits, which halves the postings. The builder stamps blocks from 1 on, so 65,536 would not fit.
SEGMENT_BLOCKS_MAX = 65_535
# Measured on 1 GB of C: blocks of 16 KiB nearly double the time of a median query, because more text is scanned; blocks
# of 1 KiB double the size of the postings (half of the text instead of a quarter), and the query is no faster. At 4
# KiB, 96 % of the candidate blocks of an identifier contain it, so longer n-grams than trigrams would gain nothing.
BLOCK_BYTES = 4096
# A longer line is cut, and the block before the cut indexes OVERLAP_BYTES more. Without the cut a minified file is one
# block with nearly all trigrams, and a candidate for every query.
LONG_LINE_BYTES = 2 * BLOCK_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Concatenated documents, each followed by a NUL, and their blocks."""

    data: U8
    starts: U32  # documents + 1: start of each; its end is the next start minus one
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
    """Maps trigrams to blocks.

    Blocks, not positions: a positional index of the same text is six times larger (decision 0012). The rank of a key
    among the keys present is found with one popcount, without a search. Whether a posting is a list or a bitmap needs
    no flag, because a list is only used while it is shorter than the bitmap.
    """

    present: U64  # 4096 words: bit k of word w is key 64 w + k
    ranks: U32  # 4097: keys present before word w
    offsets: U32  # keys + 1: start of each posting in `blocks`
    blocks: U16  # postings; one of length bitmap_length(blocks) is a bitmap


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """Definitions in text order: position of the name in the segment's data, kind, parent."""

    starts: U32
    lengths: U16
    kinds: U8  # index into KINDS of `symbols/kinds.py`
    points: U16  # ranking points of the kind in this language
    parents: I32  # position in these arrays, or -1


@dataclass(frozen=True, slots=True, eq=False)
class DocTable:
    """One entry per document, parallel to Text.starts."""

    languages: U16  # index into Segment.languages
    categories: U8  # Category
    skips: U8  # position in SkipReason
    traits: U8  # Trait
    blob_ids: U8  # (documents, width): content ids


# Rare in source code, so the common path checks one byte per segment and is spared all of this.
class Trait:
    """Bits of DocTable.traits: why a document needs a slower search path."""

    INVALID_UTF8 = 1  # matched byte by byte, as Latin-1
    ODD_FOLD = 2  # has a non-ASCII letter that folds to an ASCII one (Kelvin sign, long s)
    ODD_NAME = 8  # its path has a newline, is not UTF-8, or has such a letter
    CUT_LINE = 4  # has a line longer than LONG_LINE_BYTES, so some block ends inside a line


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Some documents of a repository, best first, without their branches (`index.Part` has those)."""

    content: Text
    postings: Postings
    names: Text  # paths as documents, in the same order; searched without postings
    symbols: Symbols
    table: DocTable
    languages: tuple[str, ...]
    checksums: tuple[int, ...] = ()  # of the arrays, computed at build time; `sections.verify` compares
    traits: int = field(init=False)  # the union of all documents' traits, checked first in every search
    odd_folds: tuple[int, ...] = field(init=False)  # the UTF-8 documents with ODD_FOLD, of which there are few

    def __post_init__(self) -> None:
        traits = self.table.traits
        is_odd = traits & (Trait.ODD_FOLD | Trait.INVALID_UTF8) == Trait.ODD_FOLD
        # Derived, so neither sent nor covered by a checksum of its own; a frozen dataclass is set through `object`.
        object.__setattr__(self, "traits", int(np.bitwise_or.reduce(traits, initial=0)))
        object.__setattr__(self, "odd_folds", tuple(np.flatnonzero(is_odd).tolist()))

    def path(self, document: int) -> bytes:
        start, end = int(self.names.starts[document]), int(self.names.starts[document + 1]) - 1
        return self.names.data[start:end].tobytes()


def bitmap_length(blocks: int) -> int:
    """The length of a bitmap over `blocks` blocks in 16-bit words, a multiple of 64 bits."""
    # A multiple of 64 bits, so that a reader can view it as 64-bit words.
    return (blocks + 63) // 64 * 4


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment and the branches of its documents in one version of the repository."""

    segment: Segment
    branches: U64  # per document: bit i is the i-th branch of the repository; 0: deleted
    checksum: int | None = None  # of `branches`, computed at build time


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """A searchable repository."""

    repository: Repository
    parts: tuple[Part, ...]
    recipe: str = ""  # the build settings: an incremental build reuses only an index with the same recipe
