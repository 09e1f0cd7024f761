"""A text atom in one segment: candidates first, then matches."""

from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I64, U8, U32, freeze
from argosy.search.index.index import Segment, Text, Trait
from argosy.search.kernels.selection import mark_first_documents
from argosy.search.kernels.spans import documents_of
from argosy.search.match.expression import DecodeMode
from argosy.search.match.limits import Budget
from argosy.search.match.matchers import AtomMatcher, Candidates, bounds
from argosy.search.match.spans import NOTHING, Mask, Spans, merge_spans, spans_of


class AtomSite(Protocol):
    """An atom in the content, the file names, or the symbol names of a segment."""

    @property
    def possible(self) -> Mask | None:
        """The candidate documents, a superset of those that match; None if there are none."""
        ...

    @property
    def costs(self) -> I64:
        """The bytes to read in each document."""
        ...

    def find(self, mask: Mask, budget: Budget) -> Spans:
        """The matches in documents of the mask."""
        ...

    def narrow(self, mask: Mask) -> None:
        """Drops the candidates outside the mask."""
        ...

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        """Of these documents without spans, those in which the atom matches empty text."""
        ...


class ContentSite:
    """An atom in the content."""

    def __init__(self, matcher: AtomMatcher, segment: Segment, candidates: Candidates) -> None:
        self._matcher = matcher
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
        return self._matcher.find(self._segment, self.candidates, mask, budget)

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        documents = np.flatnonzero(mask).astype(np.uint32) if self._matcher.can_be_empty else NOTHING
        content = self._segment.content
        modes = _modes(self._segment, documents)
        return _filter_admitting(self._matcher, content, documents, modes, budget)


class NameSite:
    """An atom in file names. The first block of a document is also indexed by its name, so the content's candidates
    serve for names too, and names need no index of their own (decision 0012)."""

    def __init__(self, matcher: AtomMatcher, segment: Segment, candidates: Candidates) -> None:
        self._matcher = matcher
        self._segment = segment
        self._candidates = candidates
        self._seen: tuple[Mask, Spans] | None = None  # names searched already, and their matches

    @cached_property
    def possible(self) -> Mask | None:
        if not self._segment.traits & Trait.ODD_NAME and self._candidates.is_empty:
            return None
        # Odd names are always candidates: trigrams are of bytes, and their letters can have other bytes.
        mask: Mask = self._segment.table.traits & Trait.ODD_NAME > 0
        mark_first_documents(freeze(self._candidates.blocks), self._segment.content.block_docs, mask)
        mask[self._candidates.documents] = True
        return mask

    @cached_property
    def costs(self) -> I64:
        return np.zeros(self._segment.names.documents, np.int64)  # negligible

    def narrow(self, mask: Mask) -> None:
        return None

    def find(self, mask: Mask, budget: Budget) -> Spans:
        """Searches each name once: all candidates first, then the results serve all batches."""
        if self._seen is not None and not (mask & ~self._seen[0]).any():
            return self._seen[1].within(mask)
        found = self._find(mask, budget)
        # An incomplete result must not serve later batches.
        if budget.limit_hit is None:
            self._seen = mask, found
        return found

    def _find(self, mask: Mask, budget: Budget) -> Spans:
        chosen = mask if self.possible is None else mask & self.possible
        is_odd = self._segment.table.traits & Trait.ODD_NAME > 0
        names = self._segment.names
        plain = np.flatnonzero(chosen & ~is_odd).astype(np.uint32)
        found = [self._matcher.find_in_pieces(names.data, *bounds(names, plain), DecodeMode.UTF8, budget)]
        for document in np.flatnonzero(chosen & is_odd).astype(np.uint32):
            if budget.is_spent():
                break
            one = np.array([document], np.uint32)
            mode = DecodeMode.ODD_UTF8 if is_utf8(self._segment.path(int(document))) else DecodeMode.BYTES
            found.append(self._matcher.find_in_pieces(names.data, *bounds(names, one), mode, budget))
        return spans_of(names, *merge_spans(found), is_name=True)

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        documents = np.flatnonzero(mask).astype(np.uint32) if self._matcher.can_be_empty else NOTHING
        is_utf8_name = [is_utf8(self._segment.path(int(document))) for document in documents]
        # An odd name is rare, so it is decoded here rather than marked at build time.
        modes = np.where(np.array(is_utf8_name, np.bool_), 1, 2).astype(np.uint8)
        return _filter_admitting(self._matcher, self._segment.names, documents, modes, budget)


