"""A cache bounded in entries, in bytes and in time; the least recently used entry is evicted first.

The caller passes the time, so that a test or the simulator decides it, and the weight of each entry, because only the
caller knows what an entry refers to. An entry without an expiry is a member of a plain LRU table.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Values by key. `None` is no value: a table of absent things stores a marker."""

    __slots__ = ("_bytes_max", "_entries", "_entries_max", "_lookup", "_touch", "held_bytes")

    def __init__(self, *, entries_max: int, bytes_max: float = math.inf) -> None:
        self.held_bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: OrderedDict[K, tuple[V, int, float]] = OrderedDict()
        # Every search and every find reads a cache: two attribute lookups are a tenth of a read.
        self._lookup = self._entries.get
        self._touch = self._entries.move_to_end

    def __len__(self) -> int:
        """The entries held, those that have expired and were not read since included."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether there is an entry, expired or not; the order of eviction stays."""
        return key in self._entries

    def get(self, key: K, now: float = 0.0) -> V | None:
        """The value, which is now the most recently used; None if there is none, or if it has expired."""
        entry = self._lookup(key)
        if entry is None:
            return None
        value, _, expires_at = entry
        # Removed when it is read: entries that are not read are evicted in their turn, so no timer is needed.
        if now >= expires_at:
            self.remove(key)
            return None
        self._touch(key)
        return value

    def put(self, key: K, value: V, *, size_bytes: int = 0, expires_at: float = math.inf) -> None:
        """Stores the value in place of an earlier one. A value larger than the whole cache is not stored."""
        # First, because the bytes of the earlier value must not count.
        self.remove(key)
        # Storing it would evict everything else for a value that the next one evicts again.
        if size_bytes > self._bytes_max:
            return
        self._entries[key] = value, size_bytes, expires_at
        self.held_bytes += size_bytes
        while len(self._entries) > self._entries_max or self.held_bytes > self._bytes_max:
            _, (_, evicted_bytes, _) = self._entries.popitem(last=False)
            self.held_bytes -= evicted_bytes

    def remove(self, key: K) -> bool:
        """Whether there was an entry."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self.held_bytes -= entry[1]
        return True

    def clear(self) -> None:
        self._entries.clear()
        self.held_bytes = 0
