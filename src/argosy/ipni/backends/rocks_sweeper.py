"""Frees the entries of removed values, a bounded piece at a time.

The inverse list of a dead number names its entries. A piece is one batch, which deletes entries together with their
part of the list, so an interrupted sweep continues where it stopped.

If very many entries share a prefix, reading them takes several pieces. The position within them is in memory only;
after a restart they are read again from the start, without those that were freed.
"""

from dataclasses import dataclass, field

from rocksdict import WriteBatch

from argosy.ipni.backends import layout
from argosy.ipni.backends.rocks_database import RocksDatabase
from argosy.ipni.backends.rocks_reader import RocksReader, ValueTable

# Each is up to four rows, so a piece takes about as long as one of entries.
CONTEXTS_PER_PIECE_MAX = 256
ENTRIES_PER_PIECE_MAX = 512  # a few milliseconds


@dataclass
class SweepBatch:
    """One batch of a sweep."""

    batch: WriteBatch
    entries: int = 0
    numbers: list[int] = field(default_factory=list)  # whose values it removes
    floor_done: str | None = None  # the provider whose removed contexts are all marked once this is written


@dataclass
class _SharedPrefix:
    """Prefixes that many entries share, in the inverse list of one number."""

    number: int
    rest: bytes = b""  # where to continue in the current prefix
    done: set[bytes] = field(default_factory=set)  # prefixes that were read to their end


class RocksSweeper:
    """Computes the next piece of the sweep; the store writes it."""

    def __init__(
        self, database: RocksDatabase, values: ValueTable, reads: RocksReader, *, is_double_hashed: bool
    ) -> None:
        self._database = database
        self._values = values
        self._reads = reads
        self._is_double_hashed = is_double_hashed
        self._shared = _SharedPrefix(0)
        # Where the last piece ended: swept rows leave tombstones, and a seek from the start would pass all of them.
        self._sweep_from = 0
        self._owned_from: dict[str, int] = {}

    def piece(self, entries_max: int) -> SweepBatch | None:
        """The next piece; None if nothing is left. Dead numbers come before the contexts of removed providers, so that
        the list of dead numbers stays short."""
        number = self._dead()
        if number is not None:
            return self._entries(number, min(entries_max, ENTRIES_PER_PIECE_MAX))
        for provider, floor in self._values.floors.items():
            return self._contexts(provider, floor)
        return None

    def _dead(self) -> int | None:
        """The next number whose entries are to be freed."""
        # The second round finds numbers that were removed since and are smaller.
        for start in (self._sweep_from, 0):
            for key, _ in self._values.marks(b"d", layout.sweep_key(start), 1):
                self._sweep_from = int.from_bytes(key[1:], "big")
                return self._sweep_from
        self._sweep_from = 0
        return None

    def _contexts(self, provider: str, floor: int) -> SweepBatch:
        """Marks contexts of a removed provider as dead."""
        prefix = layout.provider_prefix(provider)
        start = prefix + layout.number_key(self._owned_from.pop(provider, 0))
        owned = [
            (int.from_bytes(key[len(prefix) :], "big"), key_hash)
            for key, key_hash in self._values.marks(prefix, start, CONTEXTS_PER_PIECE_MAX)
        ]
        piece = SweepBatch(self._database.batch())
        for number, key_hash in owned:
            if number < floor:
                self._values.remove(piece.batch, number, provider, key_hash)
                piece.numbers.append(number)
        # A full piece: there may be more, so the floor stays until a piece is not full.
        if len(piece.numbers) == CONTEXTS_PER_PIECE_MAX:
            self._owned_from[provider] = piece.numbers[-1]
        else:
            piece.batch.delete(layout.floor_key(provider), self._database.handles["marks"])
            piece.floor_done = provider
        return piece

    def _entries(self, number: int, entries_max: int) -> SweepBatch:
        if self._shared.number != number:
            self._shared = _SharedPrefix(number)
        piece = SweepBatch(self._database.batch())
        first = next(self._reads.inverse(number), None)
        if first is None:
            piece.batch.delete(layout.sweep_key(number), self._database.handles["marks"])
            return piece
        key, row = first
        taken = 0
        for taken in range(0, min(len(row), entries_max * layout.BEGIN_BYTES), layout.BEGIN_BYTES):
            # Stops at a prefix that needs another page: the row is cut there and the next piece continues.
            if not self._free(piece.batch, row[taken : taken + layout.BEGIN_BYTES]):
                break
        else:
            taken += layout.BEGIN_BYTES
        piece.entries = taken // layout.BEGIN_BYTES
        if row[taken:]:
            piece.batch.put(key, row[taken:], self._database.handles["inverse"])
        else:
            piece.batch.delete(key, self._database.handles["inverse"])
        return piece

    def _free(self, batch: WriteBatch, begin: bytes) -> bool:
        """Deletes the number's entries with this prefix, one page at a time; returns whether that was the last page."""
        shared = self._shared
        if begin in shared.done:
            return True
        page = self._reads.page(begin, shared.rest)
        for key, entry in page.entries:
            if entry.number == shared.number:
                batch.delete(key, self._database.handles["entries"])
                # The second hash belongs to the multihash, not to the number: it goes with the last context that has
                # it.
                if self._is_double_hashed and self._reads.numbers(entry.multihash) == [shared.number]:
                    batch.delete(layout.second_key(entry.multihash, begin), self._database.handles["seconds"])
        if shared.rest and not page.rest:
            shared.done.add(begin)
        shared.rest = page.rest
        return not page.rest
