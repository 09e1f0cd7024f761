"""Scores a file by its best match, the number of atoms it has, and its category.

The points are zoekt's, so that its users find the order they know. Unlike zoekt, which uses the category only to break
ties, tests, vendored and generated files rank after code that matches equally well (decision 0014).
"""

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import F64, U8, freeze
from argosy.search.documents import Category
from argosy.search.index.segment import Segment
from argosy.search.kernels import spans
from argosy.search.kernels.spans import best_points, score_matches, score_names
from argosy.search.match.hits import Hits, SpanGroups

ATOMS_POINTS = 400  # for a file with every atom; half of them for two
POINT, RANK_POINT, ORDER_POINT = spans.POINT, spans.RANK_POINT, spans.ORDER_POINT

# The weight of matches in low-priority files.
_WORTH = {Category.TEST: 0.8, Category.VENDORED: 0.6, Category.GENERATED: 0.5}
WORTH_OF: F64 = freeze(  # by the category bits of the file
    np.array([np.prod([worth for each, worth in _WORTH.items() if number & each] or [1.0]) for number in range(256)])
)


def scores(hits: Hits, segment: Segment, *, rank: int, first_document: int, documents: int) -> npt.NDArray[np.float64]:
    """The score of each document of the hits. `first_document` is the position of the first document
    of the segment among all `documents`."""
    points = _best(hits, segment) * worth_of(segment.table.categories[hits.documents])
    points += atoms_points(hits.atoms)
    order = 1 - (first_document + hits.documents) / documents
    return np.trunc(points) * POINT + rank * RANK_POINT + order * ORDER_POINT


def atoms_points(atoms: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The points for the number of atoms found in a file."""
    points: npt.NDArray[np.float64] = ATOMS_POINTS * (1 - 1 / np.maximum(atoms, 1))
    return points


def worth_of(categories: U8) -> npt.NDArray[np.float64]:
    worth: npt.NDArray[np.float64] = WORTH_OF[categories]
    return worth


def match_points(segment: Segment, marks: SpanGroups) -> npt.NDArray[np.float64]:
    """The points of each span in the content."""
    symbols = segment.symbols
    points, _ = score_matches(
        segment.content.data, freeze(marks.starts), freeze(marks.ends), symbols.starts, symbols.lengths, symbols.points
    )
    return _with_boosts(points, marks)


def name_points(segment: Segment, marks: SpanGroups) -> npt.NDArray[np.float64]:
    """The points of each span in file names."""
    names = segment.names
    owners = freeze(marks.owners())
    return _with_boosts(score_names(names.data, names.starts, owners, freeze(marks.starts), freeze(marks.ends)), marks)


def _with_boosts(points: npt.NDArray[np.int32], marks: SpanGroups) -> npt.NDArray[np.float64]:
    return points.astype(np.float64) if marks.boosts is None else points * marks.boosts


def _best(hits: Hits, segment: Segment) -> npt.NDArray[np.float64]:
    """The points of the best span of each document."""
    content = _best_in_content(segment, hits.content)
    if hits.documents is hits.content.documents:  # no matches in names
        return content
    best = np.zeros(segment.content.documents, np.float64)
    best[hits.content.documents] = content
    if len(hits.names.starts):
        best[hits.names.documents] = np.maximum.reduceat(name_points(segment, hits.names), hits.names.firsts[:-1])
    found: npt.NDArray[np.float64] = best[hits.documents]
    return found


def _best_in_content(segment: Segment, marks: SpanGroups) -> npt.NDArray[np.float64]:
    if len(marks.starts) == 0:
        return np.empty(0, np.float64)
    if marks.boosts is not None:
        return np.maximum.reduceat(match_points(segment, marks), marks.firsts[:-1])
    symbols = segment.symbols
    return best_points(
        segment.content.data,
        freeze(marks.starts),
        freeze(marks.ends),
        freeze(marks.firsts),
        symbols.starts,
        symbols.lengths,
        symbols.points,
    ).astype(np.float64)
