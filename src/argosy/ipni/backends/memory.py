"""In-memory index stores, for tests and the simulator.

They keep the contract of `IndexStore`, including the deferred freeing: a removed context is not found, and its entries
stay until they are swept, so that a caller that forgets to sweep is noticed.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from sortedcontainers import SortedSet  # type: ignore[import-untyped]

from argosy.base.errors import Unavailable
from argosy.ipni.backends import layout
from argosy.ipni.backends.layout import check_value
from argosy.ipni.formats.privacy import second_digest
from argosy.ipni.model import IndexValue, StoreStats
from argosy.ipni.ports import EntryPage, Rows


@dataclass
class MemoryContext:
    """The content of one (provider, context); in `entries` a multihash that was put twice counts twice."""

    number: int
    value: IndexValue
    multihashes: dict[bytes, None] = field(default_factory=dict)
    entries: int = 0


class MemoryIndexStore:
    """An IndexStore in dictionaries."""

    def __init__(self, *, is_double_hashed: bool = False) -> None:
        self._is_double_hashed = is_double_hashed
        self._contexts: dict[tuple[str, bytes], MemoryContext] = {}
        self._found: dict[bytes, list[MemoryContext]] = {}  # including dead ones until they are swept
        self._by_hash: dict[bytes, MemoryContext] = {}
        self._seconds: dict[bytes, bytes] = {}
        self._dead: dict[int, MemoryContext] = {}
        self._rows: dict[bytes, bytes] = {}
        self._numbers = count(1)
        self._is_closed = False

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        self._check_open()
        check_value(value)
        for multihash in multihashes:
            layout.place(multihash)  # raises Invalid before anything has changed
        key = value.provider, value.context
        key_hash = layout.value_key_hash(value.provider, value.context)
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = MemoryContext(next(self._numbers), value)
        context.value = value
        self._by_hash[key_hash] = context
        for multihash in multihashes:
            if multihash not in context.multihashes:
                context.multihashes[multihash] = None
                self._found.setdefault(multihash, []).append(context)
                if self._is_double_hashed:
                    self._seconds[second_digest(multihash)] = multihash
        context.entries += len(multihashes)
        self._change(rows)

    async def remove_context(self, provider: str, context: bytes, rows: Rows | None = None) -> None:
        self._check_open()
        self._mark_dead(provider, context)
        self._change(rows)

    async def remove_provider(self, provider: str, rows: Rows | None = None) -> None:
        self._check_open()
        for owner, context in [key for key in self._contexts if key[0] == provider]:
            self._mark_dead(owner, context)
        self._change(rows)

    async def sweep(self, entries_max: int) -> int:
        self._check_open()
        freed = 0
        while self._dead and freed < entries_max:
            number, context = next(iter(self._dead.items()))
            while context.multihashes and freed < entries_max:
                self._free(context.multihashes.popitem()[0], context)
                freed += 1
            if not context.multihashes:
                del self._dead[number]
        return freed

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        self._check_open()
        return [tuple([each.value for each in self._live(multihash)]) for multihash in multihashes]

    async def find_second(self, digests: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        return [self._seconds.get(digest) for digest in digests]

    async def find_value(self, value_key_hash: bytes) -> IndexValue | None:
        self._check_open()
        found = self._by_hash.get(value_key_hash)
        return found.value if found else None

    async def multihashes(self, provider: str, context: bytes, *, start: bytes, limit: int) -> list[bytes]:
        self._check_open()
        found = self._contexts.get((provider, context))
        placed = sorted((layout.place(each), each) for each in found.multihashes) if found else []
        at = bisect_left(placed, (start, b""))
        return [multihash for _, multihash in placed[at : at + limit]]

    async def context_size(self, provider: str, context: bytes) -> int:
        self._check_open()
        found = self._contexts.get((provider, context))
        return found.entries if found else 0

    async def write(self, rows: Rows, *, is_durable: bool = False) -> None:
        self._check_open()
        self._change(rows)

    async def read(self, key: bytes) -> bytes | None:
        self._check_open()
        return self._rows.get(key)

    async def scan(self, prefix: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        self._check_open()
        # Sorted into a list, which is the snapshot that the contract asks for.
        for each in sorted((key, row) for key, row in self._rows.items() if key.startswith(prefix)):
            self._check_open()
            yield each

    async def stats(self) -> StoreStats:
        self._check_open()
        return StoreStats(entries=sum(map(len, self._found.values())), values=len(self._contexts), disk_bytes=0)

    async def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the in-memory store is closed")

    def _live(self, multihash: bytes) -> list[MemoryContext]:
        """Live contexts of the multihash, oldest first."""
        layout.place(multihash)
        live = [each for each in self._found.get(multihash, ()) if each.number not in self._dead]
        return sorted(live, key=lambda each: each.number)

    def _change(self, rows: Rows | None) -> None:
        for key, row in (rows or {}).items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row

    def _mark_dead(self, provider: str, context: bytes) -> None:
        found = self._contexts.pop((provider, context), None)
        if found is not None:
            del self._by_hash[layout.value_key_hash(provider, context)]
            self._dead[found.number] = found

    def _free(self, multihash: bytes, context: MemoryContext) -> None:
        holders = self._found[multihash] = [each for each in self._found[multihash] if each is not context]
        # The second hash goes with the last context that has the multihash, as in the RocksDB store.
        if not holders:
            del self._found[multihash]
            self._seconds.pop(second_digest(multihash), None)


class RangedMemoryStore(MemoryIndexStore):
    """A RangedStore in dictionaries, with the multihashes sorted by place."""

    def __init__(self, *, is_double_hashed: bool = False) -> None:
        super().__init__(is_double_hashed=is_double_hashed)
        self._places: SortedSet[tuple[bytes, bytes]] = SortedSet()  # of all entries, with their multihashes

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        await super().put(value, multihashes, rows, is_durable=is_durable)
        self._places.update((layout.place(each), each) for each in multihashes)

    async def entries(self, start: bytes, end: bytes, *, limit: int) -> EntryPage:
        found = list(islice(self._between(start, end), limit + 1))
        live = [(each, context.value) for _, each, context in found[:limit] if context.number not in self._dead]
        return EntryPage(live, found[limit][0] if found[limit:] else b"")

    async def drop(self, start: bytes, end: bytes, *, limit: int) -> int:
        found = list(islice(self._between(start, end), limit))
        for _, multihash, context in found:
            del context.multihashes[multihash]
            context.entries -= 1
            self._free(multihash, context)
        return len(found)

    def _free(self, multihash: bytes, context: MemoryContext) -> None:
        super()._free(multihash, context)
        if multihash not in self._found:
            self._places.discard((layout.place(multihash), multihash))

    def _between(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes, MemoryContext]]:
        """Key, multihash and context of each entry, in order."""
        self._check_open()
        upto = (end, b"") if end else None
        for place, multihash in self._places.irange((start[: layout.PLACE_BYTES], b""), upto, (True, False)):
            for context in sorted(self._found[multihash], key=lambda each: each.number):
                key = place + multihash + layout.number_key(context.number)
                if key >= start:
                    yield key, multihash, context
