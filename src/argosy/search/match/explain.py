"""Explains the scores of matches and files in text (`Options.explain_scores`)."""

import numpy as np

from argosy.search.arrays import freeze
from argosy.search.index.segment import Segment
from argosy.search.kernels.spans import (
    BOTH_EDGES,
    EDGE_OF_SYMBOL,
    INSIDE_SYMBOL,
    ONE_EDGE,
    WHOLE_SYMBOL,
    score_matches,
)
from argosy.search.match.excerpts import Match
from argosy.search.match.hits import SpanGroups
from argosy.search.match.rank import ORDER_POINT, POINT, RANK_POINT, atoms_points, match_points, name_points, worth_of
from argosy.search.match.top_k import Hit
from argosy.search.symbols.kinds import KINDS

_EDGES = {BOTH_EDGES: "both edges", ONE_EDGE: "one edge"}
_PLACES = {WHOLE_SYMBOL: "whole", EDGE_OF_SYMBOL: "edge of", INSIDE_SYMBOL: "inside"}


def match_explanation(segment: Segment, match: Match) -> str:
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


def name_explanation(match: Match) -> str:
    """The points of a match in the file name; the base name counts as a symbol."""
    return _sum(match.points, match.points, _signs(int(match.points), "base name"))


def file_explanation(hit: Hit, *, is_bm25: bool) -> str:
    """The terms of a file score. Rank and order are derived from their sum, the only value stored."""
    if is_bm25:
        return f"{hit.score:.2f} = bm25 {hit.score / POINT:.4f} x {POINT}"
    segment = hit.index.parts[hit.part].segment
    best = _best(hit, segment)
    worth = float(worth_of(segment.table.categories[[hit.document]])[0])
    atoms = float(atoms_points(np.array([hit.atoms]))[0])
    points = int(best * worth + atoms)
    rank = hit.index.repository.rank * RANK_POINT
    order = hit.score - points * POINT - rank
    return (
        f"{hit.score:.2f} = ({best:g} best match x {worth:g} kind of file + {atoms:g} atoms({hit.atoms})) x {POINT}"
        f" + {rank} rank + {order:.2f} order (of {ORDER_POINT})"
    )


def _best(hit: Hit, segment: Segment) -> float:
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
