"""The content index in RocksDB, with ranges: entries lie in the order of their places, so a slot is one stretch.

What is dropped stays named in the inverse lists of its contexts, six bytes each, until the context itself is removed;
whoever comes by such a list finds no entry and goes on.
"""

import asyncio
from pathlib import Path

from rocksdict import ReadOptions

from argosy.base.clock import Clock
from argosy.ipni.backends import layout
from argosy.ipni.backends.rocks import READS_PER_TURN, RocksStore
from argosy.ipni.backends.rocks_database import translate_errors
from argosy.ipni.keyspace.ports import EntryPage
from argosy.ipni.model import IndexValue

DROPS_PER_PIECE = 512  # a few milliseconds


class RangedRocksStore(RocksStore):
    """A RangedStore in a folder. One process at a time."""

    @classmethod
    async def open(
        cls, path: Path | str, *, is_double_hashed: bool = False, clock: Clock | None = None
    ) -> "RangedRocksStore":
        opened = await super().open(path, is_double_hashed=is_double_hashed, clock=clock)
        assert isinstance(opened, cls)
        return opened

    async def entries(self, start: bytes, end: bytes, *, limit: int) -> EntryPage:
        found: list[tuple[bytes, IndexValue]] = []
        rest, seen = start, 0
        while seen < limit:
            with translate_errors(self._open().path):
                count = min(READS_PER_TURN, limit - seen)
                keys = self._keys(rest, end, count)
                for number, multihash in map(layout.entry, keys):
                    value = self._values.value(number)
                    if value is not None:
                        found.append((multihash, value))
            if len(keys) < count:
                return EntryPage(found, b"")
            rest = keys[-1] + b"\0"
            seen += count
            await asyncio.sleep(0)
        return EntryPage(found, rest)

    async def drop(self, start: bytes, end: bytes, *, limit: int) -> int:
        dropped = 0
        while dropped < limit:
            async with self._turn:
                with translate_errors(self._open().path):
                    keys = self._keys(start, end, min(DROPS_PER_PIECE, limit - dropped))
                    if not keys:
                        break
                    batch = self._database.batch()
                    for key in keys:
                        batch.delete(key, self._database.handles["entries"])
                        if self._is_double_hashed:
                            second = layout.second_key(layout.entry(key).multihash, key)
                            batch.delete(second, self._database.handles["seconds"])
                    await self._write(batch)
            start = keys[-1] + b"\0"  # a search from the first start would wade through the tombstones
            dropped += len(keys)
            await asyncio.sleep(0)
        return dropped

    def _keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        options = ReadOptions()
        options.set_total_order_seek(True)
        found = self._database.families["entries"].iter(options)
        found.seek(start)
        keys: list[bytes] = []
        while len(keys) < limit and found.valid():
            key = found.key()
            if end and key >= end:
                break
            keys.append(key)
            found.next()
        found.status()
        return keys
