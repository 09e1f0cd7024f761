"""Buckets in a SQLite file: an embedded limiter whose state survives a restart.

All buckets are in memory. The changes of a batch are written to the file before its responses are returned; one write
covers every batch that arrived during the previous write (group commit). A killed process loses nothing that it has
returned; a host that loses power may lose the last writes, because SQLite does not sync each of them.

One process has the file locked while it is open: two processes would each count half of the hits. Several processes
use Redis.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, tzinfo
from pathlib import Path

from argosy.base.clock import Clock
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.limits.buckets import Bucket, LeakyBucket, TokenBucket
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse, Status
from argosy.throttle.limits.table import KEYS_MAX, BucketTable, count, count_table, now_ms

LOCK_WAIT_S = 5.0  # time for the previous process to end, when a service restarts
FILE_VERSION = 1

_OURS = 0x41726C6D  # "Arlm": SQLite's application_id, which distinguishes our files from those of other programs


class BucketFile:
    """The SQLite file, one row per bucket. Its methods block and must not overlap; one thread calls them all."""

    def __init__(self, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, timeout=lock_wait_s, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise Unavailable(
                f"cannot open {path}: {error}; check that its directory exists and is writable"
            ) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def rows(self) -> list[tuple[str, Bucket]]:
        """Every bucket, least recently changed first."""
        try:
            stored = self._connection.execute("SELECT key, line FROM bucket ORDER BY rowid").fetchall()
        except sqlite3.DatabaseError as error:
            raise _damage_error(self.path, error) from error
        return [(key, decode_bucket(line)) for key, line in stored]

    def save(self, changes: Mapping[str, Bucket | None]) -> None:
        """Saves all changes or none."""
        removed = [(key,) for key, bucket in changes.items() if bucket is None]
        saved = [(key, encode_bucket(bucket)) for key, bucket in changes.items() if bucket is not None]
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany("DELETE FROM bucket WHERE key = ?", removed)
            # REPLACE gives the row a new rowid, so that rows in rowid order are in the order of their last change.
            self._connection.executemany("REPLACE INTO bucket (key, line) VALUES (?, ?)", saved)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise Unavailable(f"cannot write {self.path}: {error}") from error

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> None:
        """Locks the file until it is closed, and creates or checks the table."""
        run = self._connection.execute
        try:
            # Exclusive mode also keeps SQLite's shared memory file away, which network file systems do not support.
            run("PRAGMA locking_mode = EXCLUSIVE")
            run("PRAGMA journal_mode = WAL")
            # In WAL mode NORMAL syncs at checkpoints only: a crash of the process loses nothing, a power failure the
            # last commits. FULL would cost one fsync per batch for counters that expire within minutes.
            run("PRAGMA synchronous = NORMAL")
            run("BEGIN IMMEDIATE")
            (owner,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
            if not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                run("CREATE TABLE bucket (key TEXT NOT NULL UNIQUE, line TEXT NOT NULL)")
                run(f"PRAGMA application_id = {_OURS}")
                run(f"PRAGMA user_version = {FILE_VERSION}")
            elif owner != _OURS:
                raise Invalid(f"{self.path} is the database of another program; set limits.store to another file")
            elif version != FILE_VERSION:
                raise Invalid(
                    f"{self.path} has format version {version}, expected {FILE_VERSION}; "
                    "use the version of argosy that wrote it"
                )
            run("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise Unavailable(f"cannot use {self.path}: {error}") from error
            advice = "use one file per process, or redis:// for all processes"
            raise Conflict(f"{self.path} is in use by another process; {advice}") from error
        except sqlite3.DatabaseError as error:
            raise _damage_error(self.path, error) from error


def _damage_error(path: Path, error: sqlite3.Error) -> Invalid:
    return Invalid(f"{path} is damaged or not a SQLite file: {error}; move it away to start with an empty one")


def encode_bucket(bucket: Bucket) -> str:
    """The line for a bucket."""
    if isinstance(bucket, TokenBucket):
        return "T {:d} {:d} {:d} {:d} {:d} {:d}".format(*bucket)
    # `repr` of a float is read back exactly; fixed digits would change the remaining hits at each restart.
    return f"L {bucket.burst} {bucket.remaining!r} {bucket.updated_at} {bucket.expire_at}"


def decode_bucket(line: str) -> Bucket:
    """The bucket of a line."""
    kind, *parts = line.split(" ")
    try:
        if kind == "T" and len(parts) == 6:
            limit, duration, remaining, created_at, expire_at, status = map(int, parts)
            return TokenBucket(limit, duration, remaining, created_at, expire_at, Status(status))
        if kind == "L" and len(parts) == 4:
            return LeakyBucket(int(parts[0]), float(parts[1]), int(parts[2]), int(parts[3]))
    except ValueError:
        pass
    raise Invalid(f"invalid bucket {line[:100]!r}: written by another program, or damaged")


class SqliteLimiter:
    """A bounded table of buckets that is saved in a file; for use in one event loop."""

    def __init__(self, file: BucketFile, table: BucketTable, *, clock: Clock, metrics: Metrics | None) -> None:
        """Use `open`."""
        self._file = file
        self._table = table
        self._clock = clock
        self._metrics = metrics
        # One thread, because the connection must not be used by two at once.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="argosy-limits")
        self._applied = 0  # batches that have changed the table
        self._saved = 0  # batches whose changes are in the file
        self._saving: asyncio.Task[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        clock: Clock,
        zone: tzinfo = UTC,
        keys_max: int = KEYS_MAX,
        metrics: Metrics | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> "SqliteLimiter":
        """Opens or creates the file, and loads the buckets that have not expired."""
        table = BucketTable(zone=zone, keys_max=keys_max, is_saved=True)
        file = await asyncio.to_thread(BucketFile, Path(path), lock_wait_s=lock_wait_s)
        try:
            table.restore(await asyncio.to_thread(file.rows), now_ms(clock))
        except BaseException:
            file.close()
            raise
        return cls(file, table, clock=clock, metrics=metrics)

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        # After `close` a change could no longer be saved.
        if self._is_closed:
            raise Unavailable(f"limiter {self._file.path} is closed; open a new one")
        responses = self._table.answer(requests, now_ms(self._clock))
        self._applied += 1
        await self._wait_saved(self._applied)
        count(self._metrics, responses)
        count_table(self._metrics, self._table)
        return responses

    async def ping(self) -> None:
        """Retries a write that failed, if any."""
        await self._wait_saved(self._applied)

    async def close(self) -> None:
        """Writes the remaining changes and closes the file."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._wait_saved(self._applied)
        finally:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
            self._thread.shutdown()

    async def _wait_saved(self, batch: int) -> None:
        """Returns when the changes of this batch are in the file; one write may cover many batches."""
        while self._saved < batch:
            if self._saving is None or self._saving.done():
                self._saving = asyncio.create_task(self._save())
                self._saving.add_done_callback(_retrieve_error)
            # Shielded, because other callers wait for the same write: cancelling one must not cancel it.
            await asyncio.shield(self._saving)

    async def _save(self) -> None:
        # Taken together before the first await, so that the write contains exactly the batches that it counts.
        batch, changes = self._applied, self._table.take_changes()
        try:
            if changes:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._file.save, changes)
        except BaseException:
            self._table.restore_changes(changes)
            raise
        self._saved = batch


def _retrieve_error(saving: asyncio.Task[None]) -> None:
    """Marks an error as retrieved: callers that wait receive it, and if all were cancelled asyncio would log it."""
    if not saving.cancelled():
        saving.exception()
