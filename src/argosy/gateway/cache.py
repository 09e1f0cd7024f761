"""A cache of search results, valid for one version of leases and catalog.

A result is stored under the version it was computed at, and any other version clears the cache. A refreshed index
changes the catalog version only when the node has recorded it, so a result may be stale until then, bounded by the TTL.
Only repeatable results are cached: not those that are incomplete or were cut short by time.
"""

from collections.abc import Hashable

from argosy.base.cache import Cache
from argosy.gateway.route import Version
from argosy.search.model import FileMatch, LimitHit, Line, SearchResult

FILE_BYTES = 700  # approximate overhead of the Python objects around a file's texts
RANGE_BYTES = 350
_BY_CHANCE = {LimitHit.WALL_TIME, LimitHit.CANCELLED}  # another run of the same query may find more


class SearchCache:
    """Results of one version, bounded in entries, bytes and age."""

    __slots__ = ("_entries", "_get", "_is_enabled", "_ttl_s", "_version")

    def __init__(self, *, entries_max: int, bytes_max: int, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        # Weighing a result visits each of its chunks, in vain if nothing fits anyway.
        self._is_enabled = min(entries_max, bytes_max, ttl_s) > 0
        self._version: Version | None = None
        self._entries: Cache[Hashable, SearchResult] = Cache(entries_max=entries_max, bytes_max=bytes_max)
        self._get = self._entries.get  # bound once: every query reads the cache

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
        """Store a result computed at this version, if it is repeatable."""
        if version != self._version:
            self._move_to(version)
        if self._is_enabled and is_repeatable(answer):
            self._entries.put(key, answer, size_bytes=weight_bytes(answer), expires_at=now + self._ttl_s)

    def _move_to(self, version: Version) -> None:
        self._version = version
        # All at once: the entries were computed at one version, so none of them is valid any more.
        self._entries.clear()


def is_repeatable(answer: SearchResult) -> bool:
    return not answer.missing and _BY_CHANCE.isdisjoint(answer.limits_hit)


def weight_bytes(answer: SearchResult) -> int:
    """Approximate memory of a result; an exact figure would cost more than it is worth."""
    return FILE_BYTES + sum(map(_file_bytes, answer.files))


def _file_bytes(file: FileMatch) -> int:
    chunks = sum(len(chunk.content) + RANGE_BYTES * (1 + len(chunk.ranges)) for chunk in file.chunks)
    return FILE_BYTES + len(file.path) + len(file.content or b"") + chunks + sum(map(_line_bytes, file.lines))


def _line_bytes(line: Line) -> int:
    text = len(line.content) + sum(map(len, line.before)) + sum(map(len, line.after))
    return text + RANGE_BYTES * (1 + len(line.fragments))
