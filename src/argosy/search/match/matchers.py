r"""The interface of text atom matchers, and the two matchers that do without RE2: for a literal and for a few of them.

A matcher is created once per query and used on all segments by several threads; it has no state between calls.
`candidates` selects blocks by their postings, `find` reads those blocks.

A pattern that is a small set of literals, such as `todo|fixme`, `\bfoo\b` and `^#include`, is searched as literals. All
occurrences of all of them are found, overlaps included, because one that fails its assertions must not hide the next.
Then the first in RE2's order wins, and occurrences that overlap it are dropped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from argosy.search.arrays import I64, U8, U16, U32, freeze
from argosy.search.index.index import Segment, Text, Trait
from argosy.search.kernels.scan import ranges_of, tally_byte
from argosy.search.kernels.selection import blocks_within, mark_documents
from argosy.search.kernels.spans import without_overlaps
from argosy.search.kernels.trigrams import CLASSES
from argosy.search.match.expression import DecodeMode, Expression, find_in_pieces, find_one_by_one
from argosy.search.match.limits import Budget
from argosy.search.match.needle import NO_KEYS, Needle, blocks_with_all, find_each, keys_without
from argosy.search.match.spans import NOTHING, Mask, Spans, merge_spans, spans_of
from argosy.search.regex.analysis import LiteralSet
from argosy.search.regex.tree import AssertionKind

# U+212A (Kelvin sign) folds to k and U+017F (long s) to s: only for these letters do the bytes of a literal not decide.
_BEYOND_ASCII = re.compile(rb"[ks]")
BEYOND_ASCII_CLASSES: U16 = freeze(CLASSES[list(b"ks")].astype(np.uint16))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Where an atom can match in a segment: single blocks, and documents that must be matched as a whole."""

    blocks: U32
    documents: U32

    @property
    def is_empty(self) -> bool:
        return not (len(self.blocks) or len(self.documents))

    def mask(self, text: Text) -> Mask | None:
        """The documents with candidates; None if there are none."""
        if self.is_empty:
            return None
        mask = np.zeros(text.documents, np.bool_)
        mark_documents(freeze(self.blocks), text.block_docs, mask)
        mask[self.documents] = True
        return mask

    def within(self, text: Text, mask: Mask) -> Self:
        """The candidates in documents of the mask."""
        blocks = blocks_within(freeze(self.blocks), text.block_docs, mask)
        return replace(self, blocks=blocks, documents=self.documents[mask[self.documents]])


@dataclass(frozen=True, slots=True, eq=False)
class RequiredTrigrams:
    """The trigrams of a literal that every match contains."""

    keys: I64
    odd_traits: int = 0  # of documents in which letters beyond ASCII can stand for its letters
    free_traits: int = 0  # of documents that can match without it


class AtomMatcher(Protocol):
    """Matches one atom. An atom that can match empty text also selects documents without spans (`admits`)."""

    @property
    def can_be_empty(self) -> bool: ...

    @property
    def keys(self) -> I64:
        """All trigrams that can be looked up in a segment, for statistics."""
        ...

    @property
    def required_trigrams(self) -> Sequence[RequiredTrigrams]:
        """Trigrams without which a segment has no match."""
        ...

    @property
    def is_regex(self) -> bool:
        """Whether RE2 reads every candidate."""
        ...

    def candidates(self, segment: Segment) -> Candidates: ...

    def find(self, segment: Segment, candidates: Candidates, mask: Mask, budget: Budget) -> Spans:
        """The matches in the content of candidates inside the mask."""
        ...

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget) -> tuple[U32, U32]:
        """The matches inside short separate texts: file names, symbol names."""
        ...

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> tuple[Mask, int] | None:
        """The documents with a match and the number of matches, if counting is faster than finding."""
        ...

    def admits(self, data: memoryview, mode: DecodeMode) -> bool:
        """Whether a text has a match, possibly empty."""
        ...


