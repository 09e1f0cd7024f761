"""Staged changes that reads of the store do not show yet, in groups, oldest first.

Changes are added to the open group; it is closed to be written, and removed once the store shows it. A read that
started before that may have missed the group in the store, so the group stays until no such read is left: a caller
that reads the store first and the overlay second always sees the newest value.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from enum import Enum
from typing import Final, TypeAlias

from argosy.base.kv import Batch


class _Untouched(Enum):
    UNTOUCHED = "untouched"


UNTOUCHED: Final = _Untouched.UNTOUCHED  # nothing is staged for the key; None is a staged deletion
Staged: TypeAlias = bytes | _Untouched | None


class ChangeGroup:
    """Changes written together; the last change to a key wins."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.changes: dict[bytes, bytes | None] = {}
        self.size_bytes = 0  # of all that was staged, also where it was overwritten
        self.is_written = False

    def add(self, batch: Batch) -> None:
        self.changes.update(batch.ops())
        self.size_bytes += batch.size_bytes


class Overlay:
    def __init__(self) -> None:
        self._groups: deque[ChangeGroup] = deque([ChangeGroup(0)])
        self._reads: dict[int, int] = {}  # read -> the oldest group it may have missed; oldest read first
        self._reads_begun = 0

    @property
    def open_group(self) -> ChangeGroup:
        return self._groups[-1]

    def close_group(self) -> ChangeGroup:
        """Closes the open group and starts the next."""
        closed = self._groups[-1]
        self._groups.append(ChangeGroup(closed.number + 1))
        return closed

    def on_written(self, group: ChangeGroup) -> None:
        group.is_written = True
        self._drop()

    def begin_read(self) -> int:
        """To be called before reading from the store; `end_read` takes the result after the overlay was consulted."""
        self._reads_begun += 1
        # The read finds in the store what is written already. If written groups were retained for it, overlapping reads
        # would retain them for ever.
        self._reads[self._reads_begun] = next(group.number for group in self._groups if not group.is_written)
        return self._reads_begun

    def end_read(self, read: int) -> None:
        del self._reads[read]
        self._drop()

    def lookup(self, key: bytes) -> Staged:
        # The newest group first: its change hides the older ones.
        for group in reversed(self._groups):
            if key in group.changes:
                return group.changes[key]
        return UNTOUCHED

    def within(self, start: bytes, end: bytes | None, *, reverse: bool) -> list[tuple[bytes, bytes | None]]:
        """The newest change to each key of a range, in key order."""
        newest: dict[bytes, bytes | None] = {}
        for group in self._groups:
            newest.update(_changes_within(group, start, end))
        return sorted(newest.items(), key=_key_of, reverse=reverse)

    def __len__(self) -> int:
        """The number of groups, the open one included."""
        return len(self._groups)

    def _drop(self) -> None:
        # Groups are written in order, so the number that a read takes never falls: the oldest read has the lowest.
        needed = next(iter(self._reads.values()), None)
        # The last group is open and never written, so one always remains.
        while self._groups[0].is_written and (needed is None or self._groups[0].number < needed):
            self._groups.popleft()


def _changes_within(group: ChangeGroup, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes | None]]:
    for key, value in group.changes.items():
        if start <= key and (end is None or key < end):
            yield key, value


def _key_of(change: tuple[bytes, bytes | None]) -> bytes:
    return change[0]


async def merge_changes(
    pairs: AsyncIterator[tuple[bytes, bytes]],
    changes: Sequence[tuple[bytes, bytes | None]],
    *,
    limit: int | None,
    reverse: bool,
) -> AsyncIterator[tuple[bytes, bytes]]:
    """The pairs with the changes applied; both are in the order of the scan."""
    left = limit
    async for pair in _merge_changes(pairs, changes, reverse):
        if left is not None:
            if left == 0:
                return
            left -= 1
        yield pair


async def _merge_changes(
    pairs: AsyncIterator[tuple[bytes, bytes]], changes: Sequence[tuple[bytes, bytes | None]], reverse: bool
) -> AsyncIterator[tuple[bytes, bytes]]:
    at = 0
    async for key, value in pairs:
        while at < len(changes) and (changes[at][0] > key if reverse else changes[at][0] < key):
            changed_key, changed = changes[at]
            at += 1
            if changed is not None:
                yield changed_key, changed
        if at < len(changes) and changes[at][0] == key:
            continue  # yielded in its turn, or deleted
        yield key, value
    for changed_key, changed in changes[at:]:
        if changed is not None:
            yield changed_key, changed


def deletions(changes: Sequence[tuple[bytes, bytes | None]]) -> int:
    """How many more stored pairs than its limit a scan must read, at most."""
    return sum(1 for _, changed in changes if changed is None)
