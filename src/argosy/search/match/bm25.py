"""BM25 scores: ranks a file by all of its matches rather than by its best line.

A term is a matched text, ignoring case. All terms have the same weight, because document frequencies over all
repositories are not known.
"""

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I64, U8, U32, freeze
from argosy.search.documents import Category
from argosy.search.index.segment import Segment
from argosy.search.kernels.spans import score_matches, terms_of
from argosy.search.match.hits import Hits, SpanGroups
from argosy.search.match.rank import POINT

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
    order = np.lexsort((terms, owners))
    terms, owners = terms[order], owners[order]
    firsts = np.flatnonzero(np.r_[True, (terms[1:] != terms[:-1]) | (owners[1:] != owners[:-1])])
    frequencies = np.add.reduceat(weights[order].astype(np.float64), firsts)
    documents: U32 = owners[firsts]
    np.add.at(total, documents, (K + 1) * frequencies / (norm[documents] + frequencies))
