"""The content index in RocksDB: an indexer's persistent store.

Everything runs on the event loop in pieces of about a millisecond: the binding holds the GIL while it writes and moves
iterators, so threads would gain nothing, and would pass the GIL on only every five milliseconds. Only flush, sync and
compaction release it; they run in a thread. Other tasks run between pieces, so a find waits for one piece at most.

A large put is therefore several batches, and the rows and the value go with the last one. A crash in between leaves
entries without rows: those of a new context belong to no value and are swept, those of an existing context are found,
and putting them again has no effect.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rocksdict import RdictIter, ReadOptions, WriteBatch

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Unavailable
from argosy.ipni.backends import layout
from argosy.ipni.backends.layout import check_value
from argosy.ipni.backends.rocks_database import RocksDatabase, translate_errors
from argosy.ipni.backends.rocks_reader import RocksReader, ValueTable, first_begins
from argosy.ipni.backends.rocks_sweeper import RocksSweeper
from argosy.ipni.formats import varint
from argosy.ipni.formats.privacy import second_digest
from argosy.ipni.model import IndexValue, StoreStats
from argosy.ipni.ports import EntryPage, Rows

PIECE = 512  # rows in a batch: about 1 ms
TURNS = 3  # of the event loop between pieces: to read a request that has arrived, to answer it, to send the answer
READS_PER_TURN = 256  # lookups before other tasks run
DROPS_PER_PIECE = 512  # a few milliseconds
# Short beside the seconds that compaction may take, so that the writer resumes soon after it has caught up.
BEHIND_PAUSE_S = 0.005
BEHIND_S_MAX = 600.0  # compaction that is behind for this long lacks disk or CPU


class RocksStore:
    """A RangedStore in a directory. One process at a time."""

    def __init__(self, database: RocksDatabase, *, is_double_hashed: bool, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._is_double_hashed = is_double_hashed
        self._values = ValueTable(database)
        self._reads = RocksReader(database, self._values)
        self._sweep = RocksSweeper(database, self._values, self._reads, is_double_hashed=is_double_hashed)
        self._turn = asyncio.Lock()  # one writer at a time, because a put is several batches
        self._scans: set[_Scan] = set()
        self._is_closed = False

    @classmethod
    async def open(
        cls, path: Path | str, *, is_double_hashed: bool = False, clock: Clock | None = None
    ) -> "RocksStore":
        """Raises Invalid if the directory holds something else or is damaged, Unavailable if another process uses
        it."""
        database = await asyncio.to_thread(RocksDatabase.open, Path(path), is_double_hashed=is_double_hashed)
        with translate_errors(database.path):
            return cls(database, is_double_hashed=is_double_hashed, clock=clock or SystemClock())

    # -- writes -------------------------------------------------------------------------------------------------------

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        check_value(value)
        # Second hashes double the rows of a piece, so it has half the multihashes and takes the same time.
        pieces = layout.slices(multihashes, PIECE // 2 if self._is_double_hashed else PIECE)
        piece = next(pieces, layout.NOTHING)  # raises Invalid for a bad multihash before anything changes
        async with self._turn:
            with translate_errors(self._open().path):
                held = self._values.find_context(value.provider, value.context)
                number = self._number(held.number if held else None)
                is_allocated = held is not None
                # One piece behind, so that the last one is known to be the last: the rows go with it.
                for following in pieces:
                    await _yield_loop()
                    batch = self._database.batch()
                    if not is_allocated:
                        self._values.allocate(batch, number)
                        is_allocated = True
                    self._add(batch, number, piece)
                    await self._write(batch)
                    piece = following
                if len(multihashes) > PIECE:
                    await _yield_loop()
                batch = self._database.batch()
                self._add(batch, number, piece)
                entries = len(multihashes) + (held.entries if held else 0)
                self._values.name(batch, number, entries, value, is_new=held is None, is_allocated=is_allocated)
                self._add_rows(batch, rows)
                await self._write(batch)
                self._values.forget(number)
        if is_durable:
            await asyncio.to_thread(self._database.sync)

    async def remove_context(self, provider: str, context: bytes, rows: Rows | None = None) -> None:
        async with self._turn:
            with translate_errors(self._open().path):
                batch = self._database.batch()
                held = self._values.find_context(provider, context)
                if held is not None:
                    self._values.remove(batch, held.number, provider, layout.value_key_hash(provider, context))
                self._add_rows(batch, rows)
                await self._write(batch)
                if held is not None:
                    self._values.forget(held.number)

    async def remove_provider(self, provider: str, rows: Rows | None = None) -> None:
        async with self._turn:
            with translate_errors(self._open().path):
                batch = self._database.batch()
                # One row for any number of contexts: everything numbered below is removed, what is put later is not.
                floor = self._values.next_number
                batch.put(layout.floor_key(provider), layout.number_key(floor), self._database.handles["marks"])
                self._add_rows(batch, rows)
                await self._write(batch)
                # After the write: finds must not hide the contexts while a failed write could still keep them.
                self._values.floors[provider] = floor

    async def sweep(self, entries_max: int) -> int:
        freed = 0
        while freed < entries_max:
            async with self._turn:
                with translate_errors(self._open().path):
                    # The lock is released between pieces, so that a put waits for one of them at most.
                    piece = self._sweep.piece(entries_max - freed)
                    if piece is None:
                        break
                    await self._write(piece.batch)
                    for number in piece.numbers:
                        self._values.forget(number)
                    if piece.floor_done is not None:
                        del self._values.floors[piece.floor_done]
            freed += piece.entries
            await asyncio.sleep(0)
        return freed

    async def write(self, rows: Rows, *, is_durable: bool = False) -> None:
        async with self._turn:
            with translate_errors(self._open().path):
                batch = self._database.batch()
                self._add_rows(batch, rows)
                await self._write(batch)
        if is_durable:
            await asyncio.to_thread(self._database.sync)

    # -- reads --------------------------------------------------------------------------------------------------------

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        found: list[tuple[IndexValue, ...]] = []
        for at in range(0, len(multihashes), READS_PER_TURN):
            if at:
                await asyncio.sleep(0)
            with translate_errors(self._open().path):
                found += [self._reads.find(each) for each in multihashes[at : at + READS_PER_TURN]]
        return found

    async def find_second(self, digests: Sequence[bytes]) -> list[bytes | None]:
        return [await self._by_second(digest) for digest in digests]

    async def _by_second(self, digest: bytes) -> bytes | None:
        with translate_errors(self._open().path):
            # Seven bytes of the digest are stored, so there may be several candidates; each is hashed to be sure.
            begins = self._reads.begins_by_second(digest)
        for begin in begins:
            async for _, entry in self._beginning(begin, begin):
                if second_digest(entry.multihash) == digest:
                    return entry.multihash
        return None

    async def find_value(self, value_key_hash: bytes) -> IndexValue | None:
        with translate_errors(self._open().path):
            held = self._values.find_by_hash(value_key_hash)
        return held.value if held else None

    async def multihashes(self, provider: str, context: bytes, *, start: bytes, limit: int) -> list[bytes]:
        with translate_errors(self._open().path):
            held = self._values.find_context(provider, context)
            # Read at once and merged below: each row is sorted, but a context that was put in parts has several.
            rows = [row for _, row in self._reads.inverse(held.number)] if held else []
        found: list[bytes] = []
        at = int.from_bytes(start[: layout.BEGIN_BYTES].ljust(layout.BEGIN_BYTES, b"\0"), "big")
        while held and len(found) < limit:
            begins = first_begins(rows, at, limit - len(found))
            if not begins:
                break
            for begin in begins:
                async for _, entry in self._beginning(layout.begin_bytes(begin), start):
                    if entry.number == held.number:
                        found.append(entry.multihash)
                    if len(found) == limit:
                        return found
            # Prefixes may belong to entries that other contexts have, so a round can find fewer than it looked for.
            at = begins[-1] + 1
        return found

    async def _beginning(self, begin: bytes, start: bytes) -> AsyncIterator[tuple[bytes, layout.IndexEntry]]:
        """The entries whose place has the prefix, from `start` on, page by page."""
        while True:
            with translate_errors(self._open().path):
                page = self._reads.page(begin, start)
            for each in page.entries:
                yield each
            if not page.rest:
                break
            start = page.rest
            await asyncio.sleep(0)

    async def context_size(self, provider: str, context: bytes) -> int:
        with translate_errors(self._open().path):
            held = self._values.find_context(provider, context)
        return held.entries if held else 0

    async def read(self, key: bytes) -> bytes | None:
        with translate_errors(self._open().path):
            row: bytes | None = self._database.families["rows"].get(key)
        return row

    async def scan(self, prefix: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        scan = _Scan(self._open(), prefix)
        self._scans.add(scan)
        try:
            while page := scan.page():
                for key, row in page:
                    yield key, row
                await asyncio.sleep(0)
        finally:
            self._scans.discard(scan)

    async def stats(self) -> StoreStats:
        families = self._open().families
        with translate_errors(self._database.path):
            return StoreStats(
                # An estimate: counting would read the whole index.
                entries=families["entries"].property_int_value("rocksdb.estimate-num-keys") or 0,
                values=families["values"].property_int_value("rocksdb.estimate-num-keys") or 0,
                disk_bytes=self._database.disk_bytes(),
            )

    # -- ranges -------------------------------------------------------------------------------------------------------

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
            # The smallest key after the last one; keys have no common length, so it cannot be incremented.
            rest = keys[-1] + b"\0"
            seen += count
            await asyncio.sleep(0)
        return EntryPage(found, rest)

    async def drop(self, start: bytes, end: bytes, *, limit: int) -> int:
        # Inverse lists still name what is dropped, six bytes each, until the context is removed; the sweep finds no
        # entry for them and continues.
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
            start = keys[-1] + b"\0"  # a seek from the first start would pass all tombstones of this drop
            dropped += len(keys)
            await asyncio.sleep(0)
        return dropped

    def _keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        options = ReadOptions()
        # A range spans many places, and the prefix bloom filter would hide all but the first.
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

    # -- maintenance --------------------------------------------------------------------------------------------------

    async def compact(self) -> None:
        """Frees at once the space that background compaction frees over time."""
        await asyncio.to_thread(self._open().compact)

    async def close(self) -> None:
        """Flushes everything to disk and closes. Running scans end with Unavailable."""
        async with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
            # RocksDB waits for its iterators when it closes; a scan of a slow caller would block the shutdown.
            for scan in self._scans:
                scan.stop()
            # Flushed although the log is complete: the next start need not replay it.
            await asyncio.to_thread(self._database.flush)
            await asyncio.to_thread(self._database.close)

    def _open(self) -> RocksDatabase:
        if self._is_closed:
            raise Unavailable(f"the store {self._database.path} is closed: open it again")
        return self._database

    def _number(self, held: int | None) -> int:
        if held is not None:
            return held
        self._values.next_number += 1
        return self._values.next_number - 1

    def _add(self, batch: WriteBatch, number: int, piece: layout.MultihashSlice) -> None:
        if not piece:
            return
        keys = piece.keys(varint.encode(number))
        batch.set_default_column_family(self._database.handles["entries"])
        put = batch.put
        for key in keys:
            put(key, b"")
        if self._is_double_hashed:
            batch.set_default_column_family(self._database.handles["seconds"])
            for key in sorted(map(layout.second_key, piece.multihashes, keys)):
                put(key, b"")
        # RocksDB's sequence number grows across restarts, so no inverse row ever overwrites another.
        row = layout.inverse_key(number, self._database.db.latest_sequence_number())
        batch.put(row, piece.begins, self._database.handles["inverse"])

    def _add_rows(self, batch: WriteBatch, rows: Rows | None) -> None:
        family = self._database.handles["rows"]
        for key, row in (rows or {}).items():
            if row is None:
                batch.delete(key, family)
            else:
                batch.put(key, row, family)

    async def _write(self, batch: WriteBatch) -> None:
        """Writes the batch, after compaction has caught up."""
        # RocksDB would make the writer wait too, but with the GIL held: all finds would stop.
        if self._database.is_behind():
            until = self._clock.now() + BEHIND_S_MAX
            while self._database.is_behind():
                if self._clock.now() > until:
                    raise Unavailable(
                        f"compaction of the store {self._database.path} has been behind for {BEHIND_S_MAX:.0f} s; "
                        "check its disk, then try again"
                    )
                await self._clock.sleep(BEHIND_PAUSE_S)
        self._database.db.write(batch)


async def _yield_loop() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class _Scan:
    """A snapshot iterator that `close` can drop: RocksDB does not close while an iterator exists."""

    def __init__(self, database: RocksDatabase, prefix: bytes) -> None:
        self._path = database.path
        self._prefix = prefix
        self._found: RdictIter | None = database.families["rows"].iter()
        self._found.seek(prefix)

    def page(self) -> list[tuple[bytes, bytes]]:
        found = self._found
        if found is None:
            raise Unavailable(f"the store {self._path} was closed during a scan: open it again")
        page: list[tuple[bytes, bytes]] = []
        with translate_errors(self._path):
            while len(page) < READS_PER_TURN and found.valid():
                key = found.key()
                if not key.startswith(self._prefix):
                    break
                page.append((key, found.value()))
                found.next()
            found.status()
        return page

    def stop(self) -> None:
        self._found = None
