"""Evaluates a query on one segment: which documents satisfy it, and where they match.

QueryMatches passes over the tree twice. The first pass determines candidate documents from the document table, the file
names and the postings. The second pass reads text, in batches with the best documents first: each node filters the
remaining documents, cheapest child first, and text atoms return their spans. Batches are small enough that a limit is
noticed within milliseconds.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I64, U32
from argosy.search.index.index import Part
from argosy.search.kernels.candidates import entries_of
from argosy.search.match.atoms import Atoms
from argosy.search.match.limits import Budget
from argosy.search.match.matchers import AtomMatcher
from argosy.search.match.sites import AtomSite, ContentSite, NameSite, SymbolSite
from argosy.search.match.spans import NOTHING, Mask, QueryMatches, Spans
from argosy.search.model import Repository
from argosy.search.query.simplify import branch_mask
from argosy.search.query.tree import (
    And,
    Boost,
    Const,
    FileNameSet,
    Language,
    Not,
    OnBranch,
    Or,
    Query,
    Regexp,
    Scope,
    Substring,
    Symbol,
    Type,
)

# Candidate text per batch; a literal scan takes a few milliseconds. Limits are checked between batches only.
BATCH_BYTES = 16 << 20
BATCH_DOCUMENTS = 16_384  # small documents cost by their number, not by their bytes


class SegmentSearch:
    """A query, already reduced for the repository, on one part of an index."""

    def __init__(
        self,
        query: Query,
        atoms: Atoms,
        part: Part,
        repository: Repository,
        budget: Budget,
        *,
        counts_only: bool = False,
    ) -> None:
        self._query = query
        self._counts_only = counts_only
        self._atoms = atoms
        self._segment = part.segment
        self._branches = part.branches
        self._repository = repository
        self._budget = budget
        self._sites: dict[int, Sequence[AtomSite]] = {}  # by id() of the atom
        self._named: dict[int, Mask] = {}  # by id() of the set of names
        self.content_bytes = 0  # text read so far
        self.lookups = self.index_bytes = self.regexps_considered = 0

    def possible(self) -> U32:
        """The candidate documents, by the index alone."""
        mask = self._possible(self._query)
        if mask is None:
            return NOTHING
        # Postings are shared between versions of an index and still list deleted documents.
        mask = mask & (self._branches != 0)
        if isinstance(self._query, And):  # the other children are evaluated on the candidates of all
            # Matches of an `And` lie in documents that all children admit, so the candidates of each are reduced to
            # those.
            for site in itertools.chain(*self._sites.values()):
                site.narrow(mask)
        return np.flatnonzero(mask).astype(np.uint32)

    def batches(self, documents: U32) -> Iterator[tuple[U32, QueryMatches]]:
        """The documents of each batch and their matches, until all are done or the budget is spent.

        If it is spent inside a batch, the batch has only some of its matching documents, and no others.
        """
        if len(documents) == 0:
            return
        for at, end, size_bytes in cut(self._costs()[documents]):
            if self._budget.is_spent():
                return
            batch = documents[at:end]
            mask = np.zeros(self._size, np.bool_)
            mask[batch] = True
            self.content_bytes += size_bytes
            yield batch, self._count_only(mask) or self._exact(self._query, mask)

    def cost_bytes(self, documents: U32) -> int:
        """The amount of text to read in these documents."""
        return int(self._costs()[documents].sum())

    def _costs(self) -> npt.NDArray[np.int64]:
        costs = np.zeros(self._size, np.int64)
        for site in itertools.chain(*self._sites.values()):
            costs += site.costs
        return costs

    # First pass: the index.

    def _possible(self, node: Query) -> Mask | None:
        """The candidates of a node; None if there are none, which is the common case and returns early."""
        match node:
            case And(children):
                return self._possible_all(children)
            case Or(children):
                return _any([self._possible(child) for child in children])
            case Not(child):
                possible = self._possible(child)
                # Candidates are a superset of the matches, so their complement is usable only if they are exact.
                if possible is None or _breadth(child) is not Breadth.TABLE:
                    return np.ones(self._size, np.bool_)
                return ~possible
            case Type(_, child) | Boost(child, _):
                return self._possible(child)
            case Substring() | Regexp() | Symbol():
                return _any([site.possible for site in self._sites_of(node)])
            case _:
                return self._metadata_mask(node)

    def _possible_all(self, children: Sequence[Query]) -> Mask | None:
        """Evaluates the document table and file names first; if no candidate is left, no posting is read.

        Names are short, so those of the candidates are matched here, and no text of other files is read.
        """
        mask: Mask = self._branches != 0
        for child in sorted(children, key=_breadth):
            possible = self._possible(child)
            if possible is None:
                return None
            mask &= possible
            if not mask.any():
                return None
        # Names are matched only after all masks of the table and the postings have reduced the candidates.
        for child in children:
            if _breadth(child) is Breadth.NAMES:
                named = self._exact(child, mask).mask
                if self._budget.limit_hit is not None:  # some names were not matched
                    break
                mask = named
        return mask

    @property
    def _size(self) -> int:
        return self._segment.content.documents

    def _metadata_mask(self, node: Query) -> Mask:
        """The documents of a node that the document table decides."""
        match node:
            case Const(value):
                return np.full(self._size, value)
            case Language(name):
                names = self._segment.languages
                # A number that no document has, for a language that the segment lacks.
                code = names.index(name) if name in names else len(names)
                is_in: Mask = self._segment.table.languages == code
                return is_in
            case OnBranch():
                is_on: Mask = self._branches & np.uint64(branch_mask(node, self._repository)) != 0
                return is_on
            case FileNameSet(names):
                if id(node) not in self._named:  # computed once for all batches
                    wanted = {name.encode("utf-8", "surrogateescape") for name in names}
                    is_wanted = [self._segment.path(i) in wanted for i in range(self._size)]
                    self._named[id(node)] = np.array(is_wanted, np.bool_)
                return self._named[id(node)]
            case _:
                raise AssertionError(f"{node} is about repositories and was not reduced")

    def _sites_of(self, node: Substring | Regexp | Symbol) -> Sequence[AtomSite]:
        """The sites where the atom is searched, content first."""
        sites = self._sites.get(id(node))
        if sites is None:
            sites = self._sites[id(node)] = self._new_sites(node)
        return sites

    def _new_sites(self, node: Substring | Regexp | Symbol) -> Sequence[AtomSite]:
        matcher = self._matcher(node)
        if matcher is None:
            return ()
        candidates, postings = matcher.candidates(self._segment), self._segment.postings
        self.lookups += len(matcher.keys)
        entries = entries_of(matcher.keys, postings.present, postings.ranks, postings.offsets)
        self.index_bytes += entries * postings.blocks.itemsize
        if isinstance(node, Symbol):
            return (SymbolSite(matcher, self._segment, candidates),)
        if node.scope is Scope.CONTENT:
            return (ContentSite(matcher, self._segment, candidates),)
        names = NameSite(matcher, self._segment, candidates)
        if node.scope is Scope.FILE_NAME:
            return (names,)
        return ContentSite(matcher, self._segment, candidates), names

    # Second pass: the text.

    def _count_only(self, mask: Mask) -> QueryMatches | None:
        """The number of matches of a single atom, if the query only counts and there is a fast way."""
        if not self._counts_only or not isinstance(self._query, Substring | Regexp):
            return None
        matcher, sites = self._atoms.matcher(self._query), self._sites_of(self._query)
        if matcher is None or not isinstance(sites[0], ContentSite):
            return None
        tally = matcher.tally(self._segment, sites[0].candidates, mask)
        if tally is None:
            return None
        in_names = QueryMatches(np.zeros_like(mask))
        if len(sites) > 1:
            in_names = QueryMatches((spans := sites[1].find(mask & ~tally[0], self._budget)).mask(len(mask)), (spans,))
        return QueryMatches(tally[0] | in_names.mask, (), tally[1] + sum(len(spans) for spans in in_names.spans))

    def _exact(self, node: Query, mask: Mask) -> QueryMatches:
        match node:
            case And(children):
                return self._exact_all(children, mask)
            case Or(children):
                return self._exact_any(children, mask)
            case Not(child):
                ruled_out = self._exact(child, mask).mask
                if self._budget.limit_hit is not None:  # the child may be incomplete, so its negation is unknown
                    return QueryMatches(np.zeros_like(mask))
                return QueryMatches(mask & ~ruled_out)
            case Boost(child, factor):
                found = self._exact(child, mask)
                return QueryMatches(found.mask, tuple(replace(s, boost=s.boost * factor) for s in found.spans))
            case Type(_, child):
                return self._exact(child, mask)
            case Substring() | Regexp() | Symbol():
                return self._exact_text(node, mask)
            case _:
                return QueryMatches(mask & self._metadata_mask(node))

    def _exact_all(self, children: Sequence[Query], mask: Mask) -> QueryMatches:
        spans: list[Spans] = []
        # Cheapest first: each child filters the documents that the next one has to read.
        for child in sorted(children, key=self._cost):
            found = self._exact(child, mask)
            mask = found.mask
            spans.extend(found.spans)
            if not mask.any():
                return QueryMatches(mask)
        return QueryMatches(mask, tuple(spans))

    def _exact_any(self, children: Sequence[Query], mask: Mask) -> QueryMatches:
        union = np.zeros_like(mask)
        spans: list[Spans] = []
        # All children, although one match decides: each contributes spans, which are shown and scored.
        for child in children:
            found = self._exact(child, mask)
            union |= found.mask
            # A child can have spans in documents that it rejects, such as an `And` of which only one part matches.
            spans.extend(each.within(found.mask) for each in found.spans)
        return QueryMatches(union, tuple(spans))

    def _exact_text(self, node: Substring | Regexp | Symbol, mask: Mask) -> QueryMatches:
        """Searches the content first; a name counts only if the content has no match."""
        union = np.zeros_like(mask)
        spans: list[Spans] = []
        # Between atoms, too, because a batch of a query with many atoms takes many times as long as that of one.
        if self._budget.is_spent():
            return QueryMatches(union)
        matcher = self._matcher(node)
        for site in self._sites_of(node):
            # Documents that matched in an earlier site are left out: a name counts only if the content has no match.
            wanted = None if site.possible is None else mask & ~union & site.possible
            if wanted is None or not wanted.any():
                continue
            if matcher is not None and matcher.is_regex:
                self.regexps_considered += int(np.count_nonzero(wanted))
            found = site.find(wanted, self._budget)
            union |= found.mask(len(mask))
            spans.append(found)
        # A pattern such as `x*` has no span in a document without `x` and still matches it.
        if matcher is not None and matcher.can_be_empty:
            for site in self._sites_of(node):
                union |= site.admits(mask & ~union, self._budget)
        return QueryMatches(union, tuple(spans))

    def _matcher(self, node: Substring | Regexp | Symbol) -> AtomMatcher | None:
        return self._atoms.matcher(node.name if isinstance(node, Symbol) else node)

    def _cost(self, node: Query) -> int:
        """The approximate number of bytes to read."""
        match node:
            case And(children) | Or(children):
                return sum(self._cost(child) for child in children)
            case Not(child) | Type(_, child) | Boost(child, _):
                return self._cost(child)
            case Substring() | Regexp() | Symbol():
                return sum(int(site.costs.sum()) for site in self._sites_of(node))
            case _:
                return 0


class Breadth(IntEnum):
    """The kind of data that must be read to evaluate a node, cheapest first."""

    TABLE = 0
    NAMES = 1
    TEXT = 2


def _breadth(node: Query) -> Breadth:
    match node:
        case And(children) | Or(children):
            return max(map(_breadth, children), default=Breadth.TABLE)
        case Not(child) | Type(_, child) | Boost(child, _):
            return _breadth(child)
        case Substring() | Regexp():
            return Breadth.NAMES if node.scope is Scope.FILE_NAME else Breadth.TEXT
        case Symbol():
            return Breadth.TEXT
        case _:
            return Breadth.TABLE


def cut(costs: I64) -> Iterator[tuple[int, int, int]]:
    """Splits documents of these costs into batches: (start, end, total cost)."""
    totals = np.cumsum(costs)
    at, spent = 0, 0
    while at < len(totals):
        end = int(np.searchsorted(totals, spent + BATCH_BYTES, "right"))
        # At least one document, even if it alone exceeds the batch.
        end = min(max(end, at + 1), at + BATCH_DOCUMENTS)
        total = int(totals[end - 1])
        yield at, end, total - spent
        at, spent = end, total


def _any(masks: Sequence[Mask | None]) -> Mask | None:
    known = [mask for mask in masks if mask is not None]
    return None if not known else known[0] if len(known) == 1 else np.logical_or.reduce(known)
