"""What looks for one text atom: by its bytes where it is a literal, by RE2 where it is a pattern.

A finder is made once per query and used on every segment by several threads; it keeps nothing between calls. First the
postings say which blocks could hold a match (`candidates`), then those blocks are looked at (`find`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from argosy.search.index.segment import I64, U8, U16, U32, Segment, Text, Trait, frozen
from argosy.search.kernels.classes import CLASSES
from argosy.search.kernels.scan import ranges_of, tally_byte
from argosy.search.kernels.selecting import blocks_within, mark_documents
from argosy.search.match.budget import Budget
from argosy.search.match.expression import Expression, Manner
from argosy.search.match.needle import NO_KEYS, Needle, blocks_with_all, keys_without
from argosy.search.match.pieces import find_in_pieces, find_one_by_one
from argosy.search.match.spans import NOTHING, Mask, Spans, joined, spans_of

_BEYOND_ASCII = re.compile(rb"[ks]")  # U+212A folds to k, U+017F to s
BEYOND_ASCII_CLASSES: U16 = frozen(CLASSES[list(b"ks")].astype(np.uint16))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Where in a segment an atom may be found: in single blocks, and in documents that must be taken as wholes."""

    blocks: U32
    documents: U32

    @property
    def is_empty(self) -> bool:
        return not (len(self.blocks) or len(self.documents))

    def mask(self, text: Text) -> Mask | None:
        """The documents that have any; None if none has."""
        if self.is_empty:
            return None
        mask = np.zeros(text.documents, np.bool_)
        mark_documents(frozen(self.blocks), text.block_docs, mask)
        mask[self.documents] = True
        return mask

    def within(self, text: Text, mask: Mask) -> Self:
        """Those in documents of the mask."""
        blocks = blocks_within(frozen(self.blocks), text.block_docs, mask)
        return replace(self, blocks=blocks, documents=self.documents[mask[self.documents]])


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A literal that every match holds, by its trigrams."""

    keys: I64
    odd_traits: int = 0  # of documents whose letters beyond ASCII may be its letters
    free_traits: int = 0  # of documents that may match without it


class Finder(Protocol):
    """Looks for one atom. One that can match nothing at all selects documents it has no spans in (`admits`)."""

    @property
    def can_be_empty(self) -> bool: ...

    @property
    def keys(self) -> I64:
        """The trigrams that are looked up in a segment, if need be all of them."""
        ...

    @property
    def held(self) -> Sequence[Held]:
        """What rules out, all by itself, a segment that does not have it."""
        ...

    @property
    def is_regex(self) -> bool:
        """Whether RE2 looks at every candidate."""
        ...

    def candidates(self, segment: Segment) -> Candidates: ...

    def find(self, segment: Segment, candidates: Candidates, mask: Mask, budget: Budget) -> Spans:
        """The matches in the content of the candidates that the mask lets through."""
        ...

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, manner: Manner, budget: Budget) -> tuple[U32, U32]:
        """The matches inside short pieces of text, each taken for itself: names of files, names of symbols."""
        ...

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> tuple[Mask, int] | None:
        """The documents with a match and the number of matches, if that is quicker told than found."""
        ...

    def admits(self, data: memoryview, manner: Manner) -> bool:
        """Whether a text has a match, be it an empty one."""
        ...


class LiteralFinder:
    """A text without newline, exact or, if it is ASCII, up to case."""

    can_be_empty = is_regex = False

    def __init__(self, text: bytes, *, is_folded: bool) -> None:
        self.needle = Needle(text, is_folded=is_folded)
        self._meets_odd_folds = is_folded and _BEYOND_ASCII.search(self.needle.text) is not None
        self.odd_traits = Trait.ODD_FOLD if self._meets_odd_folds else 0  # of documents its bytes do not decide

    @cached_property
    def _expression(self) -> Expression:
        return Expression.of_text(self.needle.text.decode(), is_case_sensitive=False)

    @property
    def keys(self) -> I64:
        return self.needle.lookups

    @property
    def held(self) -> Sequence[Held]:
        return [Held(self.needle.keys, self.odd_traits)] if len(self.needle.keys) else []

    @cached_property
    def odd_keys(self) -> I64:
        """Those of its keys that hold wherever its letters are others beyond ASCII."""
        return keys_without(BEYOND_ASCII_CLASSES.tolist(), self.needle.keys) if self._meets_odd_folds else NO_KEYS

    def candidates(self, segment: Segment) -> Candidates:
        blocks = self.needle.blocks(segment.postings, segment.content.blocks)
        if not segment.traits & self.odd_traits:
            return Candidates(blocks, NOTHING)
        odd = self.odd_documents(segment)
        plain = blocks[~np.isin(segment.content.block_docs[blocks], odd)] if len(odd) else blocks
        return Candidates(plain, odd)

    def odd_documents(self, segment: Segment) -> U32:
        """The documents whose letters beyond ASCII may be its letters: where all that surrounds those letters is."""
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
        blocks = blocks_within(frozen(candidates.blocks), text.block_docs, mask)
        starts = self.needle.find(text.data, *ranges_of(text.block_starts, text.block_docs, frozen(blocks)), budget)
        found = [(starts, starts + np.uint32(len(self.needle.text)))]
        if len(candidates.documents):
            whole = candidates.documents[mask[candidates.documents]]
            found.append(find_one_by_one(self._expression, text.data, *bounds(text, whole), Manner.ODD_UTF8, budget))
        return spans_of(text, *joined(found))

    def find_in_pieces(self, data: U8, starts: U32, ends: U32, manner: Manner, budget: Budget) -> tuple[U32, U32]:
        if self._meets_odd_folds and manner is Manner.ODD_UTF8:
            return find_in_pieces(self._expression, data, starts, ends, manner, budget)
        size = np.uint32(len(self.needle.text))
        fits = ends - starts >= size
        lasts = ends[fits] - size + np.uint32(1)  # so that no match reaches out of its piece
        found = self.needle.find(data, starts[fits], lasts, budget)
        return found, found + size

    def tally(self, segment: Segment, candidates: Candidates, mask: Mask) -> tuple[Mask, int] | None:
        """One letter is everywhere: telling the places would take longer than counting them."""
        if len(self.needle.text) > 1 or len(candidates.documents):
            return None
        text = segment.content
        starts, ends = bounds(text, np.flatnonzero(mask).astype(np.uint32))
        seen = np.zeros(text.documents, np.uint8)
        count = tally_byte(
            text.data, frozen(starts), frozen(ends), self.needle.pattern[0], self.needle.folds[0], text.starts, seen
        )
        return seen > 0, count

    def admits(self, data: memoryview, manner: Manner) -> bool:
        return self._expression.matches(data, manner)


def bounds(text: Text, documents: U32) -> tuple[U32, U32]:
    """Where these documents begin and end."""
    return text.starts[documents], text.starts[documents.astype(np.int64) + 1] - np.uint32(1)
