"""Plans an incremental build: which segments of the previous index the new version reuses.

A document is identified by path, content id and kind. The new index shares a segment with unchanged documents and has
branches of its own for it; changed documents go to a new segment after the others. Two rules bound the cost after years
of incremental builds:

- the last segment is merged into the new one unless it is much heavier, and likewise the one before it, so that the
  number of segments grows with the logarithm of the text and each document is copied few times;
- if too much of the text is deleted, everything is rebuilt in the best order.

Unchanged documents in a rebuilt segment are copied from the old segment, not read from the source again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from argosy.search.arrays import U64
from argosy.search.documents import Entry, EntryKind, SkipReason
from argosy.search.index.index import Index, Segment
from argosy.search.skip_policy import Policy, reason_before_reading

DELETED_SHARE_MAX = 0.25  # share of the text; above it, a full rebuild: deleted text takes memory and is scanned
# The last segment is merged if at most this many times heavier. As in a log-structured merge tree, sizes then grow by
# at least this factor from one segment to the one before it.
MERGE_RATIO = 2
DOCUMENT_WEIGHT_BYTES = 1024  # fixed cost of a document, in bytes of text; else many empty files would weigh nothing

_REASONS = tuple(SkipReason)
_KINDS = {SkipReason.SYMLINK: EntryKind.SYMLINK, SkipReason.SUBMODULE: EntryKind.SUBMODULE}
_KIND_OF = tuple(_KINDS.get(reason, EntryKind.FILE) for reason in _REASONS)
# Files with these reasons can be readable now, although their entry is unchanged.
_PASSING = frozenset({SkipReason.MISSING, SkipReason.UNREADABLE})

_Key: TypeAlias = tuple[bytes, bytes, EntryKind]


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """A document of a segment."""

    segment: Segment
    document: int


@dataclass(frozen=True, slots=True)
class IncrementalPlan:
    """Reused segments with their new branches, and the entries to rebuild: read, or copied from an old document."""

    kept: Sequence[tuple[Segment, U64]]
    rebuilt: Sequence[tuple[Entry, DocumentRef | None]]


def plan(entries: Sequence[Entry], previous: Index | None, policy: Policy) -> IncrementalPlan:
    """Plans the build of an index of these entries from the previous index, if any."""
    if previous is None:
        return IncrementalPlan((), [(entry, None) for entry in entries])
    old = _Old(previous, entries)
    new = [entry for entry, home in zip(entries, old.homes, strict=True) if home is None]
    first = old.first_rebuilt(sum(_weight_bytes(entry, policy) for entry in new))
    kept = [(old.segments[part], old.branches[part]) for part in range(first) if old.branches[part].any()]
    rebuilt = [
        (entry, DocumentRef(old.segments[home[0]], home[1]) if home else None)
        for entry, home in zip(entries, old.homes, strict=True)
        if home is None or home[0] >= first
    ]
    return IncrementalPlan(kept, rebuilt)


class _Old:
    """The segments of the previous index and where the new entries are in them."""

    def __init__(self, previous: Index, entries: Sequence[Entry]) -> None:
        self.segments = [part.segment for part in previous.parts]
        self.branches: list[U64] = [np.zeros(segment.names.documents, np.uint64) for segment in self.segments]
        # Of two documents with the same key, the later one is current.
        known = {key: place for number, each in enumerate(self.segments) for key, place in _keys(each, number)}
        self.homes = [known.get((entry.path, entry.blob_id.rstrip(b"\0"), entry.kind)) for entry in entries]
        for entry, home in zip(entries, self.homes, strict=True):
            # A document that no entry refers to keeps the mask 0, which marks it as deleted.
            if home:
                self.branches[home[0]][home[1]] = entry.branches

    def first_rebuilt(self, new_bytes: int) -> int:
        """The first segment that is not reused, nor are those after it. `new_bytes` is the weight of the new
        entries."""
        # In bytes of text, not of weight: the limit is about memory that is held and scanned for nothing.
        lengths = [np.diff(segment.content.starts.astype(np.int64)) for segment in self.segments]
        live = [int(each[mask != 0].sum()) for each, mask in zip(lengths, self.branches, strict=True)]
        total = sum(int(each.sum()) for each in lengths)
        if total - sum(live) > DELETED_SHARE_MAX * total:
            return 0
        first, rebuilt_bytes = len(self.segments), new_bytes
        # Without anything new, `rebuilt_bytes` is 0 and all segments are reused as they are.
        while first and rebuilt_bytes:
            documents = int(np.count_nonzero(self.branches[first - 1]))
            last_bytes = live[first - 1] + documents * DOCUMENT_WEIGHT_BYTES
            if last_bytes > MERGE_RATIO * rebuilt_bytes:
                break
            first, rebuilt_bytes = first - 1, rebuilt_bytes + last_bytes
        return first


def _weight_bytes(entry: Entry, policy: Policy) -> int:
    is_read = reason_before_reading(entry, policy) is SkipReason.NONE
    return DOCUMENT_WEIGHT_BYTES + (entry.size_bytes if is_read else 0)


def _keys(segment: Segment, number: int) -> Iterator[tuple[_Key, tuple[int, int]]]:
    paths = segment.names.data.tobytes().split(b"\0")  # a path has no NUL
    skips = segment.table.skips.tolist()
    width = segment.table.blob_ids.shape[1]
    ids = segment.table.blob_ids.tobytes()
    for document, skip in enumerate(skips):
        if _REASONS[skip] not in _PASSING:
            # Ids are stored padded to one width, because SHA-1 and SHA-256 repositories have different ones.
            blob_id = ids[document * width : (document + 1) * width].rstrip(b"\0")
            yield (paths[document], blob_id, _KIND_OF[skip]), (number, document)
