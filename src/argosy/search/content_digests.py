"""SHA-256 digests of the documents of an index, under which a content index finds them, and lookup by digest.

A segment is immutable, so its digests are computed once and shared by every later index that shares the segment: after
a commit only the changed documents are hashed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from argosy.search.arrays import U8, Flags, freeze
from argosy.search.documents import SkipReason
from argosy.search.index.index import Index, Segment

DIGEST_BYTES = 32

# The position of the reason, as a segment's table stores it.
_INDEXED = tuple(SkipReason).index(SkipReason.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentDigests:
    """The digests of one segment: a row per document, meaningless if its content is not indexed."""

    segment: Segment
    rows: U8  # (documents, 32)


@dataclass(frozen=True, slots=True)
class DigestMatch:
    """A document with the requested content."""

    repository: str
    path: str
    content: bytes


class IndexDigests:
    """The documents of one index by digest."""

    def __init__(self, index: Index, digests: Sequence[SegmentDigests]) -> None:
        self.index = index
        self.digests = tuple(digests)

    def rows(self) -> U8:
        """The distinct digests of the documents on some branch, sorted."""
        live = [
            each.rows[_is_live(each.segment, part.branches != 0)]
            for part, each in zip(self.index.parts, self.digests, strict=True)
        ]
        whole = np.concatenate([np.empty((0, DIGEST_BYTES), np.uint8), *live])
        # As opaque 32-byte items, because np.unique of rows would sort a structured array, which is much slower.
        each_once = np.unique(whole.view(f"V{DIGEST_BYTES}"))
        return each_once.view(np.uint8).reshape(-1, DIGEST_BYTES)

    def find(self, digest: bytes) -> DigestMatch | None:
        """A document with this content. It compares whole columns, a millisecond per million documents: no table is
        stored."""
        wanted = np.frombuffer(digest, np.uint64)
        for part, each in zip(self.index.parts, self.digests, strict=True):
            # The first 8 bytes of a SHA-256 decide for all but a negligible number of documents; only those are
            # compared whole.
            is_same = each.rows.view(np.uint64)[:, 0] == wanted[0]
            for document in np.flatnonzero(is_same & _is_live(each.segment, part.branches != 0)).tolist():
                if each.rows[document].tobytes() == digest:
                    path = each.segment.path(document).decode("utf-8", "surrogateescape")
                    return DigestMatch(self.index.repository.name, path, _content(each.segment, document).tobytes())
        return None


class HashingStopped(Exception):
    """The caller no longer needs the digests."""


def hash_contents(
    index: Index, previous: IndexDigests | None = None, is_stopped: Callable[[], bool] = lambda: False
) -> IndexDigests:
    """Hashes what `previous` does not share; raises HashingStopped soon after `is_stopped` returns true."""
    # By identity: a segment is immutable, and an incremental build shares the object itself.
    known = {id(each.segment): each for each in previous.digests} if previous else {}
    return IndexDigests(
        index, [known.get(id(part.segment)) or _digests_of(part.segment, is_stopped) for part in index.parts]
    )


def _digests_of(segment: Segment, is_stopped: Callable[[], bool]) -> SegmentDigests:
    rows = np.zeros((segment.content.documents, DIGEST_BYTES), np.uint8)
    for document in np.flatnonzero(segment.table.skips == _INDEXED).tolist():
        # Between documents, because hashlib cannot be interrupted; the largest document takes a fraction of a second.
        if is_stopped():
            raise HashingStopped
        # Without a copy; hashlib releases the interpreter lock for more than 2 KiB.
        rows[document] = np.frombuffer(sha256(_content(segment, document).data).digest(), np.uint8)
    return SegmentDigests(segment, freeze(rows))


def _content(segment: Segment, document: int) -> U8:
    start, end = segment.content.starts[document], segment.content.starts[document + 1] - 1
    return segment.content.data[start:end]


def _is_live(segment: Segment, is_on_branch: Flags) -> Flags:
    live: Flags = is_on_branch & (segment.table.skips == _INDEXED)
    return live
