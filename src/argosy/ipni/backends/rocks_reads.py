"""Lookups in a RocksDB store.

A lookup is a seek of a few microseconds, done where it is asked: the binding holds the interpreter while it seeks, so a
thread would only add its own cost. Whoever looks up many lets others run in between.

Digests are claims: anybody may advertise a million that begin alike. So whoever looks by a beginning gets a page at a
time, and pays for no more.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np
from rocksdict import ReadOptions

from argosy.ipni.backends import layout
from argosy.ipni.backends.rocks_folder import RocksDatabase
from argosy.ipni.backends.rocks_values import ValueTable
from argosy.ipni.model import IndexValue

VALUES_PER_MULTIHASH_MAX = 16_384  # the most popular content known has 14 000 providers
PAGE_MAX = 1024


class PlacePage:
    """Some of the entries whose place begins alike, and where to go on; empty if there is no more."""

    __slots__ = ("entries", "rest")

    def __init__(self, entries: list[tuple[bytes, layout.IndexEntry]]) -> None:
        self.entries = entries
        self.rest = entries[-1][0] + b"\0" if len(entries) == PAGE_MAX else b""


class RocksReader:
    def __init__(self, folder: RocksDatabase, values: ValueTable) -> None:
        self._folder = folder
        self._values = values
        self._entries = folder.families["entries"]
        self._same_place = ReadOptions()
        self._same_place.set_prefix_same_as_start(True)
        self._any_place = ReadOptions()
        self._any_place.set_total_order_seek(True)

    def find(self, multihash: bytes) -> tuple[IndexValue, ...]:
        """Oldest context first."""
        values = [self._values.value(number) for number in self.numbers(multihash)]
        return tuple([value for value in values if value is not None])

    def numbers(self, multihash: bytes) -> list[int]:
        """All under which it was put, in order; dead ones too."""
        place = layout.place(multihash)
        found = self._entries.iter(self._same_place)
        found.seek(place)
        numbers: list[int] = []
        while found.valid() and len(numbers) < VALUES_PER_MULTIHASH_MAX:
            key = found.key()
            if not key.startswith(place):
                break
            number, each = layout.entry(key)
            if each == multihash:
                numbers.append(number)
            found.next()
        found.status()
        numbers.sort()
        return numbers

    def page(self, begin: bytes, start: bytes) -> PlacePage:
        """Entries whose place begins so, from `start` on."""
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
        """Where the multihash may lie."""
        wanted = digest[: layout.SECOND_BYTES]
        return [key[len(wanted) :] for key, _ in islice(self._folder.items("seconds", wanted), PAGE_MAX)]

    def inverse(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        """The rows of the inverse list, oldest first."""
        return self._folder.items("inverse", layout.fixed(number))


def first_begins(rows: list[bytes], start: int, count_max: int) -> list[int]:
    """The smallest beginnings from `start` on in some rows of an inverse list."""
    parts = []
    for row in rows:
        begins = layout.begins_of(row)
        at = int(np.searchsorted(begins, np.uint64(start)))
        parts.append(begins[at : at + count_max])
    merged: list[int] = np.unique(np.concatenate(parts))[:count_max].tolist() if parts else []
    return merged
