"""A query on one segment: which documents satisfy it, and where.

Evaluation goes twice through the tree. First every node says which documents are possible, from the document table, the
names of files and the postings. Then, batch by batch and best documents first, each node says which of the documents
still in question satisfy it, cheapest child first, and text atoms hand up their spans. A batch is small enough that a
bound is noticed within milliseconds.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from argosy.search.index.index import Part
from argosy.search.index.segment import I64, U32
from argosy.search.kernels.candidates import entries_of
from argosy.search.match.atoms import Atoms
from argosy.search.match.budget import Budget
from argosy.search.match.matchers import Finder
from argosy.search.match.sites import ContentSite, NameSite, Site, SymbolSite
from argosy.search.match.spans import NOTHING, Mask, Spans
from argosy.search.model import Repository
from argosy.search.query.simplify import branch_mask
from argosy.search.query.tree import (
    And,
    Boost,
    Branch,
    Const,
    FileNameSet,
    Language,
    Not,
    Or,
    Query,
    Regexp,
    Scope,
    Substring,
    Symbol,
    Type,
)

BATCH_BYTES = 16 << 20  # candidate text in one batch; a literal passes it in about two milliseconds
BATCH_DOCUMENTS = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The documents that satisfy a node, and the spans of its atoms (which may lie in other documents as well)."""

    mask: Mask
    spans: tuple[Spans, ...] = ()
    matches: int | None = None  # known without spans


