"""The interned values of a store: which numbers are given, to what, and which of them are dead.

A number is dead when its value has no row, or when it is below the floor of its provider: removing a provider with a
million contexts is one row. `Values` only reads and fills batches; what was kept in memory is forgotten once a batch
that changes it is written.
"""

from itertools import islice
from typing import NamedTuple

from rocksdict import WriteBatch

from argosy.ipni.backends import layout
from argosy.ipni.backends.rocks_folder import RocksDatabase
from argosy.ipni.model import IndexValue

CACHED_VALUES_MAX = 32_768  # at the largest metadata 40 MB, as a rule 10


class ContextRow(NamedTuple):
    """A live context: its number, and how many entries were put under it."""

    number: int
    entries: int
    value: IndexValue


class ValueTable:
    def __init__(self, folder: RocksDatabase) -> None:
        self._folder = folder
        self._values = folder.families["values"]
        self._marks = folder.families["marks"]
        self._cached: dict[int, layout.ValueRow] = {}
        self.floors: dict[str, int] = {key[1:].decode(): int.from_bytes(row, "big") for key, row in self.marks(b"f")}
        self.next_number = int.from_bytes(self._marks.get(layout.NEXT_KEY) or b"\1", "big")

    def marks(self, prefix: bytes, start: bytes = b"", limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """The marks that begin so, in order."""
        return list(islice(self._folder.items("marks", prefix, start), limit))

    # -- reading

    def value(self, number: int) -> IndexValue | None:
        """None if it is dead."""
        row = self._row(number)
        return None if row is None or self._is_below_floor(number, row.value.provider) else row.value

    def held(self, provider: str, context: bytes) -> ContextRow | None:
        return self.held_by_hash(layout.value_key_hash(provider, context))

    def held_by_hash(self, key_hash: bytes) -> ContextRow | None:
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
        found = self._values.get(layout.fixed(number))
        if found is None:
            return None
        row = layout.read_value(found)
        if len(self._cached) >= CACHED_VALUES_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[number] = row
        return row

    def _is_below_floor(self, number: int, provider: str) -> bool:
        return bool(self.floors) and number < self.floors.get(provider, 0)

    # -- changing

    def give(self, batch: WriteBatch, number: int) -> None:
        """Marks a new number as given, and as one whose entries are nobody's until `name` is written too."""
        batch.put(layout.NEXT_KEY, (number + 1).to_bytes(8, "big"), self._folder.handles["marks"])
        batch.put(layout.doomed_key(number), b"", self._folder.handles["marks"])

    def name(
        self, batch: WriteBatch, number: int, entries: int, value: IndexValue, *, is_new: bool, is_given: bool
    ) -> None:
        """Says what a number stands for; with `is_new` it is the context's from now on."""
        batch.put(layout.fixed(number), layout.value_row(entries, value), self._folder.handles["values"])
        if is_new:
            marks = self._folder.handles["marks"]
            key_hash = layout.value_key_hash(value.provider, value.context)
            batch.put(layout.context_key(key_hash), layout.fixed(number), marks)
            batch.put(layout.owned_prefix(value.provider) + layout.fixed(number), key_hash, marks)
            if is_given:
                batch.delete(layout.doomed_key(number), marks)
            else:
                batch.put(layout.NEXT_KEY, (number + 1).to_bytes(8, "big"), marks)

    def remove(self, batch: WriteBatch, number: int, provider: str, key_hash: bytes) -> None:
        """Dead at once, its entries to be swept. A newer number of the same context stays."""
        batch.delete(layout.fixed(number), self._folder.handles["values"])
        batch.delete(layout.owned_prefix(provider) + layout.fixed(number), self._folder.handles["marks"])
        batch.put(layout.doomed_key(number), b"", self._folder.handles["marks"])
        if self._marks.get(layout.context_key(key_hash)) == layout.fixed(number):
            batch.delete(layout.context_key(key_hash), self._folder.handles["marks"])

    def forget(self, number: int) -> None:
        """After the batch that changed it."""
        self._cached.pop(number, None)