class SymbolSite(ContentSite):
    """An atom in symbol names. Those are part of the content, so the content's candidates contain them."""

    def find(self, mask: Mask, budget: Budget) -> Spans:
        content, symbols = self._segment.content, self._segment.symbols
        chosen = self._symbols(mask)
        starts = symbols.starts[chosen]
        ends = starts + symbols.lengths[chosen]
        modes = _modes(self._segment, documents_of(content.starts, freeze(starts)))
        found = [
            self._matcher.find_in_pieces(content.data, starts[modes == i], ends[modes == i], mode, budget)
            for i, mode in enumerate(_MODES)
        ]
        return spans_of(content, *merge_spans(found))

    def admits(self, mask: Mask, budget: Budget) -> Mask:
        """An empty match is possible in every symbol name, so a document with symbols is enough."""
        content, symbols = self._segment.content, self._segment.symbols
        admitted = np.zeros(len(mask), np.bool_)
        if not self._matcher.can_be_empty:
            return admitted
        chosen = self._symbols(mask)
        starts, ends = symbols.starts[chosen], symbols.starts[chosen] + symbols.lengths[chosen]
        owners = documents_of(content.starts, freeze(starts))
        view = content.data.data
        for owner, start, end, mode in zip(
            owners.tolist(), starts.tolist(), ends.tolist(), _modes(self._segment, owners).tolist(), strict=True
        ):
            if budget.is_spent():
                break
            if not admitted[owner]:
                admitted[owner] = self._matcher.admits(view[start:end], _MODES[mode])
        return admitted

    def _symbols(self, mask: Mask) -> npt.NDArray[np.int64]:
        """The symbols that begin in candidate blocks; in documents with cut lines a name can span two blocks."""
        content = self._segment.content
        is_whole = self._segment.table.traits & Trait.CUT_LINE > 0
        is_whole[self.candidates.documents] = True
        blocks = self.candidates.blocks[(mask & ~is_whole)[content.block_docs[self.candidates.blocks]]]
        starts, ends = bounds(content, np.flatnonzero(mask & is_whole).astype(np.uint32))
        starts = np.concatenate([content.block_starts[blocks], starts])
        ends = np.concatenate([content.block_starts[blocks.astype(np.int64) + 1], ends])
        # Blocks and whole documents are two ascending lists; the kernels that follow need one.
        order = np.argsort(starts, kind="stable")
        firsts = np.searchsorted(self._segment.symbols.starts, starts[order])
        lasts = np.searchsorted(self._segment.symbols.starts, ends[order])
        counts = lasts - firsts
        # The ranges from `firsts` to `lasts`, concatenated without a loop: a segment can have a million symbols.
        return np.repeat(lasts - np.cumsum(counts), counts) + np.arange(counts.sum())


_MODES = (DecodeMode.UTF8, DecodeMode.ODD_UTF8, DecodeMode.BYTES)


def _filter_admitting(matcher: AtomMatcher, text: Text, documents: U32, modes: U8, budget: Budget) -> Mask:
    mask = np.zeros(text.documents, np.bool_)
    view = text.data.data
    starts, ends = bounds(text, documents)
    for document, start, end, mode in zip(
        documents.tolist(), starts.tolist(), ends.tolist(), modes.tolist(), strict=True
    ):
        if budget.is_spent():
            break
        mask[document] = matcher.admits(view[start:end], _MODES[mode])
    return mask


def _modes(segment: Segment, documents: U32) -> U8:
    """The decode mode of each document, as a position in _MODES."""
    traits = segment.table.traits[documents]
    modes = np.where(traits & Trait.ODD_FOLD > 0, 1, 0)
    return np.where(traits & Trait.INVALID_UTF8 > 0, 2, modes).astype(np.uint8)


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
