"""One literal in many indexes: what people ask most, answered without a tree and without masks over all documents.

It is what `evaluate.py` would have said, batch by batch. Kernels go through all parts of a roll in one call: one call
tells which parts the postings do not rule out, one looks at their text, one gives scores. Where bytes alone do not
decide, the tree is asked.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from argosy.search.index.kernel_tables import Roll
from argosy.search.index.segment import F64, I64, U32, Trait, frozen
from argosy.search.kernels.candidates import BYTES, DOCUMENTS, choose_in_all
from argosy.search.kernels.scan import DOCUMENT, FILE_ROW, FIRST_FILE, FIRST_MATCH, IS_NAME, MATCHES, scan_in_all
from argosy.search.kernels.selecting import shares
from argosy.search.kernels.spans import NOT_COUNTED, score_in_all
from argosy.search.match import evaluate
from argosy.search.match.atoms import Atoms
from argosy.search.match.bm25 import bm25_scores
from argosy.search.match.hits import NO_MARKS, Hits, Marks
from argosy.search.match.index_filter import ENTRY_BYTES
from argosy.search.match.matchers import BEYOND_ASCII_CLASSES, LiteralFinder
from argosy.search.match.rank import WORTH_OF
from argosy.search.match.spans import Mask
from argosy.search.match.top_k import Hit
from argosy.search.query.tree import Query, Scope, Substring

PIECE_BYTES = 8 << 20  # candidate text looked at in one go: about a millisecond
PIECE_SLACK_BYTES = 1 << 18  # so much larger than an even share, or what no document fills would be one more piece

Piece: TypeAlias = list[int]  # of a part: its row, first block, past the last block (or UNDECIDED), documents, bytes


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What the postings leave of some indexes: a piece per part, in order, and the blocks they speak of."""

    blocks: U32
    pieces: list[Piece]
    lookups: int
    index_bytes: int


class Plain:
    """A query that is one literal in the content, or in the content or else the name."""

    def __init__(self, finder: LiteralFinder, *, with_names: bool) -> None:
        self.finder = finder
        self.with_names = with_names
        self.care = finder.odd_traits | (Trait.ODD_NAME if with_names else 0)

    @classmethod
    def of(cls, query: Query, atoms: Atoms) -> "Plain | None":
        """None if the query is another one."""
        if not isinstance(query, Substring) or query.scope is Scope.FILE_NAME:
            return None
        finder = atoms.finder(query)
        if not isinstance(finder, LiteralFinder) or len(finder.needle.keys) == 0:
            return None
        return cls(finder, with_names=query.scope is Scope.ANY)

    def chosen(self, roll: Roll, first: int, past: int) -> Chosen:
        """What is left to look at in these rows of the roll."""
        keys = self.finder.needle.keys
        blocks, pieces, parts, entries = choose_in_all(roll.choices, first, past, keys, BEYOND_ASCII_CLASSES, self.care)
        return Chosen(blocks, pieces.tolist(), parts * len(keys), entries * ENTRY_BYTES)

    def finds(self, roll: Roll, blocks: U32, bundle: Sequence[Piece], *, counts_only: bool) -> "Finds":
        """Looks at the text of the pieces."""
        needle, pieces = self.finder.needle, np.array(bundle, np.int64)
        places, files, sums = scan_in_all(
            roll.scans, pieces, blocks, needle.pattern, needle.folds, needle.rare, self.with_names, not counts_only
        )
        return Finds(roll, len(needle.text), places, files, sums)