class LiteralMatcher:
    """Matches a text without newlines: case-sensitive or, if it is ASCII, ignoring case."""

    can_be_empty = is_regex = False

    def __init__(self, text: bytes, *, is_folded: bool) -> None:
        self.needle = Needle(text, is_folded=is_folded)
        self._meets_odd_folds = is_folded and _BEYOND_ASCII.search(self.needle.text) is not None
        self.odd_traits = Trait.ODD_FOLD if self._meets_odd_folds else 0  # of documents that its bytes do not decide

    @cached_property
    def _expression(self) -> Expression:
        return Expression.of_text(self.needle.text.decode(), is_case_sensitive=False)

    @property
    def keys(self) -> I64:
        return self.needle.lookups

    @property
    def required_trigrams(self) -> Sequence[RequiredTrigrams]:
        return [RequiredTrigrams(self.needle.keys, self.odd_traits)] if len(self.needle.keys) else []

    @cached_property
    def odd_keys(self) -> I64:
        """The keys that also occur if letters beyond ASCII stand for its letters."""
        return keys_without(BEYOND_ASCII_CLASSES.tolist(), self.needle.keys) if self._meets_odd_folds else NO_KEYS

    def candidates(self, segment: Segment) -> Candidates:
        blocks = self.needle.blocks(segment.postings, segment.content.blocks)
        # Nearly no segment has such documents.
        if not segment.traits & self.odd_traits:
            return Candidates(blocks, NOTHING)
        odd = self.odd_documents(segment)
        # Documents matched as a whole are not matched by block as well, or their matches would count twice.
        plain = blocks[~np.isin(segment.content.block_docs[blocks], odd)] if len(odd) else blocks
        return Candidates(plain, odd)

    def odd_documents(self, segment: Segment) -> U32:
        """The documents in which letters beyond ASCII can stand for its letters: those with all other keys."""
        if not segment.odd_folds:
            return NOTHING
        if len(self.odd_keys) == 0:
            return np.array(segment.odd_folds, np.uint32)
        blocks = blocks_with_all(self.odd_keys, segment.postings, segment.content.blocks)
        if len(blocks) == 0:
            return NOTHING
        return np.array(sorted(set(segment.content.block_docs[blocks].tolist()) & set(segment.odd_folds)), np.uint32)

    def find(self, segment: Segment, candidates: Candidates, mask: Mask, budget: Budget) -> Spans:
        text = segment.content
        blocks = blocks_within(freeze(candidates.blocks), text.block_docs, mask)
        starts = self.needle.find(text.data, *ranges_of(text.block_starts, text.block_docs, freeze(blocks)), budget)
        found = [(starts, starts + np.uint32(len(self.needle.text)))]
        if len(candidates.documents):
            whole = candidates.documents[mask[candidates.documents]]
            starts, ends = bounds(text, whole)
            found.append(find_one_by_one(self._expression, text.data, starts, ends, DecodeMode.ODD_UTF8, budget))
        return spans_of(text, *merge_spans(found))

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget) -> tuple[U32, U32]:
        if self._meets_odd_folds and mode is DecodeMode.ODD_UTF8:
            return find_in_pieces(self._expression, data, starts, ends, mode, budget)
        size = np.uint32(len(self.needle.text))
        fits = ends - starts >= size
        lasts = ends[fits] - size + np.uint32(1)  # so that no match extends beyond its piece
        found = self.needle.find(data, starts[fits], lasts, budget)
        return found, found + size

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> tuple[Mask, int] | None:
        """Counts a single-byte literal: it is everywhere, and recording positions would take longer."""
        if len(self.needle.text) > 1 or len(candidates.documents):
            return None
        text = segment.content
        starts, ends = bounds(text, np.flatnonzero(mask).astype(np.uint32))
        seen = np.zeros(text.documents, np.uint8)
        count = tally_byte(
            text.data, freeze(starts), freeze(ends), self.needle.pattern[0], self.needle.folds[0], text.starts, seen
        )
        return seen > 0, count

    def admits(self, data: memoryview, mode: DecodeMode) -> bool:
        return self._expression.matches(data, mode)


def bounds(text: Text, documents: U32) -> tuple[U32, U32]:
    """The starts and ends of these documents."""
    return text.starts[documents], text.starts[documents.astype(np.int64) + 1] - np.uint32(1)


