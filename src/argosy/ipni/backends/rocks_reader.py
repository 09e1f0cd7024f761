"""Lookups in a RocksDB store.

A lookup is a seek of a few microseconds and runs on the event loop: the binding holds the GIL while it seeks, so a
thread would only add its own cost. Callers with many lookups yield in between.

Digests are claims: anyone can advertise a million multihashes with one prefix. So lookups by prefix return a page at a
time, and each caller bounds what it reads.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from rocksdict import ReadOptions, WriteBatch

from argosy.ipni.backends import layout
from argosy.ipni.backends.rocks_database import RocksDatabase
from argosy.ipni.model import IndexValue

CACHED_VALUES_MAX = 32_768  # 40 MB with the largest metadata, typically 10 MB


class ContextRow(NamedTuple):
    """A live context: its number, its value, and the number of multihashes put under it."""

    number: int
    entries: int
    value: IndexValue


class ValueTable:
    """The interned values: numbers, their values, and the floors of removed providers."""

    def __init__(self, database: RocksDatabase) -> None:
        self._database = database
        self._values = database.families["values"]
        self._marks = database.families["marks"]
        self._cached: dict[int, layout.ValueRow] = {}
        # In memory, because every find checks the floor of every value that it returns.
        self.floors: dict[str, int] = {key[1:].decode(): int.from_bytes(row, "big") for key, row in self.marks(b"f")}
        self.next_number = int.from_bytes(self._marks.get(layout.NEXT_KEY) or b"\1", "big")

    def marks(self, prefix: bytes, start: bytes = b"", limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """The marks with the prefix, in order."""
        return list(islice(self._database.items("marks", prefix, start), limit))

    # -- reads --------------------------------------------------------------------------------------------------------

    def value(self, number: int) -> IndexValue | None:
        """The value of a number; None if it was removed."""
        row = self._row(number)
        return None if row is None or self._is_below_floor(number, row.value.provider) else row.value

    def find_context(self, provider: str, context: bytes) -> ContextRow | None:
        return self.find_by_hash(layout.value_key_hash(provider, context))

    def find_by_hash(self, key_hash: bytes) -> ContextRow | None:
        found = self._marks.get(layout.context_key(key_hash))
        if found is None:
            return None
        number = int.from_bytes(found, "big")
        row = self._row(number)
        if row is None or self._is_below_floor(number, row.value.provider):
            return None
        return ContextRow(number, row.entries, row.value)

    def _row(self, number: int) -> layout.ValueRow | None:
        cached = self._cached.get(number)
        if cached is not None:
            return cached
        found = self._values.get(layout.number_key(number))
        if found is None:
            return None
        row = layout.read_value(found)
        if len(self._cached) >= CACHED_VALUES_MAX:
            # The oldest entry goes, not the least used one: moving an entry at each hit would cost more than a lookup.
            del self._cached[next(iter(self._cached))]
        self._cached[number] = row
        return row

    def _is_below_floor(self, number: int, provider: str) -> bool:
        # Usually no provider has been removed; the first operand spares the second lookup then.
        return bool(self.floors) and number < self.floors.get(provider, 0)

    # -- writes, into the caller's batch ------------------------------------------------------------------------------

    def allocate(self, batch: WriteBatch, number: int) -> None:
        """Allocates a new number, marked for the sweep until `name` is written: after a crash in between, its entries
        are freed."""
        # In the batch of the first entries: a number whose entries are on disk must not be given to another context.
        batch.put(layout.NEXT_KEY, (number + 1).to_bytes(8, "big"), self._database.handles["marks"])
        batch.put(layout.sweep_key(number), b"", self._database.handles["marks"])

    def name(
        self, batch: WriteBatch, number: int, entries: int, value: IndexValue, *, is_new: bool, is_allocated: bool
    ) -> None:
        """Writes the value of a number; with `is_new` the number becomes the context's."""
        batch.put(layout.number_key(number), layout.value_row(entries, value), self._database.handles["values"])
        if is_new:
            marks = self._database.handles["marks"]
            key_hash = layout.value_key_hash(value.provider, value.context)
            batch.put(layout.context_key(key_hash), layout.number_key(number), marks)
            batch.put(layout.provider_prefix(value.provider) + layout.number_key(number), key_hash, marks)
            if is_allocated:
                batch.delete(layout.sweep_key(number), marks)
            else:
                batch.put(layout.NEXT_KEY, (number + 1).to_bytes(8, "big"), marks)

    def remove(self, batch: WriteBatch, number: int, provider: str, key_hash: bytes) -> None:
        """Removes a number; its entries wait for the sweep. A newer number of the same context stays."""
        batch.delete(layout.number_key(number), self._database.handles["values"])
        batch.delete(layout.provider_prefix(provider) + layout.number_key(number), self._database.handles["marks"])
        batch.put(layout.sweep_key(number), b"", self._database.handles["marks"])
        # A context that was removed and put again has a newer number, which must stay reachable.
        if self._marks.get(layout.context_key(key_hash)) == layout.number_key(number):
            batch.delete(layout.context_key(key_hash), self._database.handles["marks"])

    def forget(self, number: int) -> None:
        """Invalidates the cached value; call it after the batch that changes the number is written."""
        self._cached.pop(number, None)


