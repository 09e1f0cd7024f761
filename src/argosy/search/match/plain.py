"""One literal in one segment: what people ask most, answered without a tree and without masks over all documents.

It is what `evaluate.py` would have said, batch by batch. Where bytes alone do not decide, that is who is asked.
"""

from collections.abc import Iterator

import numpy as np

from argosy.search.index.index import Part
from argosy.search.index.segment import I64, U32, Trait, bitmap_length, frozen
from argosy.search.kernels.candidates import choose
from argosy.search.kernels.scan import scan_blocks
from argosy.search.match.atoms import Atoms
from argosy.search.match.budget import Budget
from argosy.search.match.evaluate import cut, is_one_batch
from argosy.search.match.expression import Manner
from argosy.search.match.finders import LiteralFinder, bounds
from argosy.search.match.hits import NO_MARKS, Hits, Marks, marks_of
from argosy.search.match.spans import spans_of
from argosy.search.query.tree import Query, Scope, Substring


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
    """A plain query on one part."""

    def __init__(self, plain: Plain, part: Part, blocks: U32, documents: int, size_bytes: int) -> None:
        self._plain = plain
        self._segment = part.segment
        self._blocks = blocks
        self.documents = documents
        self.cost_bytes = size_bytes
        self.content_bytes = self.regexps_considered = 0

    def hits(self) -> Iterator[tuple[int, Hits]]:
        """What was found, batch by batch: how many documents were looked at, and the hits in them."""
        for blocks, documents, size_bytes in self._batches():
            if self._plain.budget.is_spent():
                return
            self.content_bytes += size_bytes
            found, content = self._content(blocks, documents, size_bytes)
            if not self._plain.with_names:
                yield documents, Hits(content.documents, content, NO_MARKS, ones(content.documents), found)
                continue
            names = self._names(blocks, content.documents)
            matched = np.concatenate([content.documents, names.documents])
            matched.sort()
            yield documents, Hits(matched, content, names, ones(matched), found + len(names.starts))

    def _batches(self) -> Iterator[tuple[U32, int, int]]:
        """Blocks of whole documents, with the number of these and of their bytes."""
        if is_one_batch(self.documents, self.cost_bytes):
            yield self._blocks, self.documents, self.cost_bytes
            return
        content = self._segment.content
        sizes = content.block_starts[self._blocks.astype(np.int64) + 1] - content.block_starts[self._blocks]
        owners = content.block_docs[self._blocks]
        firsts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        ends = np.append(firsts, len(owners))
        for at, end, size_bytes in cut(np.add.reduceat(sizes, firsts).astype(np.int64)):
            yield frozen(self._blocks[ends[at] : ends[end]]), end - at, size_bytes

    def _content(self, blocks: U32, documents: int, size_bytes: int) -> tuple[int, Marks]:
        """The number of matches, and unless they are only counted, where they are."""
        needle, content = self._plain.finder.needle, self._segment.content
        # No two matches overlap, so there is room for all; what is never filled is never real memory either.
        room = 0 if self._plain.counts_only else size_bytes // len(needle.text) + len(blocks)
        places = np.empty(room, np.uint32)
        matched = np.empty(documents, np.uint32)
        firsts = np.empty(documents + 1, np.int64)
        found, files = scan_blocks(
            content.data, content.block_starts, content.block_docs, blocks,
            needle.pattern, needle.folds, needle.rare, places, matched, firsts,
        )  # fmt: skip
        starts = places[:found].copy()
        return found, Marks(starts, starts + np.uint32(len(needle.text)), None, matched[:files], firsts[: files + 1])

    def _names(self, blocks: U32, matched: U32) -> Marks:
        """The names that match, of documents whose content does not: a name is indexed with its first block."""
        content, names = self._segment.content, self._segment.names
        owners = content.block_docs[blocks]
        is_first = content.block_starts[blocks] == content.starts[owners]
        asked = _without(owners[is_first], matched)
        if len(asked) == 0:
            return NO_MARKS
        found = self._plain.finder.find_in_pieces(
            names.data, *bounds(names, asked), Manner.UTF8, self._plain.budget
        )
        return marks_of([spans_of(names, *found, is_name=True)])


def _without(documents: U32, others: U32) -> U32:
    """The documents that are not among the others; both ascend. numpy's own way takes ten times as long on a few."""
    if len(others) == 0 or len(documents) == 0:
        return documents
    places = np.minimum(np.searchsorted(others, documents), len(others) - 1)
    left: U32 = documents[others[places] != documents]
    return left


def ones(documents: U32) -> I64:
    return np.ones(len(documents), np.int64)
