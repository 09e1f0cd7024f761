"""BM25: how much a file is about what was asked, rather than how good its best line is.

A term is a matched text up to case. Every term weighs the same: its frequency among all repositories is not known.
"""

import numpy as np
import numpy.typing as npt

from argosy.search.documents import Category
from argosy.search.index.segment import I64, U8, U32, Segment, frozen
from argosy.search.kernels.spans import score_matches, terms_of
from argosy.search.match.hits import Hits, Marks
from argosy.search.match.rank import POINT

K = 1.2  # how soon more of the same stops to count
B = 0.75  # how much a long file is held back
FOCUS = 5  # a hit in a symbol or in the file's name counts so many times
_LOW = Category.TEST | Category.VENDORED | Category.GENERATED


def bm25_scores(hits: Hits, segment: Segment) -> npt.NDArray[np.float64]:
    """The score of each document of the hits."""
    size = segment.content.documents
    total = np.zeros(size, np.float64)
    lengths = np.diff(segment.content.starts).astype(np.float64)
    norm = K * (1 - B + B * lengths / max(lengths.mean(), 1.0))
    norm *= np.where(segment.table.categories & _LOW > 0, FOCUS, 1)  # as if their hits counted a fifth
    if len(hits.content.starts):
        symbols = segment.symbols
        _, found = score_matches(
            segment.content.data,
            frozen(hits.content.starts),
            frozen(hits.content.ends),
            symbols.starts,
            symbols.lengths,
            symbols.points,
        )
        _add(total, norm, hits.content, segment.content.data, np.where(found >= 0, FOCUS, 1))
    if len(hits.names.starts):
        _add(total, norm, hits.names, segment.names.data, np.full(len(hits.names.starts), FOCUS))
    return total[hits.documents] * POINT


def _add(total: npt.NDArray[np.float64], norm: npt.NDArray[np.float64], marks: Marks, data: U8, weights: I64) -> None:
    terms = terms_of(data, frozen(marks.starts), frozen(marks.ends))
    owners = marks.owners()
    order = np.lexsort((terms, owners))
    terms, owners = terms[order], owners[order]
    firsts = np.flatnonzero(np.r_[True, (terms[1:] != terms[:-1]) | (owners[1:] != owners[:-1])])
    frequencies = np.add.reduceat(weights[order].astype(np.float64), firsts)
    documents: U32 = owners[firsts]
    np.add.at(total, documents, (K + 1) * frequencies / (norm[documents] + frequencies))
