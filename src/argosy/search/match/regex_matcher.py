"""Looking for a regular expression without running it over everything.

What every match must hold (`regex/prefilter.py`) selects blocks by their trigrams; in those only the lines around
the rarest of it, the anchor, are handed to RE2, with as many neighbours as the pattern can reach over newlines. A
pattern that knows no bound, and a document that is not plain text, is matched as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from argosy.search.index.segment import I64, U8, U32, Segment, Text, Trait, frozen
from argosy.search.kernels.lines import lines_around
from argosy.search.kernels.scan import ranges_of
from argosy.search.kernels.selecting import blocks_within
from argosy.search.match.budget import Budget
from argosy.search.match.expression import Expression, Manner
from argosy.search.match.matchers import Candidates, Held, bounds
from argosy.search.match.needle import NO_KEYS
from argosy.search.match.pieces import find_in_pieces, find_one_by_one
from argosy.search.match.required_text import Anchor, ClauseAnchor, RunAnchor, anchors, window_blocks, windows
from argosy.search.match.spans import NOTHING, Mask, Spans, joined, spans_of

# Text handed to RE2 at once: what it gets through in about FAST_S to SLOW_S seconds, so that a bound is met in time.
STEP_BLOCKS_MIN, STEP_BLOCKS_MAX = 16, 8192
FAST_S, SLOW_S = 0.003, 0.008
CAREFUL_MAX = 16  # documents that are seen to one by one
FEW_BLOCKS = 256  # about a megabyte: a quarter of a millisecond to scan


@dataclass(frozen=True, slots=True, eq=False)
class RegexCandidates(Candidates):
    """With the anchor that is the rarest in this segment; None if there is none."""

    anchor: Anchor | None


class RegexFinder:
    """One regular expression."""

    is_regex = True

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._anchors = anchors(expression.prefilter)
        self._windows = windows(list(expression.prefilter.runs)) if not self._anchors else []
        self._goes_by_lines = expression.reach is not None and not expression.has_text_anchors

    @property
    def can_be_empty(self) -> bool:
        return self._expression.can_be_empty

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> None:
        return None

    def admits(self, data: memoryview, manner: Manner) -> bool:
        return self._expression.matches(data, manner)

    @cached_property
    def keys(self) -> I64:
        found = [anchor.keys for anchor in self._anchors if self._is_needed(anchor)] + self._windows
        return frozen(np.concatenate([NO_KEYS, *found]))

    @cached_property
    def held(self) -> Sequence[Held]:
        only = [anchor.only for anchor in self._anchors if isinstance(anchor, ClauseAnchor)]
        return [Held(needle.keys, free_traits=self._forced) for needle in only if needle and len(needle.keys)]

    def candidates(self, segment: Segment) -> RegexCandidates:
        if self._expression.reach == 0 and self._goes_by_lines:
            careful = self._careful(segment)
            if len(careful) <= CAREFUL_MAX:
                return self._line_candidates(segment, careful)
        content, traits = segment.content, segment.table.traits
        by_block, by_document, anchor = self._narrow(segment)
        needs_care = self._needs_care(traits, has_anchor=anchor is not None)
        by_document |= traits & self._forced > 0
        blocks = by_block & (by_document & ~needs_care)[content.block_docs]
        whole = by_document & needs_care
        return RegexCandidates(
            np.flatnonzero(blocks).astype(np.uint32), np.flatnonzero(whole).astype(np.uint32), anchor
        )

    def _careful(self, segment: Segment) -> U32:
        """The documents in which a block does not decide: hardly ever any."""
        if not segment.traits & self._care:
            return NOTHING
        return np.flatnonzero(segment.table.traits & self._care).astype(np.uint32)

    def _line_candidates(self, segment: Segment, careful: U32) -> RegexCandidates:
        """The blocks that hold everything a match in one line needs; of the careful documents, those that hold it."""
        content = segment.content
        spans = [_blocks_of(content, document) for document in careful]
        lacking = [False] * len(spans)
        mask = np.ones(content.blocks, np.bool_)
        rarest, fewest = None, content.blocks + 1
        for held, anchor in self._masks_of_lines(segment, mask):
            count = int(np.count_nonzero(held))
            if anchor is not None and count < fewest:
                rarest, fewest = anchor, count
            lacking = [known or not held[span].any() for known, span in zip(lacking, spans, strict=True)]
            mask &= held
            if not mask.any():
                break
        if len(careful) == 0:
            return RegexCandidates(np.flatnonzero(mask).astype(np.uint32), NOTHING, rarest)
        for span in spans:
            mask[span] = False
        forced = self._forced & segment.table.traits[careful] > 0
        documents = careful[forced | ~np.array(lacking, np.bool_)]
        return RegexCandidates(np.flatnonzero(mask).astype(np.uint32), documents, rarest)

    def _masks_of_lines(self, segment: Segment, mask: Mask) -> Iterator[tuple[Mask, Anchor | None]]:
        """What holds each anchor, the cheapest first. A run has many keys: soon it is quicker to look at the text."""
        for anchor in self._anchors:
            if self._is_needed(anchor) or np.count_nonzero(mask) > FEW_BLOCKS:
                yield anchor.blocks(segment), anchor
        for keys in self._windows:
            yield window_blocks(keys, segment), None

    def _is_needed(self, anchor: Anchor) -> bool:
        return not isinstance(anchor, RunAnchor) or len(self._anchors) == 1

    @cached_property
    def _forced(self) -> int:
        """The traits of documents that may match without what is looked for."""
        prefilter = self._expression.prefilter
        return (0 if prefilter.holds_for_bytes else Trait.INVALID_UTF8) | (
            Trait.ODD_FOLD if prefilter.has_odd_folds else 0
        )

    def _narrow(self, segment: Segment) -> tuple[Mask, Mask, Anchor | None]:
        """The blocks where matches, or at least their anchors, may be; the documents that hold all anchors."""
        content = segment.content
        by_block = np.ones(content.blocks, np.bool_)
        by_document = np.ones(content.documents, np.bool_)
        rarest, fewest, its_blocks = None, content.blocks + 1, by_block
        for mask, anchor in self._masks(segment):
            by_block = by_block & mask
            in_documents = np.zeros(content.documents, np.bool_)
            in_documents[content.block_docs[mask]] = True
            by_document &= in_documents
            count = int(np.count_nonzero(mask))
            if anchor is not None and count < fewest:
                rarest, fewest, its_blocks = anchor, count, mask
            if count == 0:
                break
        # A match over several lines may have its parts in several blocks.
        return by_block if self._expression.reach == 0 else its_blocks, by_document, rarest

    def _masks(self, segment: Segment) -> list[tuple[Mask, Anchor | None]]:
        if self._anchors:
            return [(anchor.blocks(segment), anchor) for anchor in self._anchors]
        return [(window_blocks(keys, segment), None) for keys in self._windows]

    def _needs_care(self, traits: U8, *, has_anchor: bool) -> Mask:
        """The documents that cannot be searched block by block."""
        if not self._goes_by_lines or (self._expression.reach and not has_anchor):
            return np.ones(len(traits), np.bool_)
        return traits & self._care > 0

    @cached_property
    def _care(self) -> int:
        """The traits of documents in which a block does not decide."""
        return Trait.INVALID_UTF8 | Trait.CUT_LINE | (Trait.ODD_FOLD if self._expression.prefilter.has_odd_folds else 0)

    def find(self, segment: Segment, candidates: Candidates, mask: Mask, budget: Budget) -> Spans:
        content = segment.content
        assert isinstance(candidates, RegexCandidates)
        blocks = blocks_within(frozen(candidates.blocks), content.block_docs, mask)
        found = self._find_in_blocks(content, blocks, candidates.anchor, budget)
        documents = candidates.documents[mask[candidates.documents]]
        if len(documents):
            found.extend(self._find_in_documents(segment, documents, candidates.anchor, budget))
        return spans_of(content, *joined(found))

    def _find_in_blocks(self, text: Text, blocks: U32, anchor: Anchor | None, budget: Budget) -> list[tuple[U32, U32]]:
        found: list[tuple[U32, U32]] = []
        at, step = 0, 4 * STEP_BLOCKS_MIN
        while at < len(blocks) and not budget.is_spent():
            began = budget.now()
            starts, ends = ranges_of(text.block_starts, text.block_docs, frozen(blocks[at : at + step]))
            found.append(self._find_by_lines(text.data, starts, ends, anchor, budget))
            at += step
            took_s = budget.now() - began
            if took_s < FAST_S:
                step = min(2 * step, STEP_BLOCKS_MAX)
            elif took_s > SLOW_S:
                step = max(step // 2, STEP_BLOCKS_MIN)
        return found

    def _find_by_lines(
        self, data: U8, starts: U32, ends: U32, anchor: Anchor | None, budget: Budget
    ) -> tuple[U32, U32]:
        """The matches in ranges of whole lines: in all of them, or in those around the anchor and within reach."""
        if anchor is not None:
            places = anchor.find(data, starts, ends, budget)
            starts, ends = lines_around(data, frozen(places), self._expression.reach or 0)
        return find_in_pieces(self._expression, data, starts, ends, Manner.UTF8, budget)

    def _find_in_documents(
        self, segment: Segment, documents: U32, anchor: Anchor | None, budget: Budget
    ) -> list[tuple[U32, U32]]:
        content, traits = segment.content, segment.table.traits[documents]
        is_bytes = traits & Trait.INVALID_UTF8 > 0
        # Plain but for its long lines, which are lines all the same.
        by_lines = (traits & ~np.uint8(Trait.ODD_NAME) == Trait.CUT_LINE) & self._goes_by_lines & (anchor is not None)
        found = [
            find_one_by_one(self._expression, content.data, *bounds(content, chosen), manner, budget)
            for chosen, manner in (
                (documents[~is_bytes & ~by_lines], Manner.UTF8),
                (documents[is_bytes], Manner.BYTES),
            )
        ]
        if by_lines.any():
            found.append(self._find_by_lines(content.data, *bounds(content, documents[by_lines]), anchor, budget))
        return found

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, manner: Manner, budget: Budget) -> tuple[U32, U32]:
        return find_in_pieces(self._expression, data, starts, ends, manner, budget)


def _blocks_of(text: Text, document: np.uint32) -> slice:
    first, last = text.block_docs.searchsorted([document, document + np.uint32(1)]).tolist()
    return slice(first, last)
