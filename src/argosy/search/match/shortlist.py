"""The best files so far; of the rest only numbers are kept."""

import itertools
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from argosy.search.index.index import Index
from argosy.search.index.segment import U32
from argosy.search.match.hits import Hits
from argosy.search.match.spans import NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class Hit:
    """A file that may be shown: its matches are in its content, or else in its name."""

    score: float
    index: Index
    part: int
    document: int
    starts: U32
    ends: U32
    boosts: npt.NDArray[np.float64] | None
    is_name: bool
    atoms: int = 1                      # of the query that were found in it

    @property
    def match_count(self) -> int:
        return max(len(self.starts), 1)         # a file without spans is there for its whole name


class Shortlist:
    """At most `size` hits, the best ones; 0 keeps all. They are told apart from their batch only when asked for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: list[tuple[float, _Batch, int]] = []

    def add(self, index: Index, part: int, hits: Hits, scores: npt.NDArray[np.float64]) -> None:
        batch = _Batch(index, part, hits)
        order = _best_of(scores, self._size)
        if self._size and len(self._entries) >= self._size:
            order = order[scores[order] > self._entries[-1][0]]
        self._entries.extend(zip(scores[order].tolist(), itertools.repeat(batch), order.tolist()))
        self._trim()

    def merge(self, other: "Shortlist") -> None:
        self._entries.extend(other._entries)
        self._trim()

    def _trim(self) -> None:
        self._entries.sort(key=_score, reverse=True)            # equals stay in their order
        if self._size:
            del self._entries[self._size :]

    def best(self) -> list[Hit]:
        return [_hit(batch, place, score) for score, batch, place in self._entries]


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    index: Index
    part: int
    hits: Hits


_score = itemgetter(0)


def _best_of(scores: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.int64]:
    """The places of the highest scores, the highest first, the earliest of equals; 0 is all of them."""
    if not 0 < size < len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, -size)[-size]
    few = np.flatnonzero(scores >= least)                       # to sort these takes a tenth of sorting all
    return few[np.argsort(-scores[few], kind="stable")[:size]]


def _hit(batch: _Batch, place: int, score: float) -> Hit:
    hits = batch.hits
    document, atoms = int(hits.documents[place]), int(hits.atoms[place])
    for marks, is_name in ((hits.content, False), (hits.names, True)):
        at = place if marks.documents is hits.documents else int(marks.documents.searchsorted(hits.documents[place]))
        if at < len(marks.documents) and marks.documents[at] == document:
            first, last = int(marks.firsts[at]), int(marks.firsts[at + 1])
            boosts = None if marks.boosts is None else marks.boosts[first:last]
            starts, ends = marks.starts[first:last], marks.ends[first:last]
            return Hit(score, batch.index, batch.part, document, starts, ends, boosts, is_name, atoms)
    return Hit(score, batch.index, batch.part, document, NOTHING, NOTHING, None, True, atoms)