_IS_WORD = np.zeros(256, np.bool_)
_IS_WORD[list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] = True
_IS_LINE_EDGE = np.zeros(256, np.bool_)
_IS_LINE_EDGE[[0, 10]] = True  # a NUL follows every document


class AlternationMatcher:
    """Matches a set of literals. `expression` is the same pattern, for documents that bytes do not decide."""

    can_be_empty = is_regex = False

    def __init__(self, texts: LiteralSet, expression: Expression) -> None:
        self._expression = expression
        self._before = texts.before
        self._after = texts.after
        is_folded = not expression.is_case_sensitive
        self._needles = [Needle(text.encode(), is_folded=is_folded) for text in texts.texts]

    @cached_property
    def keys(self) -> I64:
        return freeze(np.concatenate([needle.lookups for needle in self._needles]))

    @property
    def required_trigrams(self) -> Sequence[RequiredTrigrams]:
        # Of several literals none is required.
        if len(self._needles) > 1 or len(self._needles[0].keys) == 0:
            return []
        # Where letters fold oddly, the literal need not occur in its ASCII form.
        free = 0 if self._expression.is_case_sensitive else Trait.ODD_FOLD
        return [RequiredTrigrams(self._needles[0].keys, free_traits=free)]

    def candidates(self, segment: Segment) -> Candidates:
        content, traits = segment.content, segment.table.traits
        if len(self._needles) == 1:
            blocks = self._needles[0].blocks(segment.postings, content.blocks)
        else:
            mask = np.zeros(content.blocks, np.bool_)
            for needle in self._needles:
                mask[needle.blocks(segment.postings, content.blocks)] = True
            blocks = np.flatnonzero(mask).astype(np.uint32)
        if self._expression.is_case_sensitive or not segment.traits & Trait.ODD_FOLD:
            return Candidates(blocks, NOTHING)
        odd = traits & Trait.ODD_FOLD > 0
        return Candidates(blocks[~odd[content.block_docs[blocks]]], np.flatnonzero(odd).astype(np.uint32))

    def find(self, segment: Segment, candidates: Candidates, mask: Mask, budget: Budget) -> Spans:
        content = segment.content
        blocks = blocks_within(freeze(candidates.blocks), content.block_docs, mask)
        found = [self._find(content.data, *ranges_of(content.block_starts, content.block_docs, freeze(blocks)), budget)]
        odd = candidates.documents[mask[candidates.documents]]
        if len(odd):
            found.append(
                find_one_by_one(self._expression, content.data, *bounds(content, odd), DecodeMode.ODD_UTF8, budget)
            )
        return spans_of(content, *merge_spans(found))

    def _find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> tuple[U32, U32]:
        places = find_each(self._needles, data, starts, ends, budget, with_overlaps=True)
        begins = np.concatenate(places)
        stops = begins + np.repeat([len(needle.text) for needle in self._needles], [len(at) for at in places])
        stops = stops.astype(np.uint32)
        good = _holds(self._before, data, begins) & _holds(self._after, data, stops)
        begins, stops = begins[good], stops[good]
        if len(self._needles) > 1:
            order = np.argsort(begins, kind="stable")  # stable: literals were searched in RE2's order
            begins, stops = begins[order], stops[order]
        keep = without_overlaps(freeze(begins), freeze(stops))
        return begins[keep], stops[keep]

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget) -> tuple[U32, U32]:
        return find_in_pieces(self._expression, data, starts, ends, mode, budget)

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> None:
        return None

    def admits(self, data: memoryview, mode: DecodeMode) -> bool:
        return self._expression.matches(data, mode)


def _holds(place: AssertionKind | None, data: U8, at: U32) -> Mask:
    """Whether the assertion holds at each position. Positions are inside the data, which ends with a NUL."""
    if place is None:
        return np.ones(len(at), np.bool_)
    here = data[at]
    # Before the first byte stands a NUL, as after every document: an edge of a line, and no part of a word.
    before = np.where(at > 0, data[np.maximum(at, 1) - np.uint32(1)], np.uint8(0))
    if place is AssertionKind.WORD_BOUNDARY:
        is_boundary: Mask = _IS_WORD[before] != _IS_WORD[here]
        return is_boundary
    return _IS_LINE_EDGE[here if place is AssertionKind.LINE_END else before]