class SegmentSearch:
    """One query, already reduced to what differs between documents, on one part of an index."""

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
        self._sites: dict[int, Sequence[Site]] = {}  # by the identity of the atom
        self._named: dict[int, Mask] = {}  # by the identity of the set of names
        self.content_bytes = 0  # looked at so far
        self.lookups = self.index_bytes = self.regexps_considered = 0

    def possible(self) -> U32:
        """The documents that the index cannot rule out."""
        mask = self._possible(self._query)
        if mask is None:
            return NOTHING
        mask = mask & (self._branches != 0)
        if isinstance(self._query, And):  # what one child leaves is what the others are asked about
            for site in itertools.chain(*self._sites.values()):
                site.narrow(mask)
        return np.flatnonzero(mask).astype(np.uint32)

    def batches(self, documents: U32) -> Iterator[tuple[U32, Found]]:
        """The documents of each batch, and what was found in them, until all are seen or the budget is spent.

        Spent in the midst of a batch, it leaves some of the documents that match, and only such.
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
            yield batch, self._counted(mask) or self._exact(self._query, mask)

    def cost_bytes(self, documents: U32) -> int:
        """How much text must be looked at in these documents."""
        return int(self._costs()[documents].sum())

    def _costs(self) -> npt.NDArray[np.int64]:
        costs = np.zeros(self._size, np.int64)
        for site in itertools.chain(*self._sites.values()):
            costs += site.costs
        return costs

    # What the index knows.

    def _possible(self, node: Query) -> Mask | None:
        """None if no document is possible: most segments have nothing to say to most queries, and say it fast."""
        match node:
            case And(children):
                return self._possible_all(children)
            case Or(children):
                return _any([self._possible(child) for child in children])
            case Not(child):
                possible = self._possible(child)
                if possible is None or _breadth(child) is not Breadth.TABLE:
                    return np.ones(self._size, np.bool_)
                return ~possible
            case Type(_, child) | Boost(child, _):
                return self._possible(child)
            case Substring() | Regexp() | Symbol():
                return _any([site.possible for site in self._sites_of(node)])
            case _:
                return self._known(node)

    def _possible_all(self, children: Sequence[Query]) -> Mask | None:
        """What the document table and the names say comes first, and where that leaves nothing, no posting is read.

        Names are short: those still in question are matched right here, so that no other file's text is looked at.
        """
        mask: Mask = self._branches != 0
        for child in sorted(children, key=_breadth):
            possible = self._possible(child)
            if possible is None:
                return None
            mask &= possible
            if not mask.any():
                return None
        for child in children:
            if _breadth(child) is Breadth.NAMES:
                named = self._exact(child, mask).mask
                if self._budget.limit_hit is not None:  # some names were not looked at
                    break
                mask = named
        return mask

    @property
    def _size(self) -> int:
        return self._segment.content.documents

    def _known(self, node: Query) -> Mask:
        """The documents a node of the document table means, exactly."""
        match node:
            case Const(value):
                return np.full(self._size, value)
            case Language(name):
                names = self._segment.languages
                code = names.index(name) if name in names else len(names)
                is_in: Mask = self._segment.table.languages == code
                return is_in
            case Branch():
                is_on: Mask = self._branches & np.uint64(branch_mask(node, self._repository)) != 0
                return is_on
            case FileNameSet(names):
                if id(node) not in self._named:  # once for all batches
                    wanted = {name.encode("utf-8", "surrogateescape") for name in names}
                    is_wanted = [self._segment.path(i) in wanted for i in range(self._size)]
                    self._named[id(node)] = np.array(is_wanted, np.bool_)
                return self._named[id(node)]
            case _:
                raise AssertionError(f"{node} is about repositories and was not reduced")

    def _sites_of(self, node: Substring | Regexp | Symbol) -> Sequence[Site]:
        """The places where the atom is looked for, the content first."""
        sites = self._sites.get(id(node))
        if sites is None:
            sites = self._sites[id(node)] = self._new_sites(node)
        return sites

    def _new_sites(self, node: Substring | Regexp | Symbol) -> Sequence[Site]:
        finder = self._finder(node)
        if finder is None:
            return ()
        candidates, postings = finder.candidates(self._segment), self._segment.postings
        self.lookups += len(finder.keys)
        entries = entries_of(finder.keys, postings.present, postings.ranks, postings.offsets)
        self.index_bytes += entries * postings.blocks.itemsize
        if isinstance(node, Symbol):
            return (SymbolSite(finder, self._segment, candidates),)
        if node.scope is Scope.CONTENT:
            return (ContentSite(finder, self._segment, candidates),)
        names = NameSite(finder, self._segment, candidates)
        if node.scope is Scope.FILE_NAME:
            return (names,)
        return ContentSite(finder, self._segment, candidates), names

    # What the text says.

    def _counted(self, mask: Mask) -> Found | None:
        """The answer to a single atom of which only the number of matches is asked, if there is a quick one."""
        if not self._counts_only or not isinstance(self._query, Substring | Regexp):
            return None
        finder, sites = self._atoms.finder(self._query), self._sites_of(self._query)
        if finder is None or not isinstance(sites[0], ContentSite):
            return None
        tally = finder.tally(self._segment, sites[0].candidates, mask)
        if tally is None:
            return None
        in_names = Found(np.zeros_like(mask))
        if len(sites) > 1:
            in_names = Found((spans := sites[1].find(mask & ~tally[0], self._budget)).mask(len(mask)), (spans,))
        return Found(tally[0] | in_names.mask, (), tally[1] + sum(len(spans) for spans in in_names.spans))

    def _exact(self, node: Query, mask: Mask) -> Found:
        match node:
            case And(children):
                return self._exact_all(children, mask)
            case Or(children):
                return self._exact_any(children, mask)
            case Not(child):
                ruled_out = self._exact(child, mask).mask
                if self._budget.limit_hit is not None:  # more might have been ruled out: nothing is certain
                    return Found(np.zeros_like(mask))
                return Found(mask & ~ruled_out)
            case Boost(child, factor):
                found = self._exact(child, mask)
                return Found(found.mask, tuple(replace(s, boost=s.boost * factor) for s in found.spans))
            case Type(_, child):
                return self._exact(child, mask)
            case Substring() | Regexp() | Symbol():
                return self._exact_text(node, mask)
            case _:
                return Found(mask & self._known(node))

    def _exact_all(self, children: Sequence[Query], mask: Mask) -> Found:
        spans: list[Spans] = []
        for child in sorted(children, key=self._cost):
            found = self._exact(child, mask)
            mask = found.mask
            spans.extend(found.spans)
            if not mask.any():
                return Found(mask)
        return Found(mask, tuple(spans))

    def _exact_any(self, children: Sequence[Query], mask: Mask) -> Found:
        union = np.zeros_like(mask)
        spans: list[Spans] = []
        for child in children:
            found = self._exact(child, mask)
            union |= found.mask
            spans.extend(each.within(found.mask) for each in found.spans)
        return Found(union, tuple(spans))

    def _exact_text(self, node: Substring | Regexp | Symbol, mask: Mask) -> Found:
        """In the content first; a name only counts where the content has nothing."""
        union = np.zeros_like(mask)
        spans: list[Spans] = []
        if self._budget.is_spent():
            return Found(union)
        finder = self._finder(node)
        for site in self._sites_of(node):
            asked = None if site.possible is None else mask & ~union & site.possible
            if asked is None or not asked.any():
                continue
            if finder is not None and finder.is_regex:
                self.regexps_considered += int(np.count_nonzero(asked))
            found = site.find(asked, self._budget)
            union |= found.mask(len(mask))
            spans.append(found)
        if finder is not None and finder.can_be_empty:
            for site in self._sites_of(node):
                union |= site.admits(mask & ~union, self._budget)
        return Found(union, tuple(spans))

    def _finder(self, node: Substring | Regexp | Symbol) -> Finder | None:
        return self._atoms.finder(node.name if isinstance(node, Symbol) else node)

    def _cost(self, node: Query) -> int:
        """Roughly the bytes that must be looked at."""
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
    """How much must be looked at to tell whether a node holds."""

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
    """Batches of documents that cost so many bytes each: from which, to which, and what that costs together."""
    totals = np.cumsum(costs)
    at, spent = 0, 0
    while at < len(totals):
        end = int(np.searchsorted(totals, spent + BATCH_BYTES, "right"))
        end = min(max(end, at + 1), at + BATCH_DOCUMENTS)
        total = int(totals[end - 1])
        yield at, end, total - spent
        at, spent = end, total


def _any(masks: Sequence[Mask | None]) -> Mask | None:
    known = [mask for mask in masks if mask is not None]
    return None if not known else known[0] if len(known) == 1 else np.logical_or.reduce(known)