class Finds:
    """What was found in some pieces, file by file."""

    def __init__(self, roll: Roll, size_bytes: int, places: U32, files: I64, sums: I64) -> None:
        self._roll = roll
        self._size_bytes = size_bytes  # of every match
        self._places = places
        self._ends: U32 | None = None
        self._files = files  # row, document, first match, whether matches are in the name
        self._firsts = [*sums[:, FIRST_FILE].tolist(), len(files) - 1]  # the first file of each piece
        self._matches = sums[:, MATCHES].tolist()

    def sums(self) -> Iterator[tuple[int, int]]:
        """The matches of each piece, and its files."""
        for matches, (first, past) in zip(self._matches, pairwise(self._firsts), strict=True):
            yield matches, past - first

    def drop(self, piece: int) -> None:
        """That piece was not to be looked at."""
        self._files[self._of(piece), FILE_ROW] = NOT_COUNTED

    def scores(self) -> F64:
        """Of each file; NaN for those of dropped pieces."""
        return score_in_all(self._roll.scores, self._files, self._places, self._size_bytes, WORTH_OF)

    def bm25_scores(self) -> F64:
        """The same, by what the files are about."""
        scores = np.full(len(self._files) - 1, np.nan)
        for piece in range(len(self._matches)):
            own = self._of(piece)
            if own.start < own.stop and (row := int(self._files[own.start, FILE_ROW])) != NOT_COUNTED:
                scores[own] = bm25_scores(self._hits(own), self._roll.parts[row].segment)
        return scores

    def hit(self, place: int, score: float) -> Hit:
        """The file at this place, to be shown."""
        if self._ends is None:
            self._ends = self._places + np.uint32(self._size_bytes)
        (row, document, first, is_name), (_, _, past, _) = self._files[place : place + 2].tolist()
        owner = self._roll.owners[row]
        index, part = self._roll.indexes[owner], row - self._roll.firsts[owner]
        starts, ends = self._places[first:past], self._ends[first:past]
        return Hit(score, index, part, document, starts, ends, None, bool(is_name))

    def _of(self, piece: int) -> slice:
        """Its files."""
        return slice(self._firsts[piece], self._firsts[piece + 1])

    def _hits(self, own: slice) -> Hits:
        """These files of one part, as they come from a tree."""
        files = self._files[own]
        documents = files[:, DOCUMENT].astype(np.uint32)
        firsts = self._files[own.start : own.stop + 1, FIRST_MATCH]
        content, names = (self._marks(documents, firsts, files[:, IS_NAME] == is_name) for is_name in (0, 1))
        return Hits(documents, content, names, np.ones(len(documents), np.int64))

    def _marks(self, documents: U32, firsts: I64, is_meant: Mask) -> Marks:
        if not is_meant.any():
            return NO_MARKS
        counts = np.diff(firsts)
        starts = self._places[firsts[0] : firsts[-1]][np.repeat(is_meant, counts)]
        ends = starts + np.uint32(self._size_bytes)
        return Marks(starts, ends, None, documents[is_meant], np.cumsum([0, *counts[is_meant]]))


def bundled(roll: Roll, blocks: U32, pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces of parts, cut and joined to what is looked at in one go: for threads to share, for bounds to cut off.

    A part that takes long is cut into pieces of about one size, each of whole documents.
    """
    bundle: list[Piece] = []
    size_bytes = documents = 0
    for piece in pieces:
        for each in [piece] if _is_brief(piece[DOCUMENTS], piece[BYTES]) else _cut(roll, blocks, piece):
            size_bytes, documents = size_bytes + each[BYTES], documents + each[DOCUMENTS]
            if bundle and not _is_brief(documents, size_bytes):
                yield bundle
                bundle, size_bytes, documents = [], each[BYTES], each[DOCUMENTS]
            bundle.append(each)
    if bundle:
        yield bundle


def _is_brief(documents: int, size_bytes: int) -> bool:
    return size_bytes <= PIECE_BYTES and documents <= evaluate.BATCH_DOCUMENTS


def _cut(roll: Roll, blocks: U32, piece: Piece) -> Iterator[Piece]:
    row, first, past, _, size_bytes = piece
    content = roll.parts[row].segment.content
    bytes_max = size_bytes // -(-size_bytes // PIECE_BYTES) + PIECE_SLACK_BYTES
    own = frozen(blocks[first:past])
    rows = shares(own, content.block_starts, content.block_docs, bytes_max, evaluate.BATCH_DOCUMENTS)
    at = first
    for end, documents, size_bytes in rows.tolist():
        yield [row, at, first + end, documents, size_bytes]
        at = first + end
