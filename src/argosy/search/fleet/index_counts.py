"""Counts of an index for repository lists: documents, lines, languages.

They are computed once per version of an index, because counting lines reads all of its text.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import U8
from argosy.search.fleet.model import RepoListing, RepoStatus
from argosy.search.index.index import Index, Part
from argosy.search.index.sections import memory_bytes

CACHED_MAX = 10_000  # repositories whose counts are cached
SLICE_BYTES = 1 << 20  # of text compared at a time: the comparison allocates as many bytes again

_NEWLINE = ord("\n")
_Version: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one version of a repository, without deleted documents."""

    documents: int
    content_bytes: int
    memory_bytes: int  # with deleted documents
    lines: int  # newlines
    has_symbols: bool
    languages: dict[str, int]


class IndexCounts:
    """Cached counts by repository. The cache does not keep an index alive."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[_Version, Counts]] = {}

    def listing(self, index: Index, status: RepoStatus | None) -> RepoListing:
        counts = self._counts(index)
        return RepoListing(
            repository=index.repository,
            documents=counts.documents,
            content_bytes=counts.content_bytes,
            memory_bytes=counts.memory_bytes,
            lines=counts.lines,
            indexed_at=status.indexed_at if status else 0.0,
            has_symbols=counts.has_symbols,
            languages=counts.languages,
        )

    def _counts(self, index: Index) -> Counts:
        name, version = index.repository.name, _version(index)
        cached = self._cached.get(name)
        if cached is None or cached[0] != version:
            if len(self._cached) >= CACHED_MAX:
                self._cached.clear()
            cached = self._cached[name] = version, count_index(index)
        return cached[1]


def _version(index: Index) -> _Version:
    """A value that differs between any two versions of a repository's index."""
    sums = tuple((part.segment.checksums, part.checksum) for part in index.parts)
    return index.repository.branches, index.recipe, sums


def count_index(index: Index) -> Counts:
    languages: dict[str, int] = {}
    for part in index.parts:
        numbers = np.bincount(part.segment.table.languages[np.flatnonzero(part.branches)])
        for number in np.flatnonzero(numbers).tolist():
            language = part.segment.languages[number]
            if language:
                languages[language] = languages.get(language, 0) + int(numbers[number])
    return Counts(
        documents=sum(int(np.count_nonzero(part.branches)) for part in index.parts),
        content_bytes=sum(int(_sizes(part)[np.flatnonzero(part.branches)].sum()) for part in index.parts),
        memory_bytes=memory_bytes(index),
        lines=sum(_lines(part) for part in index.parts),
        has_symbols=any(len(part.segment.symbols.starts) for part in index.parts),
        languages=languages,
    )


def _sizes(part: Part) -> npt.NDArray[np.int64]:
    starts = part.segment.content.starts.astype(np.int64)
    return starts[1:] - starts[:-1] - 1


def _lines(part: Part) -> int:
    """All newlines less those of deleted documents, which are few: builds drop them."""
    content = part.segment.content
    deleted = np.flatnonzero(part.branches == 0).tolist()
    lost = sum(_newlines(content.data[int(content.starts[each]) : int(content.starts[each + 1])]) for each in deleted)
    return _newlines(content.data) - lost


def _newlines(data: U8) -> int:
    return sum(
        int(np.count_nonzero(data[at : at + SLICE_BYTES] == _NEWLINE)) for at in range(0, len(data), SLICE_BYTES)
    )
