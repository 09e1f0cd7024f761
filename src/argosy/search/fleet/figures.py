"""What a finished index weighs and holds, as its node counts it."""

import numpy as np

from argosy.search.fleet.events import IndexStats
from argosy.search.index.index import Index, Part
from argosy.search.index.memory_usage import memory_bytes


def figures_of(index: Index, *, fetch_time_ms: float = 0.0, index_time_ms: float = 0.0) -> IndexStats:
    """Dead documents weigh, and are not counted."""
    return IndexStats(
        memory_bytes=memory_bytes(index),
        branches=index.repository.branches,
        documents=sum(int(np.count_nonzero(part.branches)) for part in index.parts),
        content_bytes=sum(map(_live_bytes, index.parts)),
        fetch_time_ms=fetch_time_ms,
        index_time_ms=index_time_ms,
    )


def _live_bytes(part: Part) -> int:
    lengths = np.diff(part.segment.content.starts.astype(np.int64)) - 1  # without its NUL
    return int(lengths[part.branches != 0].sum())