VALUES_PER_MULTIHASH_MAX = 16_384  # the most popular CID known has 14,000 provider records
# A few milliseconds of seeks at most, before other tasks run.
PAGE_MAX = 1024


class PlacePage:
    """Some entries with one prefix, and where to continue; `rest` is empty at the end."""

    __slots__ = ("entries", "rest")

    def __init__(self, entries: list[tuple[bytes, layout.IndexEntry]]) -> None:
        self.entries = entries
        self.rest = entries[-1][0] + b"\0" if len(entries) == PAGE_MAX else b""


class RocksReader:
    """Lookups by multihash, by prefix, and by number."""

    def __init__(self, database: RocksDatabase, values: ValueTable) -> None:
        self._database = database
        self._values = values
        self._entries = database.families["entries"]
        # Seeks within one place use the prefix bloom filter; seeks over several places must not.
        self._same_place = ReadOptions()
        self._same_place.set_prefix_same_as_start(True)
        self._any_place = ReadOptions()
        self._any_place.set_total_order_seek(True)

    def find(self, multihash: bytes) -> tuple[IndexValue, ...]:
        """The values of the multihash, oldest context first."""
        values = [self._values.value(number) for number in self.numbers(multihash)]
        return tuple([value for value in values if value is not None])

    def numbers(self, multihash: bytes) -> list[int]:
        """The numbers under which the multihash was put, in order, including dead ones."""
        place = layout.place(multihash)
        found = self._entries.iter(self._same_place)
        found.seek(place)
        numbers: list[int] = []
        while found.valid() and len(numbers) < VALUES_PER_MULTIHASH_MAX:
            key = found.key()
            if not key.startswith(place):
                break
            number, each = layout.entry(key)
            # Multihashes other than sha2-256 may share a place; the whole one is at the end of the key.
            if each == multihash:
                numbers.append(number)
            found.next()
        found.status()
        # In keys they are varints, whose byte order is not that of the numbers; the oldest context comes first.
        numbers.sort()
        return numbers

    def page(self, begin: bytes, start: bytes) -> PlacePage:
        """Entries whose place has the prefix, from `start` on."""
        found = self._entries.iter(self._any_place)
        found.seek(max(begin, start))
        entries: list[tuple[bytes, layout.IndexEntry]] = []
        while found.valid() and len(entries) < PAGE_MAX:
            key = found.key()
            if not key.startswith(begin):
                break
            entries.append((key, layout.entry(key)))
            found.next()
        found.status()
        return PlacePage(entries)

    def begins_by_second(self, digest: bytes) -> list[bytes]:
        """Prefixes of places where the multihash of this second digest may be."""
        wanted = digest[: layout.SECOND_BYTES]
        return [key[len(wanted) :] for key, _ in islice(self._database.items("seconds", wanted), PAGE_MAX)]

    def inverse(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        """The rows of the inverse list, oldest first."""
        return self._database.items("inverse", layout.number_key(number))


def first_begins(rows: list[bytes], start: int, count_max: int) -> list[int]:
    """The smallest prefixes from `start` on in some rows of an inverse list."""
    parts = []
    for row in rows:
        begins = layout.begins_of(row)
        at = int(np.searchsorted(begins, np.uint64(start)))
        parts.append(begins[at : at + count_max])
    merged: list[int] = np.unique(np.concatenate(parts))[:count_max].tolist() if parts else []
    return merged
