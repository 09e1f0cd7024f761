"""Scores files, and explains the scores (`Options.explain_scores`).

A file is scored by its best match, the number of atoms it has, and its category. The points are zoekt's, so that its
users find the order they know. Unlike zoekt, which uses the category only to break ties, tests, vendored and generated
files rank after code that matches equally well (decision 0014).

BM25, an option, ranks a file by all of its matches rather than by its best line. A term is a matched text, ignoring
case. All terms have the same weight, because document frequencies over all repositories are not known.
"""

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import F64, I64, U8, U32, freeze
from argosy.search.documents import Category
from argosy.search.index.index import Segment
from argosy.search.kernels import spans
from argosy.search.kernels.spans import (
    BOTH_EDGES,
    EDGE_OF_SYMBOL,
    INSIDE_SYMBOL,
    ONE_EDGE,
    WHOLE_SYMBOL,
    best_points,
    score_matches,
    score_names,
    terms_of,
)
from argosy.search.match.chunk_matches import LocatedMatch
from argosy.search.match.spans import Hits, SpanGroups
from argosy.search.match.top_k import Hit
from argosy.search.symbols.kinds import KINDS

ATOMS_POINTS = 400  # for a file with every atom; half of them for two
POINT, RANK_POINT, ORDER_POINT = spans.POINT, spans.RANK_POINT, spans.ORDER_POINT

# The weight of matches in low-priority files.
_WORTH = {Category.TEST: 0.8, Category.VENDORED: 0.6, Category.GENERATED: 0.5}
# A file with several categories, such as a vendored test, gets the product.
WORTH_OF: F64 = freeze(  # by the category bits of the file
    np.array([np.prod([worth for each, worth in _WORTH.items() if number & each] or [1.0]) for number in range(256)])
)


def scores(hits: Hits, segment: Segment, *, rank: int, first_document: int, documents: int) -> npt.NDArray[np.float64]:
    """The score of each document of the hits. `first_document` is the position of the first document
    of the segment among all `documents`."""
    points = _best(hits, segment) * worth_of(segment.table.categories[hits.documents])
    points += atoms_points(hits.atoms)
    order = 1 - (first_document + hits.documents) / documents
    # Truncated as in zoekt: a fraction of a point would outweigh rank and order, which break ties.
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


K = 1.2  # term frequency saturation, Lucene's default
B = 0.75  # document length normalization, Lucene's default
FOCUS = 5  # weight of a match in a symbol or file name
_LOW = Category.TEST | Category.VENDORED | Category.GENERATED


def bm25_scores(hits: Hits, segment: Segment) -> npt.NDArray[np.float64]:
    """The score of each document of the hits."""
    size = segment.content.documents
    total = np.zeros(size, np.float64)
    lengths = np.diff(segment.content.starts).astype(np.float64)
    norm = K * (1 - B + B * lengths / max(lengths.mean(), 1.0))
    norm *= np.where(segment.table.categories & _LOW > 0, FOCUS, 1)  # as if their matches counted a fifth
    if len(hits.content.starts):
        symbols = segment.symbols
        _, found = score_matches(
            segment.content.data,
            freeze(hits.content.starts),
            freeze(hits.content.ends),
            symbols.starts,
            symbols.lengths,
            symbols.points,
        )
        _add(total, norm, hits.content, segment.content.data, np.where(found >= 0, FOCUS, 1))
    if len(hits.names.starts):
        _add(total, norm, hits.names, segment.names.data, np.full(len(hits.names.starts), FOCUS))
    return total[hits.documents] * POINT


def _add(
    total: npt.NDArray[np.float64], norm: npt.NDArray[np.float64], marks: SpanGroups, data: U8, weights: I64
) -> None:
    terms = terms_of(data, freeze(marks.starts), freeze(marks.ends))
    owners = marks.owners()
    # Sorted by document and term, each group is one term frequency.
    order = np.lexsort((terms, owners))
    terms, owners = terms[order], owners[order]
    firsts = np.flatnonzero(np.r_[True, (terms[1:] != terms[:-1]) | (owners[1:] != owners[:-1])])
    frequencies = np.add.reduceat(weights[order].astype(np.float64), firsts)
    documents: U32 = owners[firsts]
    np.add.at(total, documents, (K + 1) * frequencies / (norm[documents] + frequencies))


_EDGES = {BOTH_EDGES: "both edges", ONE_EDGE: "one edge"}
_PLACES = {WHOLE_SYMBOL: "whole", EDGE_OF_SYMBOL: "edge of", INSIDE_SYMBOL: "inside"}


def match_explanation(segment: Segment, match: LocatedMatch) -> str:
    """The points of a match in the content, itemized."""
    symbols = segment.symbols
    start, end = (freeze(np.array([place], np.uint32)) for place in (match.start, match.end))
    points, found = score_matches(segment.content.data, start, end, symbols.starts, symbols.lengths, symbols.points)
    plain, symbol = int(points[0]), int(found[0])
    parts = []
    if symbol >= 0:
        kind = int(symbols.points[symbol])
        parts = [f"kind {KINDS[symbols.kinds[symbol]]}:{kind}", *_signs(plain - kind, "symbol")]
    else:
        parts = _signs(plain, "")
    return _sum(match.points, plain, parts)


def name_explanation(match: LocatedMatch) -> str:
    """The points of a match in the file name; the base name counts as a symbol."""
    return _sum(match.points, match.points, _signs(int(match.points), "base name"))


def file_explanation(hit: Hit, *, is_bm25: bool) -> str:
    """The terms of a file score. Rank and order are derived from their sum, the only value stored."""
    if is_bm25:
        return f"{hit.score:.2f} = bm25 {hit.score / POINT:.4f} x {POINT}"
    segment = hit.index.parts[hit.part].segment
    best = _best_of_hit(hit, segment)
    worth = float(worth_of(segment.table.categories[[hit.document]])[0])
    atoms = float(atoms_points(np.array([hit.atoms]))[0])
    points = int(best * worth + atoms)
    rank = hit.index.repository.rank * RANK_POINT
    order = hit.score - points * POINT - rank
    return (
        f"{hit.score:.2f} = ({best:g} best match x {worth:g} kind of file + {atoms:g} atoms({hit.atoms})) x {POINT}"
        f" + {rank} rank + {order:.2f} order (of {ORDER_POINT})"
    )


def _best_of_hit(hit: Hit, segment: Segment) -> float:
    if len(hit.starts) == 0:
        return 0.0
    document = np.array([hit.document], np.uint32)
    marks = SpanGroups(hit.starts, hit.ends, hit.boosts, document, np.array([0, len(hit.starts)]))
    return float((name_points if hit.is_name else match_points)(segment, marks).max())


def _signs(points: int, what: str) -> list[str]:
    """Splits points into position and edges; all sums are distinct."""
    for place, word in _PLACES.items():
        if what and points - place in (0, *_EDGES):
            return [f"{word} {what}:{place}", *_signs(points - place, "")]
    return [f"{_EDGES[points]}:{points}"] if points in _EDGES else []


def _sum(points: float, plain: float, parts: list[str]) -> str:
    boost = f" x boost {points / plain:g}" if plain and points != plain else ""
    return f"{points:g} <- {', '.join(parts) or 'inside a word:0'}{boost}"
