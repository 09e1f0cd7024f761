"""One literal in one segment: what people ask most, answered without a tree and without masks over all documents.

It is what `evaluate.py` would have said, batch by batch. Where bytes alone do not decide, that is who is asked.
"""

from collections.abc import Iterator

import numpy as np

from argosy.search.index.index import Part
from argosy.search.index.segment import I64, U32, Trait, bitmap_length, frozen
from argosy.search.kernels.candidates import choose
from argosy.search.kernels.scan import scan_blocks, scan_names
from argosy.search.kernels.selecting import shares
from argosy.search.match import evaluate
from argosy.search.match.atoms import Atoms
from argosy.search.match.budget import Budget
from argosy.search.match.finders import LiteralFinder
from argosy.search.match.hits import NO_MARKS, Hits, Marks
from argosy.search.query.tree import Query, Scope, Substring

PIECE_BYTES = 8 << 20           # candidate text looked at in one go: about a millisecond
PIECE_SLACK_BYTES = 1 << 18     # so much larger than an even share, or what no document fills would be one more piece


class Plain:
    """A query that is one literal in the content, or in the content or else the name."""

    def __init__(self, finder: LiteralFinder, *, with_names: bool, counts_only: bool, budget: Budget) -> None:
        self.finder = finder
        self.with_names = with_names
        self.counts_only = counts_only
        self.budget = budget
        self.lookups = self.index_bytes = 0             # of all parts asked so far
        self._care = finder.odd_traits | (Trait.ODD_NAME if with_names else 0)

    @classmethod
    def of(cls, query: Query, atoms: Atoms, budget: Budget, *, counts_only: bool) -> "Plain | None":
        """None if the query is another one."""
        if not isinstance(query, Substring) or query.scope is Scope.FILE_NAME:
            return None
        finder = atoms.finder(query)
        if not isinstance(finder, LiteralFinder) or len(finder.needle.keys) == 0:
            return None
        return cls(finder, with_names=query.scope is Scope.ANY, counts_only=counts_only, budget=budget)

    def search(self, part: Part, scratch: U32) -> "PlainSearch | bool":
        """The part's search; True if bytes alone do not decide there, False if the index rules the part out.

        `scratch` has room for the blocks of any segment.
        """
        segment = part.segment
        care = segment.traits & self._care
        if care and (care & Trait.ODD_NAME or len(self.finder.odd_documents(segment))):
            return True
        postings, content = segment.postings, segment.content
        count, documents, size, entries = choose(
            self.finder.needle.keys, bitmap_length(content.blocks),
            postings.present, postings.ranks, postings.offsets, postings.blocks,
            content.block_starts, content.block_docs, part.branches, scratch,
        )  # fmt: skip
        self.lookups += len(self.finder.needle.keys)
        self.index_bytes += entries * postings.blocks.itemsize
        if count == 0:
            return False
        return PlainSearch(self, part, frozen(scratch[:count].copy()), documents, size)


class PlainSearch:
    """A plain query on some documents of one part, which are looked at in one go."""

    def __init__(self, plain: Plain, part: Part, blocks: U32, documents: int, size_bytes: int) -> None:
        self._plain = plain
        self._part = part
        self._segment = part.segment
        self._blocks = blocks
        self.documents = documents
        self.cost_bytes = size_bytes
        self.content_bytes = self.regexps_considered = 0

    def pieces(self) -> "Iterator[PlainSearch]":
        """The same in several of about one size, each of whole documents, if it takes long: for threads to share."""
        count = max(1, -(-self.cost_bytes // PIECE_BYTES))
        if count <= 1 and self.documents <= evaluate.BATCH_DOCUMENTS:
            yield self
            return
        content, at = self._segment.content, 0
        bytes_max = self.cost_bytes // count + PIECE_SLACK_BYTES
        rows = shares(self._blocks, content.block_starts, content.block_docs, bytes_max, evaluate.BATCH_DOCUMENTS)
        for end, documents, size_bytes in rows.tolist():
            yield PlainSearch(self._plain, self._part, frozen(self._blocks[at:end]), documents, size_bytes)
            at = end

    def hits(self) -> Iterator[tuple[int, Hits]]:
        """How many documents were looked at, and the hits in them; nothing if there was no time left."""
        if self._plain.budget.is_spent():
            return
        self.content_bytes = self.cost_bytes
        found, content = self._content()
        names = self._names(content.documents) if self._plain.with_names else NO_MARKS
        matched = content.documents
        if len(names.documents):
            matched = np.concatenate([matched, names.documents])
            matched.sort()
        yield self.documents, Hits(matched, content, names, ones(matched), found + len(names.starts))

    def _content(self) -> tuple[int, Marks]:
        """The number of matches, and unless they are only counted, where they are."""
        blocks, documents = self._blocks, self.documents
        needle, content = self._plain.finder.needle, self._segment.content
        # No two matches overlap, so there is room for all; what is never filled is never real memory either.
        room = 0 if self._plain.counts_only else self.cost_bytes // len(needle.text) + len(blocks)
        places = np.empty(room, np.uint32)
        matched = np.empty(documents, np.uint32)
        firsts = np.empty(documents + 1, np.int64)
        found, files = scan_blocks(
            content.data, content.block_starts, content.block_docs, blocks,
            needle.pattern, needle.folds, needle.rare, places, matched, firsts,
        )  # fmt: skip
        starts = places[:found].copy()
        return found, Marks(starts, starts + np.uint32(len(needle.text)), None, matched[:files], firsts[: files + 1])

    def _names(self, matched: U32) -> Marks:
        """The names that match, of documents whose content does not: a name is indexed with its first block."""
        blocks, needle, names = self._blocks, self._plain.finder.needle, self._segment.names
        size = len(needle.text)
        places = np.empty(len(names.data) // size, np.uint32)
        documents = np.empty(len(blocks), np.uint32)
        firsts = np.empty(len(blocks) + 1, np.int64)
        found, files = scan_names(
            names.data, names.starts, self._segment.content.block_docs, blocks, frozen(matched),
            needle.pattern, needle.folds, places, documents, firsts,
        )  # fmt: skip
        if found == 0:
            return NO_MARKS
        starts = places[:found].copy()
        return Marks(starts, starts + np.uint32(size), None, documents[:files], firsts[: files + 1])


def ones(documents: U32) -> I64:
    return np.ones(len(documents), np.int64)
