"""A query on one segment: which documents satisfy it, and where.

Evaluation goes twice through the tree. First every node says which documents are possible, from the postings and the
document table alone. Then, batch by batch and best documents first, each node says which of the documents still in
question satisfy it, cheapest child first, and text atoms hand up their spans. A batch is small enough that a bound is
noticed within milliseconds.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from argosy.search.index.index import Part
from argosy.search.index.segment import U32
from argosy.search.match.atoms import Atoms
from argosy.search.match.budget import Budget
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
)  # fmt: skip

BATCH_BYTES = 16 << 20          # candidate text in one batch; a literal passes it in about four milliseconds
BATCH_DOCUMENTS = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The documents that satisfy a node, and the spans of its atoms (which may lie in other documents as well)."""

    mask: Mask
    spans: tuple[Spans, ...] = ()
    matches: int | None = None          # known without spans


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
        self._sites: dict[int, Sequence[Site]] = {}     # by the identity of the atom
        self._named: dict[int, Mask] = {}               # by the identity of the set of names
        self.content_bytes = 0          # looked at so far

    def possible(self) -> U32:
        """The documents that the index cannot rule out."""
        mask = self._possible(self._query)
        return NOTHING if mask is None else np.flatnonzero(mask & (self._branches != 0)).astype(np.uint32)

    def batches(self, documents: U32) -> Iterator[tuple[U32, Found]]:
        """The documents of each batch, and what was found in them, until all are seen or the budget is spent.

        Spent in the midst of a batch, it leaves some of the documents that match, and only such.
        """
        if len(documents) == 0:
            return
        totals = np.cumsum(self._costs()[documents])
        at = 0
        while at < len(documents) and not self._budget.is_spent():
            spent = totals[at - 1] if at else 0
            end = int(np.searchsorted(totals, spent + BATCH_BYTES, "right"))
            end = min(max(end, at + 1), at + BATCH_DOCUMENTS)
            batch = documents[at:end]
            mask = np.zeros(self._size, np.bool_)
            mask[batch] = True
            self.content_bytes += int(totals[end - 1] - spent)
            yield batch, self._counted(mask) or self._exact(self._query, mask)
            at = end

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
                if possible is None or not is_exact(child):
                    return np.ones(self._size, np.bool_)
                return ~possible
            case Type(_, child) | Boost(child, _):
                return self._possible(child)
            case Substring() | Regexp() | Symbol():
                return _any([site.possible for site in self._sites_of(node)])
            case _:
                return self._known(node)

    def _possible_all(self, children: Sequence[Query]) -> Mask | None:
        mask: Mask | None = np.ones(self._size, np.bool_)
        for child in children:
            possible = self._possible(child)
            if possible is None or mask is None:
                return None
            mask &= possible
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
                if id(node) not in self._named:         # once for all batches
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
        atom = node.name if isinstance(node, Symbol) else node
        finder = self._atoms.finder(atom)
        if finder is None:
            return ()
        candidates = finder.candidates(self._segment)
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
                if self._budget.reached is not None:    # more might have been ruled out: nothing is certain
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
        for site in self._sites_of(node):
            asked = None if site.possible is None else mask & ~union & site.possible
            if asked is None or not asked.any():
                continue
            found = site.find(asked, self._budget)
            union |= found.mask(len(mask))
            spans.append(found)
        if self._can_be_empty(node):
            for site in self._sites_of(node):
                union |= site.admits(mask & ~union, self._budget)
        return Found(union, tuple(spans))

    def _can_be_empty(self, node: Substring | Regexp | Symbol) -> bool:
        finder = self._atoms.finder(node.name if isinstance(node, Symbol) else node)
        return finder is not None and finder.can_be_empty

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


def is_exact(node: Query) -> bool:
    """The document table alone decides."""
    match node:
        case And(children) | Or(children):
            return all(is_exact(child) for child in children)
        case Not(child) | Type(_, child) | Boost(child, _):
            return is_exact(child)
        case _:
            return not isinstance(node, Substring | Regexp | Symbol)


def _any(masks: Sequence[Mask | None]) -> Mask | None:
    known = [mask for mask in masks if mask is not None]
    return None if not known else known[0] if len(known) == 1 else np.logical_or.reduce(known)
