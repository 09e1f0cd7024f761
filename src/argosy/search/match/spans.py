"""Matches as arrays: start and end in a segment's text, and document; and the matches of a batch by document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import U32, freeze
from argosy.search.index.index import Text
from argosy.search.kernels.spans import documents_of, without_overlaps

Mask: TypeAlias = npt.NDArray[np.bool_]

NOTHING: U32 = freeze(np.empty(0, np.uint32))


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The matches of an atom in content or file names, ascending. A boost multiplies their points."""

    starts: U32
    ends: U32
    documents: U32
    is_name: bool = False
    boost: float = 1.0

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, mask: Mask) -> "Spans":
        """The spans in documents of the mask."""
        keep = mask[self.documents]
        # The common case, without copies.
        if keep.all():
            return self
        return Spans(self.starts[keep], self.ends[keep], self.documents[keep], self.is_name, self.boost)

    def mask(self, documents: int) -> Mask:
        """The documents with spans."""
        mask = np.zeros(documents, np.bool_)
        mask[self.documents] = True
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class QueryMatches:
    """The documents that satisfy a node, and the spans of its atoms, which can be in other documents too."""

    mask: Mask
    spans: tuple[Spans, ...] = ()
    matches: int | None = None  # if counted without spans


def spans_of(text: Text, starts: U32, ends: U32, *, is_name: bool = False) -> Spans:
    return Spans(starts, ends, documents_of(text.starts, freeze(starts)), is_name)


def merge_spans(pairs: Sequence[tuple[U32, U32]]) -> tuple[U32, U32]:
    """Merges lists of (starts, ends) that do not overlap, in ascending order."""
    pairs = [pair for pair in pairs if len(pair[0])]
    if not pairs:
        return NOTHING, NOTHING
    if len(pairs) == 1:
        return pairs[0]
    starts = np.concatenate([pair[0] for pair in pairs])
    ends = np.concatenate([pair[1] for pair in pairs])
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order]


@dataclass(frozen=True, slots=True, eq=False)
class SpanGroups:
    """Spans in content or names, ascending and without overlaps, grouped by document."""

    starts: U32
    ends: U32
    boosts: npt.NDArray[np.float64] | None  # None: all are 1
    documents: U32  # with spans, ascending
    firsts: npt.NDArray[np.int64]  # documents + 1: first span of each

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.diff(self.firsts)

    def owners(self) -> U32:
        """The document of each span."""
        return np.repeat(self.documents, self.counts)


NO_SPANS = SpanGroups(NOTHING, NOTHING, None, NOTHING, freeze(np.zeros(1, np.int64)))


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """The documents of a batch that satisfy the query. One without spans matches by its name as a whole."""

    documents: U32
    content: SpanGroups
    names: SpanGroups
    atoms: npt.NDArray[np.int64]  # parallel to documents: number of atoms found
    known_matches: int | None = None  # if counted without spans

    @property
    def matches(self) -> int:
        if self.known_matches is not None:
            return self.known_matches
        # A document without spans counts as one match.
        alone = len(self.documents) - len(self.content.documents) - len(self.names.documents)
        return len(self.content.starts) + len(self.names.starts) + alone


def hits_of(found: QueryMatches, *, names_only: bool) -> Hits:
    """The hits of a batch. Where the content matches, matches in the name are dropped."""
    size = len(found.mask)
    spans = [each.within(found.mask) for each in found.spans]
    atoms = np.zeros(size, np.int64)
    for each in spans:
        atoms += each.mask(size)
    content = group_spans([] if names_only else [each for each in spans if not each.is_name])
    # As in zoekt, a match in the name adds nothing where the content matches.
    in_names = found.mask.copy()
    in_names[content.documents] = False
    names = group_spans([each.within(in_names) for each in spans if each.is_name])
    documents = np.flatnonzero(found.mask).astype(np.uint32)
    return Hits(documents, content, names, atoms[documents], found.matches)


def group_spans(several: Sequence[Spans]) -> SpanGroups:
    several = [spans for spans in several if len(spans)]
    if not several:
        return NO_SPANS
    if len(several) == 1:
        starts, ends, owners = several[0].starts, several[0].ends, several[0].documents
        boosts = None if several[0].boost == 1 else np.full(len(starts), several[0].boost)
    else:
        starts, ends, owners, boosts = _merge(several)
    is_first = np.empty(len(owners), np.bool_)
    is_first[0] = True
    np.not_equal(owners[1:], owners[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    return SpanGroups(starts, ends, boosts, owners[firsts], np.append(firsts, len(owners)))


def _merge(several: Sequence[Spans]) -> tuple[U32, U32, U32, npt.NDArray[np.float64] | None]:
    """Sorts all spans, longer first at the same start, and drops those that overlap an earlier one."""
    starts = np.concatenate([spans.starts for spans in several])
    ends = np.concatenate([spans.ends for spans in several])
    owners = np.concatenate([spans.documents for spans in several])
    # As in zoekt, so that of two atoms that match at one place the longer match is shown.
    order = np.lexsort((-ends.astype(np.int64), starts))
    starts, ends, owners = starts[order], ends[order], owners[order]
    keep = without_overlaps(freeze(starts), freeze(ends))
    boosts = None
    if any(spans.boost != 1 for spans in several):
        boosts = np.concatenate([np.full(len(spans), spans.boost) for spans in several])[order][keep]
    return starts[keep], ends[keep], owners[keep], boosts
