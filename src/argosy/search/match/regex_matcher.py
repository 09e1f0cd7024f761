"""Matches a regular expression without running RE2 over all text.

The required text of the pattern (`regex/prefilter.py`) selects blocks by their trigrams. In those, RE2 reads only the
lines around the rarest required text, plus as many neighbours as a match can span. If the span has no bound, or the
document is not plain text, RE2 reads the whole document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from argosy.search.arrays import I64, U8, U32, freeze
from argosy.search.index.index import Segment, Text, Trait
from argosy.search.kernels.lines import lines_around
from argosy.search.kernels.scan import ranges_of
from argosy.search.kernels.selection import blocks_within
from argosy.search.match.expression import DecodeMode, Expression, find_in_pieces, find_one_by_one
from argosy.search.match.limits import Budget
from argosy.search.match.matchers import Candidates, RequiredTrigrams, bounds
from argosy.search.match.needle import NO_KEYS
from argosy.search.match.required_text import (
    RequiredByteRun,
    RequiredLiteral,
    RequiredText,
    required_texts,
    window_blocks,
    windows,
)
from argosy.search.match.spans import NOTHING, Mask, Spans, merge_spans, spans_of

# Text per RE2 call: adapted to take FAST_S to SLOW_S seconds, so that limits are checked in time.
STEP_BLOCKS_MIN, STEP_BLOCKS_MAX = 16, 8192
FAST_S, SLOW_S = 0.003, 0.008
CAREFUL_MAX = 16  # documents evaluated one by one, in Python; with more, masks over all documents are used
FEW_BLOCKS = 256  # about a megabyte: a quarter of a millisecond to scan


@dataclass(frozen=True, slots=True, eq=False)
class RegexCandidates(Candidates):
    """With the required text that is rarest in this segment; None if there is none."""

    required: RequiredText | None


class RegexMatcher:
    """Matches one regular expression."""

    is_regex = True

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._required = required_texts(expression.prefilter)
        # Keys of windows select blocks but have no position to read lines around, so they are the second choice.
        self._windows = windows(list(expression.prefilter.runs)) if not self._required else []
        # With an anchor such as `\A`, the start of a line copied to the buffer would pass for the start of the text.
        self._goes_by_lines = expression.line_span is not None and not expression.has_text_anchors

    @property
    def can_be_empty(self) -> bool:
        return self._expression.can_be_empty

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> None:
        return None

    def admits(self, data: memoryview, mode: DecodeMode) -> bool:
        return self._expression.matches(data, mode)

    @cached_property
    def keys(self) -> I64:
        found = [required.keys for required in self._required if self._is_needed(required)] + self._windows
        return freeze(np.concatenate([NO_KEYS, *found]))

    @cached_property
    def required_trigrams(self) -> Sequence[RequiredTrigrams]:
        only = [required.only for required in self._required if isinstance(required, RequiredLiteral)]
        return [
            RequiredTrigrams(needle.keys, free_traits=self._forced_traits)
            for needle in only
            if needle and len(needle.keys)
        ]

    def candidates(self, segment: Segment) -> RegexCandidates:
        # A match within one line lies in one block, so all required texts must be in that block: the most selective
        # case.
        if self._expression.line_span == 0 and self._goes_by_lines:
            careful = self._careful(segment)
            if len(careful) <= CAREFUL_MAX:
                return self._line_candidates(segment, careful)
        content, traits = segment.content, segment.table.traits
        by_block, by_document, required = self._narrow(segment)
        needs_care = self._needs_care(traits, has_required=required is not None)
        by_document |= traits & self._forced_traits > 0
        blocks = by_block & (by_document & ~needs_care)[content.block_docs]
        whole = by_document & needs_care
        return RegexCandidates(
            np.flatnonzero(blocks).astype(np.uint32), np.flatnonzero(whole).astype(np.uint32), required
        )

    def _careful(self, segment: Segment) -> U32:
        """The documents in which single blocks do not decide; usually none."""
        # The union of all traits, which is nearly always enough to know that no document needs care.
        if not segment.traits & self._care:
            return NOTHING
        return np.flatnonzero(segment.table.traits & self._care).astype(np.uint32)

    def _line_candidates(self, segment: Segment, careful: U32) -> RegexCandidates:
        """The blocks that have all that a match within one line requires, and such careful documents."""
        content = segment.content
        spans = [_blocks_of(content, document) for document in careful]
        lacking = [False] * len(spans)
        mask = np.ones(content.blocks, np.bool_)
        rarest, fewest = None, content.blocks + 1
        for block_mask, required in self._masks_of_lines(segment, mask):
            count = int(np.count_nonzero(block_mask))
            if required is not None and count < fewest:
                rarest, fewest = required, count
            # A careful document can match across its blocks, so it is ruled out only if none of them has a required
            # text.
            lacking = [known or not block_mask[span].any() for known, span in zip(lacking, spans, strict=True)]
            mask &= block_mask
            if not mask.any():
                break
        if len(careful) == 0:
            return RegexCandidates(np.flatnonzero(mask).astype(np.uint32), NOTHING, rarest)
        for span in spans:
            # These documents are matched as a whole, so their blocks must not be searched again.
            mask[span] = False
        forced = self._forced_traits & segment.table.traits[careful] > 0
        documents = careful[forced | ~np.array(lacking, np.bool_)]
        return RegexCandidates(np.flatnonzero(mask).astype(np.uint32), documents, rarest)

    def _masks_of_lines(self, segment: Segment, mask: Mask) -> Iterator[tuple[Mask, RequiredText | None]]:
        """The blocks of each required text, cheapest lookup first.

        A run has many keys, so it is looked up only while many blocks are left: scanning a few is faster.
        """
        for required in self._required:
            if self._is_needed(required) or np.count_nonzero(mask) > FEW_BLOCKS:
                yield required.blocks(segment), required
        for keys in self._windows:
            yield window_blocks(keys, segment), None

    def _is_needed(self, required: RequiredText) -> bool:
        return not isinstance(required, RequiredByteRun) or len(self._required) == 1

    @cached_property
    def _forced_traits(self) -> int:
        """The traits of documents that can match without the required text."""
        prefilter = self._expression.prefilter
        return (0 if prefilter.holds_for_bytes else Trait.INVALID_UTF8) | (
            Trait.ODD_FOLD if prefilter.has_odd_folds else 0
        )

    def _narrow(self, segment: Segment) -> tuple[Mask, Mask, RequiredText | None]:
        """The blocks where matches, or at least their required texts, can be; the documents with all required texts."""
        content = segment.content
        by_block = np.ones(content.blocks, np.bool_)
        by_document = np.ones(content.documents, np.bool_)
        rarest, fewest, its_blocks = None, content.blocks + 1, by_block
        for mask, required in self._masks(segment):
            by_block = by_block & mask
            in_documents = np.zeros(content.documents, np.bool_)
            in_documents[content.block_docs[mask]] = True
            by_document &= in_documents
            count = int(np.count_nonzero(mask))
            if required is not None and count < fewest:
                rarest, fewest, its_blocks = required, count, mask
            if count == 0:
                break
        # A match that spans lines can span blocks, and then no single block has all required texts: only the rarest one
        # selects blocks, and all of them together select documents.
        return by_block if self._expression.line_span == 0 else its_blocks, by_document, rarest

    def _masks(self, segment: Segment) -> list[tuple[Mask, RequiredText | None]]:
        if self._required:
            return [(required.blocks(segment), required) for required in self._required]
        return [(window_blocks(keys, segment), None) for keys in self._windows]

    def _needs_care(self, traits: U8, *, has_required: bool) -> Mask:
        """The documents that cannot be searched by block."""
        # Without required text there is nothing to read lines around, and a match can span any of them.
        if not self._goes_by_lines or (self._expression.line_span and not has_required):
            return np.ones(len(traits), np.bool_)
        return traits & self._care > 0

    @cached_property
    def _care(self) -> int:
        """The traits of documents in which single blocks do not decide."""
        return Trait.INVALID_UTF8 | Trait.CUT_LINE | (Trait.ODD_FOLD if self._expression.prefilter.has_odd_folds else 0)

    def find(self, segment: Segment, candidates: Candidates, mask: Mask, budget: Budget) -> Spans:
        content = segment.content
        assert isinstance(candidates, RegexCandidates)
        blocks = blocks_within(freeze(candidates.blocks), content.block_docs, mask)
        found = self._find_in_blocks(content, blocks, candidates.required, budget)
        documents = candidates.documents[mask[candidates.documents]]
        if len(documents):
            found.extend(self._find_in_documents(segment, documents, candidates.required, budget))
        return spans_of(content, *merge_spans(found))

    def _find_in_blocks(
        self, text: Text, blocks: U32, required: RequiredText | None, budget: Budget
    ) -> list[tuple[U32, U32]]:
        found: list[tuple[U32, U32]] = []
        at, step = 0, 4 * STEP_BLOCKS_MIN
        while at < len(blocks) and not budget.is_spent():
            began = budget.now()
            starts, ends = ranges_of(text.block_starts, text.block_docs, freeze(blocks[at : at + step]))
            found.append(self._find_by_lines(text.data, starts, ends, required, budget))
            at += step
            took_s = budget.now() - began
            # The cost of RE2 per block varies by orders of magnitude with the pattern and the text.
            if took_s < FAST_S:
                step = min(2 * step, STEP_BLOCKS_MAX)
            elif took_s > SLOW_S:
                step = max(step // 2, STEP_BLOCKS_MIN)
        return found

    def _find_by_lines(
        self, data: U8, starts: U32, ends: U32, required: RequiredText | None, budget: Budget
    ) -> tuple[U32, U32]:
        """The matches in ranges of whole lines: in all of them, or in the lines around the required text."""
        if required is not None:
            places = required.find(data, starts, ends, budget)
            starts, ends = lines_around(data, freeze(places), self._expression.line_span or 0)
        return find_in_pieces(self._expression, data, starts, ends, DecodeMode.UTF8, budget)

    def _find_in_documents(
        self, segment: Segment, documents: U32, required: RequiredText | None, budget: Budget
    ) -> list[tuple[U32, U32]]:
        content, traits = segment.content, segment.table.traits[documents]
        is_bytes = traits & Trait.INVALID_UTF8 > 0
        # Plain but for long lines: a block can end inside a line, so the document is searched as a whole, by lines.
        by_lines = (traits & ~np.uint8(Trait.ODD_NAME) == Trait.CUT_LINE) & self._goes_by_lines & (required is not None)
        found = [
            find_one_by_one(self._expression, content.data, *bounds(content, chosen), mode, budget)
            for chosen, mode in (
                (documents[~is_bytes & ~by_lines], DecodeMode.UTF8),
                (documents[is_bytes], DecodeMode.BYTES),
            )
        ]
        if by_lines.any():
            found.append(self._find_by_lines(content.data, *bounds(content, documents[by_lines]), required, budget))
        return found

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget) -> tuple[U32, U32]:
        return find_in_pieces(self._expression, data, starts, ends, mode, budget)


def _blocks_of(text: Text, document: np.uint32) -> slice:
    first, last = text.block_docs.searchsorted([document, document + np.uint32(1)]).tolist()
    return slice(first, last)
