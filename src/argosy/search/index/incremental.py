"""What a new version of a repository can keep of the index of the old one.

A document is known by its path, its content's id and its kind, so what is unchanged stays where it is: the new index
shares the segment and has its own branches for it. What changed goes into a new segment behind the others. Two rules
keep an index that is renewed for years as good as a new one:

- the last segment joins what is built anew unless it is much heavier, and so does the one before it, so that there are
  few segments (their number grows with the logarithm of the text) and each document is copied few times;
- when too much of the text is dead, everything is built anew, and best first again.

Documents that are built anew though they have not changed are recalled from the old segments and not read again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from argosy.search.documents import Entry, EntryKind, SkipReason
from argosy.search.index.index import Index
from argosy.search.index.segment import U64, Segment
from argosy.search.skip_policy import Policy, reason_before_reading

DEAD_SHARE_MAX = 0.25  # of the text; more, and the index is built anew
MERGE_RATIO = 2  # the last segment joins the new one up to so many times its weight
DOCUMENT_WEIGHT_BYTES = 1024  # a document costs about as much as so much text, however short it is

_REASONS = tuple(SkipReason)
_KINDS = {SkipReason.SYMLINK: EntryKind.SYMLINK, SkipReason.SUBMODULE: EntryKind.SUBMODULE}
_KIND_OF = tuple(_KINDS.get(reason, EntryKind.FILE) for reason in _REASONS)
# These may be readable by now, though nothing about their entry has changed.
_PASSING = frozenset({SkipReason.MISSING, SkipReason.UNREADABLE})

_Key: TypeAlias = tuple[bytes, bytes, EntryKind]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document is."""

    segment: Segment
    document: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Segments that stay, each with its documents' branches, and entries to build anew, read or recalled."""

    kept: Sequence[tuple[Segment, U64]]
    rebuilt: Sequence[tuple[Entry, Place | None]]


def plan(entries: Sequence[Entry], previous: Index | None, policy: Policy) -> Plan:
    """How to come from the previous index, if there is one, to an index of these entries."""
    if previous is None:
        return Plan((), [(entry, None) for entry in entries])
    old = _Old(previous, entries)
    new = [entry for entry, home in zip(entries, old.homes, strict=True) if home is None]
    first = old.first_rebuilt(sum(_weight_bytes(entry, policy) for entry in new))
    kept = [(old.segments[part], old.branches[part]) for part in range(first) if old.branches[part].any()]
    rebuilt = [
        (entry, Place(old.segments[home[0]], home[1]) if home else None)
        for entry, home in zip(entries, old.homes, strict=True)
        if home is None or home[0] >= first
    ]
    return Plan(kept, rebuilt)


class _Old:
    """The old segments, seen by the new entries."""

    def __init__(self, previous: Index, entries: Sequence[Entry]) -> None:
        self.segments = [part.segment for part in previous.parts]
        self.branches: list[U64] = [np.zeros(segment.names.documents, np.uint64) for segment in self.segments]
        # Of two documents with the same key the older one is dead.
        known = {key: place for number, each in enumerate(self.segments) for key, place in _keys(each, number)}
        self.homes = [known.get((entry.path, entry.blob_id.rstrip(b"\0"), entry.kind)) for entry in entries]
        for entry, home in zip(entries, self.homes, strict=True):
            if home:
                self.branches[home[0]][home[1]] = entry.branches

    def first_rebuilt(self, new_bytes: int) -> int:
        """The first segment that is not kept; all after it are not either. `new_bytes` is the weight of what is new."""
        lengths = [np.diff(segment.content.starts.astype(np.int64)) for segment in self.segments]
        live = [int(each[mask != 0].sum()) for each, mask in zip(lengths, self.branches, strict=True)]
        total = sum(int(each.sum()) for each in lengths)
        if total - sum(live) > DEAD_SHARE_MAX * total:
            return 0
        first, rebuilt_bytes = len(self.segments), new_bytes
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
            # Ids are stored padded to one width, so the padding is no part of them.
            blob_id = ids[document * width : (document + 1) * width].rstrip(b"\0")
            yield (paths[document], blob_id, _KIND_OF[skip]), (number, document)
