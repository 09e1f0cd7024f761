"""The best files of a search; of the others only counts are kept."""

import itertools
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import F64, U32
from argosy.search.index.index import Index
from argosy.search.kernels.selection import best_of
from argosy.search.match.spans import NOTHING, Hits


@dataclass(frozen=True, slots=True, eq=False)
class Hit:
    """A file that can be shown, with its matches in the content or else in the name."""

    score: float
    index: Index
    part: int
    document: int
    starts: U32
    ends: U32
    boosts: npt.NDArray[np.float64] | None
    is_name: bool
    atoms: int = 1  # number of atoms of the query found in it

    @property
    def match_count(self) -> int:
        return max(len(self.starts), 1)  # a file without spans matches by its whole name


class HitBatch(Protocol):
    """A batch of files that can create the hit of each."""

    def hit(self, place: int, score: float) -> Hit: ...


class TopK:
    """The `size` best hits; 0 keeps all.

    Entries are a score, a batch and a position in it; `Hit` objects are created only in `best()`, for fifty files
    instead of thousands.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: list[tuple[float, HitBatch, int]] = []

    def add(self, batch: HitBatch, scores: F64) -> None:
        """Adds the files of a batch by their scores; a file with NaN is skipped."""
        order = best_of(scores, self._size)
        if self._size and len(self._entries) >= self._size:
            # Equal scores lose against earlier ones, so only better ones can enter.
            order = order[scores[order] > self._entries[-1][0]]
        best = zip(scores[order].tolist(), itertools.repeat(batch), order.tolist())
        if self._entries:
            self._entries.extend(best)
            self._trim()
        else:
            self._entries = list(best)

    def merge(self, other: "TopK") -> None:
        # Copied, because this list is extended in place.
        if not self._entries:
            self._entries = list(other._entries)
        elif other._entries:
            self._entries.extend(other._entries)
            self._trim()

    def _trim(self) -> None:
        self._entries.sort(key=_score, reverse=True)  # stable: equal scores stay in order
        if self._size:
            del self._entries[self._size :]

    def best(self) -> list[Hit]:
        return [batch.hit(place, score) for score, batch, place in self._entries]


@dataclass(frozen=True, slots=True, eq=False)
class PartHits:
    """The hits of a batch in one part of an index."""

    index: Index
    part: int
    hits: Hits

    def hit(self, place: int, score: float) -> Hit:
        hits = self.hits
        wanted = hits.documents[place]
        document, atoms = int(wanted), int(hits.atoms[place])
        for marks, is_name in ((hits.content, False), (hits.names, True)):
            # Usually all matches are in the content, and both are one array.
            at = place if marks.documents is hits.documents else int(marks.documents.searchsorted(wanted))
            if at < len(marks.documents) and marks.documents[at] == document:
                first, last = int(marks.firsts[at]), int(marks.firsts[at + 1])
                boosts = None if marks.boosts is None else marks.boosts[first:last]
                starts, ends = marks.starts[first:last], marks.ends[first:last]
                return Hit(score, self.index, self.part, document, starts, ends, boosts, is_name, atoms)
        return Hit(score, self.index, self.part, document, NOTHING, NOTHING, None, True, atoms)


_score = itemgetter(0)
