"""The fast path for a query of one literal, the most frequent kind: no tree, no masks over all documents.

The results equal those of `evaluate.py`. Three kernel calls handle all parts: candidates from the postings, scan of
their text, scores. Parts in which bytes alone do not decide are evaluated by the tree.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from argosy.search.arrays import F64, I64, U32, freeze
from argosy.search.index.index import Trait
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.kernels.candidates import BYTES, DOCUMENTS, select_in_parts
from argosy.search.kernels.scan import DOCUMENT, FILE_ROW, FIRST_FILE, FIRST_MATCH, IS_NAME, MATCHES, scan_parts
from argosy.search.kernels.selection import shares
from argosy.search.kernels.spans import NOT_COUNTED, score_parts
from argosy.search.match import evaluate
from argosy.search.match.atoms import ENTRY_BYTES, Atoms
from argosy.search.match.matchers import BEYOND_ASCII_CLASSES, LiteralMatcher
from argosy.search.match.rank import WORTH_OF, bm25_scores
from argosy.search.match.spans import NO_SPANS, Hits, Mask, SpanGroups
from argosy.search.match.top_k import Hit
from argosy.search.query.tree import Query, Scope, Substring

PIECE_BYTES = 8 << 20  # candidate text per scan call: one or two milliseconds, after which limits are checked
PIECE_SLACK_BYTES = 1 << 18  # slack per piece, so that uneven documents do not cause an extra small piece

Piece: TypeAlias = list[int]  # row of the part, first block, end block (or UNDECIDED), documents, bytes


@dataclass(frozen=True, slots=True, eq=False)
class CandidateBlocks:
    """The candidate blocks of some indexes: a piece per part, in order."""

    blocks: U32
    pieces: list[Piece]
    lookups: int
    index_bytes: int


class LiteralQuery:
    """A query of one literal, in the content only or in content and names."""

    def __init__(self, matcher: LiteralMatcher, *, with_names: bool) -> None:
        self.matcher = matcher
        self.with_names = with_names
        self.care = matcher.odd_traits | (Trait.ODD_NAME if with_names else 0)

    @classmethod
    def of(cls, query: Query, atoms: Atoms) -> "LiteralQuery | None":
        """None if the query has another form."""
        if not isinstance(query, Substring) or query.scope is Scope.FILE_NAME:
            return None
        matcher = atoms.matcher(query)
        # One or two bytes have no trigram, so the postings cannot select blocks.
        if not isinstance(matcher, LiteralMatcher) or len(matcher.needle.keys) == 0:
            return None
        return cls(matcher, with_names=query.scope is Scope.ANY)

    def select_candidates(self, tables: KernelTables, first: int, past: int) -> CandidateBlocks:
        """The candidates in these rows, by the postings."""
        keys = self.matcher.needle.keys
        blocks, pieces, parts, entries = select_in_parts(
            tables.candidate_rows, first, past, keys, BEYOND_ASCII_CLASSES, self.care
        )
        return CandidateBlocks(blocks, pieces.tolist(), parts * len(keys), entries * ENTRY_BYTES)

    def scan(self, tables: KernelTables, blocks: U32, group: Sequence[Piece], *, counts_only: bool) -> "LiteralMatches":
        """Scans the text of the pieces."""
        needle, pieces = self.matcher.needle, np.array(group, np.int64)
        places, files, sums = scan_parts(
            tables.scan_rows,
            pieces,
            blocks,
            needle.pattern,
            needle.folds,
            needle.rare,
            self.with_names,
            not counts_only,
        )
        return LiteralMatches(tables, len(needle.text), places, files, sums)


class LiteralMatches:
    """The matches in some pieces, by file."""

    def __init__(self, tables: KernelTables, size_bytes: int, places: U32, files: I64, sums: I64) -> None:
        self._tables = tables
        self._size_bytes = size_bytes  # of every match
        self._places = places
        # Computed with the first hit shown; a search that only counts never needs it.
        self._ends: U32 | None = None
        self._files = files  # row, document, first match, whether matches are in the name
        self._firsts = [*sums[:, FIRST_FILE].tolist(), len(files) - 1]  # first file of each piece
        self._matches = sums[:, MATCHES].tolist()

    def sums(self) -> Iterator[tuple[int, int]]:
        """The numbers of matches and files of each piece."""
        for matches, (first, past) in zip(self._matches, pairwise(self._firsts), strict=True):
            yield matches, past - first

    def drop(self, piece: int) -> None:
        """Drops a piece after a limit was hit before it."""
        # The rows stay, because positions of later pieces refer to them; the mark makes their scores NaN.
        self._files[self._of(piece), FILE_ROW] = NOT_COUNTED

    def scores(self) -> F64:
        """The score of each file; NaN in dropped pieces."""
        return score_parts(self._tables.score_rows, self._files, self._places, self._size_bytes, WORTH_OF)

    def bm25_scores(self) -> F64:
        """The BM25 score of each file; NaN in dropped pieces."""
        scores = np.full(len(self._files) - 1, np.nan)
        for piece in range(len(self._matches)):
            own = self._of(piece)
            if own.start < own.stop and (row := int(self._files[own.start, FILE_ROW])) != NOT_COUNTED:
                scores[own] = bm25_scores(self._hits(own), self._tables.parts[row].segment)
        return scores

    def hit(self, place: int, score: float) -> Hit:
        """The file at this position."""
        if self._ends is None:
            self._ends = self._places + np.uint32(self._size_bytes)
        # The matches of a file end where those of the next one begin, hence the extra row at the end.
        (row, document, first, is_name), (_, _, past, _) = self._files[place : place + 2].tolist()
        owner = self._tables.owners[row]
        index, part = self._tables.indexes[owner], row - self._tables.firsts[owner]
        starts, ends = self._places[first:past], self._ends[first:past]
        return Hit(score, index, part, document, starts, ends, None, bool(is_name))

    def _of(self, piece: int) -> slice:
        """The files of a piece."""
        return slice(self._firsts[piece], self._firsts[piece + 1])

    def _hits(self, own: slice) -> Hits:
        """The hits of these files of one part, in the form that the tree returns."""
        files = self._files[own]
        documents = files[:, DOCUMENT].astype(np.uint32)
        firsts = self._files[own.start : own.stop + 1, FIRST_MATCH]
        content, names = (self._marks(documents, firsts, files[:, IS_NAME] == is_name) for is_name in (0, 1))
        return Hits(documents, content, names, np.ones(len(documents), np.int64))

    def _marks(self, documents: U32, firsts: I64, is_meant: Mask) -> SpanGroups:
        if not is_meant.any():
            return NO_SPANS
        counts = np.diff(firsts)
        starts = self._places[firsts[0] : firsts[-1]][np.repeat(is_meant, counts)]
        ends = starts + np.uint32(self._size_bytes)
        return SpanGroups(starts, ends, None, documents[is_meant], np.cumsum([0, *counts[is_meant]]))


def group_pieces(tables: KernelTables, blocks: U32, pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Groups pieces to units of work of similar size, so that threads can share them and limits can stop between them.

    A large part is split into pieces of about equal size, each of whole documents.
    """
    group: list[Piece] = []
    size_bytes = documents = 0
    for piece in pieces:
        for each in [piece] if _is_brief(piece[DOCUMENTS], piece[BYTES]) else _cut(tables, blocks, piece):
            size_bytes, documents = size_bytes + each[BYTES], documents + each[DOCUMENTS]
            # The piece that would exceed the bound begins the next group.
            if group and not _is_brief(documents, size_bytes):
                yield group
                group, size_bytes, documents = [], each[BYTES], each[DOCUMENTS]
            group.append(each)
    if group:
        yield group


def _is_brief(documents: int, size_bytes: int) -> bool:
    return size_bytes <= PIECE_BYTES and documents <= evaluate.BATCH_DOCUMENTS


def _cut(tables: KernelTables, blocks: U32, piece: Piece) -> Iterator[Piece]:
    row, first, past, _, size_bytes = piece
    content = tables.parts[row].segment.content
    # The number of pieces is rounded up and the text divided by it: equal pieces end at about the same time in all
    # threads.
    bytes_max = size_bytes // -(-size_bytes // PIECE_BYTES) + PIECE_SLACK_BYTES
    own = freeze(blocks[first:past])
    rows = shares(own, content.block_starts, content.block_docs, bytes_max, evaluate.BATCH_DOCUMENTS)
    at = first
    for end, documents, size_bytes in rows.tolist():
        yield [row, at, first + end, documents, size_bytes]
        at = first + end
