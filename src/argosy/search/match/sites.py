"""One text atom in one segment: first where it may be, then where it is."""

from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from argosy.search.index.segment import I64, U8, U32, Segment, Text, Trait, frozen
from argosy.search.kernels.selecting import mark_first_documents
from argosy.search.kernels.spans import documents_of
from argosy.search.match.budget import Budget
from argosy.search.match.expression import Manner
from argosy.search.match.matchers import Candidates, Finder, bounds
from argosy.search.match.spans import NOTHING, Mask, Spans, joined, spans_of


class Site(Protocol):
    """An atom in a place of its own: the content, the names of the files, the names of the symbols."""

    @property
    def possible(self) -> Mask | None:
        """The documents that may have a match; certainly all that do. None is no document."""
        ...

    @property
    def costs(self) -> I64:
        """How many bytes must be looked at in each document."""
        ...

    def find(self, mask: Mask, budget: Budget) -> Spans:
        """The matches in the documents of the mask."""
        ...

    def narrow(self, mask: Mask) -> None:
        """No other documents will be asked about."""
        ...

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        """Those of the documents, which have no spans, where the atom matches nothing at all, but does match."""
        ...


class ContentSite:
    """The text of the files."""

    def __init__(self, finder: Finder, segment: Segment, candidates: Candidates) -> None:
        self._finder = finder
        self._segment = segment
        self.candidates = candidates

    @cached_property
    def possible(self) -> Mask | None:
        return self.candidates.mask(self._segment.content)

    @cached_property
    def costs(self) -> I64:
        return _costs(self._segment, self.candidates)

    def narrow(self, mask: Mask) -> None:
        self.candidates = self.candidates.within(self._segment.content, mask)

    def find(self, mask: Mask, budget: Budget) -> Spans:
        return self._finder.find(self._segment, self.candidates, mask, budget)

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        documents = np.flatnonzero(mask).astype(np.uint32) if self._finder.can_be_empty else NOTHING
        content = self._segment.content
        manners = _manners(self._segment, documents)
        return _admitted(self._finder, content, documents, manners, budget)


class NameSite:
    """A document's first block is also indexed under its name, so the content's candidates tell the names', too."""

    def __init__(self, finder: Finder, segment: Segment, candidates: Candidates) -> None:
        self._finder = finder
        self._segment = segment
        self._candidates = candidates
        self._seen: tuple[Mask, Spans] | None = None  # names looked at, and what was found in them

    @cached_property
    def possible(self) -> Mask | None:
        if not self._segment.traits & Trait.ODD_NAME and self._candidates.is_empty:
            return None
        mask: Mask = self._segment.table.traits & Trait.ODD_NAME > 0
        mark_first_documents(frozen(self._candidates.blocks), self._segment.content.block_docs, mask)
        mask[self._candidates.documents] = True
        return mask

    @cached_property
    def costs(self) -> I64:
        return np.zeros(self._segment.names.documents, np.int64)  # next to nothing

    def narrow(self, mask: Mask) -> None:
        return None

    def find(self, mask: Mask, budget: Budget) -> Spans:
        """Names are looked at once: first all that are in question, later batch by batch."""
        if self._seen is not None and not (mask & ~self._seen[0]).any():
            return self._seen[1].within(mask)
        found = self._find(mask, budget)
        if budget.limit_hit is None:
            self._seen = mask, found
        return found

    def _find(self, mask: Mask, budget: Budget) -> Spans:
        chosen = mask if self.possible is None else mask & self.possible
        is_odd = self._segment.table.traits & Trait.ODD_NAME > 0
        names = self._segment.names
        plain = np.flatnonzero(chosen & ~is_odd).astype(np.uint32)
        found = [self._finder.find_in_pieces(names.data, *bounds(names, plain), Manner.UTF8, budget)]
        for document in np.flatnonzero(chosen & is_odd).astype(np.uint32):
            if budget.is_spent():
                break
            one = np.array([document], np.uint32)
            manner = Manner.ODD_UTF8 if is_utf8(self._segment.path(int(document))) else Manner.BYTES
            found.append(self._finder.find_in_pieces(names.data, *bounds(names, one), manner, budget))
        return spans_of(names, *joined(found), is_name=True)

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        documents = np.flatnonzero(mask).astype(np.uint32) if self._finder.can_be_empty else NOTHING
        is_utf8_name = [is_utf8(self._segment.path(int(document))) for document in documents]
        manners = np.where(np.array(is_utf8_name, np.bool_), 1, 2).astype(np.uint8)
        return _admitted(self._finder, self._segment.names, documents, manners, budget)


