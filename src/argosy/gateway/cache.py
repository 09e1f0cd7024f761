"""Answers kept for a moment: the least recently asked go first, and none outlives a change.

An answer is kept under the version of leases and catalog it was made at, and is forgotten at any other. A refresh of an
index shows in the catalog a moment later; until then, and no longer than the time to live, an answer may be that old.
Only what a fleet would answer again is kept: nothing missing, nothing cut short by time.
"""

from collections import OrderedDict
from collections.abc import Hashable

from argosy.gateway.route import Version
from argosy.search.model import Answer, FileMatch, Line, Reached

FILE_BYTES = 700                # of the objects around a file's texts, about
RANGE_BYTES = 350
_BY_CHANCE = {Reached.WALL_TIME, Reached.CANCELLED}


class Cache:
    """Bounded in entries, in bytes and in time."""

    def __init__(self, *, entries_max: int, bytes_max: int, ttl_s: float) -> None:
        self.held_bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._ttl_s = ttl_s
        self._version: Version | None = None
        self._entries: OrderedDict[Hashable, tuple[Answer, int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, version: Version, now: float) -> Answer | None:
        self._move_to(version)
        found = self._entries.get(key)
        if found is None:
            return None
        answer, _, until = found
        if now >= until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return answer

    def put(self, key: Hashable, version: Version, answer: Answer, now: float) -> None:
        """Keeps an answer that was made at this version, if it is worth keeping."""
        self._move_to(version)
        if not self._entries_max or self._ttl_s <= 0 or not is_repeatable(answer):
            return
        size = weight_bytes(answer)
        if size > self._bytes_max:
            return
        self._drop(key)
        self._entries[key] = answer, size, now + self._ttl_s
        self.held_bytes += size
        while len(self._entries) > self._entries_max or self.held_bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))

    def _move_to(self, version: Version) -> None:
        if version != self._version:
            self._version = version
            self._entries.clear()
            self.held_bytes = 0

    def _drop(self, key: Hashable) -> None:
        if (dropped := self._entries.pop(key, None)) is not None:
            self.held_bytes -= dropped[1]


def is_repeatable(answer: Answer) -> bool:
    return not answer.missing and _BY_CHANCE.isdisjoint(answer.reached)


def weight_bytes(answer: Answer) -> int:
    """The memory that an answer takes, about; exactness would cost more than it is worth."""
    return FILE_BYTES + sum(map(_file_bytes, answer.files))


def _file_bytes(file: FileMatch) -> int:
    chunks = sum(len(chunk.content) + RANGE_BYTES * (1 + len(chunk.ranges)) for chunk in file.chunks)
    return FILE_BYTES + len(file.path) + len(file.content or b"") + chunks + sum(map(_line_bytes, file.lines))


def _line_bytes(line: Line) -> int:
    text = len(line.content) + sum(map(len, line.before)) + sum(map(len, line.after))
    return text + RANGE_BYTES * (1 + len(line.fragments))
