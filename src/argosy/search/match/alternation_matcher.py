r"""Matches a pattern that is a small set of literals, such as `todo|fixme`, `\bfoo\b` and `^#include`, without RE2.

All occurrences of all literals are found, overlaps included, because one that fails its assertions must not hide the
next. Then the first in RE2's order wins, and occurrences that overlap it are dropped.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from argosy.search.arrays import I64, U8, U32, freeze
from argosy.search.index.segment import Segment, Trait
from argosy.search.kernels.scan import ranges_of
from argosy.search.kernels.selection import blocks_within
from argosy.search.kernels.spans import without_overlaps
from argosy.search.match.budget import Budget
from argosy.search.match.expression import DecodeMode, Expression
from argosy.search.match.matchers import Candidates, RequiredTrigrams, bounds
from argosy.search.match.needle import Needle, find_each
from argosy.search.match.pieces import find_in_pieces, find_one_by_one
from argosy.search.match.spans import NOTHING, Mask, Spans, merge_spans, spans_of
from argosy.search.regex.literal_set import LiteralSet
from argosy.search.regex.tree import AssertionKind

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
        if len(self._needles) > 1 or len(self._needles[0].keys) == 0:
            return []
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
    before = np.where(at > 0, data[np.maximum(at, 1) - np.uint32(1)], np.uint8(0))
    if place is AssertionKind.WORD_BOUNDARY:
        is_boundary: Mask = _IS_WORD[before] != _IS_WORD[here]
        return is_boundary
    return _IS_LINE_EDGE[here if place is AssertionKind.LINE_END else before]