class SymbolSite(ContentSite):
    """A symbol's name lies in the content, so the content's candidates hold it; only the names there are looked at."""

    def find(self, mask: Mask, budget: Budget) -> Spans:
        content, symbols = self._segment.content, self._segment.symbols
        chosen = self._symbols(mask)
        starts = symbols.starts[chosen]
        ends = starts + symbols.lengths[chosen]
        manners = _manners(self._segment, documents_of(content.starts, frozen(starts)))
        found = [
            self._finder.find_in_pieces(content.data, starts[manners == i], ends[manners == i], manner, budget)
            for i, manner in enumerate(_MANNERS)
        ]
        return spans_of(content, *joined(found))

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        """Every name matches nothing at all, in its own way: a document with symbols is enough to ask."""
        content, symbols = self._segment.content, self._segment.symbols
        admitted = np.zeros(len(mask), np.bool_)
        if not self._finder.can_be_empty:
            return admitted
        chosen = self._symbols(mask)
        starts, ends = symbols.starts[chosen], symbols.starts[chosen] + symbols.lengths[chosen]
        owners = documents_of(content.starts, frozen(starts))
        view = content.data.data
        for owner, start, end, manner in zip(
            owners.tolist(), starts.tolist(), ends.tolist(), _manners(self._segment, owners).tolist(), strict=True
        ):
            if budget.is_spent():
                break
            if not admitted[owner]:
                admitted[owner] = self._finder.admits(view[start:end], _MANNERS[manner])
        return admitted

    def _symbols(self, mask: Mask) -> npt.NDArray[np.int64]:
        """The symbols that begin in candidate blocks; in documents with cut lines a name may lie across two blocks."""
        content = self._segment.content
        is_whole = self._segment.table.traits & Trait.CUT_LINE > 0
        is_whole[self.candidates.documents] = True
        blocks = self.candidates.blocks[(mask & ~is_whole)[content.block_docs[self.candidates.blocks]]]
        starts, ends = bounds(content, np.flatnonzero(mask & is_whole).astype(np.uint32))
        starts = np.concatenate([content.block_starts[blocks], starts])
        ends = np.concatenate([content.block_starts[blocks.astype(np.int64) + 1], ends])
        order = np.argsort(starts, kind="stable")
        firsts = np.searchsorted(self._segment.symbols.starts, starts[order])
        lasts = np.searchsorted(self._segment.symbols.starts, ends[order])
        counts = lasts - firsts
        return np.repeat(lasts - np.cumsum(counts), counts) + np.arange(counts.sum())


_MANNERS = (Manner.UTF8, Manner.ODD_UTF8, Manner.BYTES)


def _admitted(finder: Finder, text: Text, documents: U32, manners: U8, budget: Budget) -> Mask:
    mask = np.zeros(text.documents, np.bool_)
    view = text.data.data
    starts, ends = bounds(text, documents)
    for document, start, end, manner in zip(
        documents.tolist(), starts.tolist(), ends.tolist(), manners.tolist(), strict=True
    ):
        if budget.is_spent():
            break
        mask[document] = finder.admits(view[start:end], _MANNERS[manner])
    return mask


def _manners(segment: Segment, documents: U32) -> U8:
    """For each of these documents, how it is to be read: its place in _MANNERS."""
    traits = segment.table.traits[documents]
    manners = np.where(traits & Trait.ODD_FOLD > 0, 1, 0)
    return np.where(traits & Trait.INVALID_UTF8 > 0, 2, manners).astype(np.uint8)


def _costs(segment: Segment, candidates: Candidates) -> I64:
    text = segment.content
    sizes = text.block_starts[candidates.blocks.astype(np.int64) + 1] - text.block_starts[candidates.blocks]
    costs = np.bincount(text.block_docs[candidates.blocks], weights=sizes, minlength=text.documents)
    costs[candidates.documents] = np.diff(text.starts)[candidates.documents]
    return costs.astype(np.int64)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
