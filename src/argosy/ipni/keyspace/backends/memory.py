"""The content index in dictionaries, with ranges: for tests and for the simulated world."""

from collections.abc import Iterator, Sequence
from itertools import islice

from sortedcontainers import SortedSet  # type: ignore[import-untyped]

from argosy.ipni.backends import layout
from argosy.ipni.backends.memory import MemoryContext, MemoryIndexStore
from argosy.ipni.keyspace.ports import EntryPage
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import Rows


class RangedMemoryStore(MemoryIndexStore):
    """A RangedStore without a disk."""

    def __init__(self, *, is_double_hashed: bool = False) -> None:
        super().__init__(is_double_hashed=is_double_hashed)
        self._places: SortedSet[tuple[bytes, bytes]] = SortedSet()  # of all that are found, with their multihashes

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
