"""Matches as arrays: start and end in a segment's text, and document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import U32, freeze
from argosy.search.index.segment import Text
from argosy.search.kernels.spans import documents_of

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
        if keep.all():
            return self
        return Spans(self.starts[keep], self.ends[keep], self.documents[keep], self.is_name, self.boost)

    def mask(self, documents: int) -> Mask:
        """The documents with spans."""
        mask = np.zeros(documents, np.bool_)
        mask[self.documents] = True
        return mask


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
