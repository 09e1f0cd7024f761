"""Search answers cached for a moment; no answer outlives a change of leases or catalog.

An answer is cached under the version of leases and catalog it was made at, and every other version empties the cache. A
refreshed index shows in the catalog a moment later; until then, and for no longer than the time to live, an answer may
be that old. Only what the fleet would answer again is cached: nothing incomplete, nothing cut short by time.
"""

from collections.abc import Hashable

from argosy.base.cache import Cache
from argosy.gateway.route import Version
from argosy.search.model import FileMatch, LimitHit, Line, SearchResult

FILE_BYTES = 700  # of the objects around a file's texts, about
RANGE_BYTES = 350
_BY_CHANCE = {LimitHit.WALL_TIME, LimitHit.CANCELLED}


class SearchCache:
    """Answers of one version, bounded in entries, in bytes and in time."""

    __slots__ = ("_entries", "_get", "_ttl_s", "_version")

    def __init__(self, *, entries_max: int, bytes_max: int, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._version: Version | None = None
        self._entries: Cache[Hashable, SearchResult] = Cache(entries_max=entries_max, bytes_max=bytes_max)
        self._get = self._entries.get

    @property
    def held_bytes(self) -> int:
        return self._entries.held_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, version: Version, now: float) -> SearchResult | None:
        if version != self._version:
            self._move_to(version)
        return self._get(key, now)

    def put(self, key: Hashable, version: Version, answer: SearchResult, now: float) -> None:
        """Stores an answer that was made at this version, if the fleet would give it again."""
        if version != self._version:
            self._move_to(version)
        if self._ttl_s > 0 and is_repeatable(answer):
            self._entries.put(key, answer, size_bytes=weight_bytes(answer), expires_at=now + self._ttl_s)

    def _move_to(self, version: Version) -> None:
        self._version = version
        self._entries.clear()


def is_repeatable(answer: SearchResult) -> bool:
    return not answer.missing and _BY_CHANCE.isdisjoint(answer.limits_hit)


def weight_bytes(answer: SearchResult) -> int:
    """The memory that an answer takes, about; an exact figure would cost more than it is worth."""
    return FILE_BYTES + sum(map(_file_bytes, answer.files))


def _file_bytes(file: FileMatch) -> int:
    chunks = sum(len(chunk.content) + RANGE_BYTES * (1 + len(chunk.ranges)) for chunk in file.chunks)
    return FILE_BYTES + len(file.path) + len(file.content or b"") + chunks + sum(map(_line_bytes, file.lines))


def _line_bytes(line: Line) -> int:
    text = len(line.content) + sum(map(len, line.before)) + sum(map(len, line.after))
    return text + RANGE_BYTES * (1 + len(line.fragments))
