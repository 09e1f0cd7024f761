"""A chain in one SQLite file: every change is one transaction, durable before it returns.

One process at a time publishes, holding a lock file: two publishers continuing from the same head would fork the
chain. Any number of processes may read.
"""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from argosy.base.errors import Conflict, NotFound, Unavailable
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.cid import Cid
from argosy.ipni.publish.ports import ChainLink, PublishedContext

SCHEMA = (Path(__file__).parent / "sql" / "chain.sql").read_text(encoding="utf-8")
PAGE_BYTES = 16384  # blocks of entries are large
VACUUM_PAGES_MAX = 1 << 16  # freed on disk at a time: 1 GiB
BUSY_S = 2.0  # for this long a process that is exiting may still hold the lock
LOCK_RETRY_S = 0.05

_T = TypeVar("_T")

_PUBLISHING = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA foreign_keys = ON;
{SCHEMA}
"""
_READING = "PRAGMA query_only = ON;"

_CONTEXT = "SELECT provider, context, metadata, advert, multihashes FROM offers WHERE provider = ?"
_PUT_CONTEXT = """
INSERT INTO offers (provider, context, metadata, advert, multihashes) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (provider, context) DO UPDATE
SET metadata = excluded.metadata, advert = excluded.advert, multihashes = excluded.multihashes
RETURNING id
"""
_SWEEP = """
DELETE FROM blocks WHERE cid IN (
    SELECT cid FROM blocks WHERE is_advert = 0 AND cid NOT IN (SELECT cid FROM entries) LIMIT ?
)
"""


class SqliteChain:
    """A ChainStore in a file. Its calls run one after another in a thread of its own."""

    def __init__(
        self, connection: sqlite3.Connection, thread: ThreadPoolExecutor, path: Path, lock: int | None
    ) -> None:
        self._connection = connection
        self._thread = thread
        self._path = path
        self._lock = lock  # descriptor of the lock file; None for a reader

    @classmethod
    async def open(cls, path: Path) -> "SqliteChain":
        """Opens the chain to publish, creating the file if needed. Raises Conflict if another process publishes."""
        return await cls._open(path, _connect_to_publish)

    @classmethod
    async def read(cls, path: Path) -> "SqliteChain":
        """Opens the chain to serve it, also while another process publishes; every change fails."""
        return await cls._open(path, _connect_to_read)

    @classmethod
    async def _open(cls, path: Path, connect: Callable[[Path], tuple[sqlite3.Connection, int | None]]) -> "SqliteChain":
        thread = ThreadPoolExecutor(1, thread_name_prefix="ipni-chain")
        try:
            connection, lock = await asyncio.get_running_loop().run_in_executor(thread, connect, path)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(connection, thread, path, lock)

    async def claim(self, publisher: str) -> None:
        found = await self._run(lambda db: _claim(db, publisher), is_durable=True)
        if found != publisher:
            raise Conflict(
                f"the chain in {self._path} belongs to {found}, not to {publisher}; use its key, or another file"
            )

    async def head(self) -> Cid | None:
        row = await self._run(lambda db: db.execute("SELECT value FROM state WHERE name = 'head'").fetchone())
        return cids.decode(row[0]) if row else None

    async def block(self, cid: Cid) -> bytes | None:
        row = await self._run(lambda db: db.execute("SELECT data FROM blocks WHERE cid = ?", (cid.bytes,)).fetchone())
        return bytes(row[0]) if row else None

    async def stage(self, cid: Cid, data: bytes) -> None:
        await self._run(lambda db: _put_block(db, cid, data, is_ad=False))

    async def append(self, links: Sequence[ChainLink]) -> None:
        def change(db: sqlite3.Connection) -> None:
            for link in links:
                _append(db, link)

        await self._run(change, is_durable=True)

    async def find_context(self, provider: str, context: bytes) -> PublishedContext | None:
        query = f"{_CONTEXT} AND context = ?"
        row = await self._run(lambda db: db.execute(query, (provider, context)).fetchone())
        return _context_from_row(row) if row else None

    async def list_contexts(self, provider: str, beginning: bytes = b"") -> list[PublishedContext]:
        query = f"{_CONTEXT} AND context >= ? AND (? OR context < ?) ORDER BY context"
        end = _end_of_prefix(beginning)
        values = (provider, beginning, end is None, end)
        return [_context_from_row(row) for row in await self._run(lambda db: db.execute(query, values).fetchall())]

    async def sweep(self, blocks_max: int) -> int:
        swept = await self._run(lambda db: db.execute(_SWEEP, (blocks_max,)).rowcount)
        if swept:
            # The pragma frees one page per step, and of Python's calls only executescript runs a statement to its end.
            await self._run(lambda db: db.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES_MAX})"))
        return swept

    async def close(self) -> None:
        # In the thread of the connection, as sqlite3 requires, and after the work that is queued there.
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown(wait=False)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _run(self, work: Callable[[sqlite3.Connection], _T], *, is_durable: bool = False) -> _T:
        """Runs the work in one transaction, to its end even if the caller is cancelled.

        A change that is not durable itself becomes so with the next durable one, which syncs the whole log.
        """

        def transaction() -> _T:
            try:
                # Before the transaction: SQLite does not change it within one.
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
                with self._connection:
                    return work(self._connection)
            except sqlite3.OperationalError as error:
                raise Unavailable(f"the chain in {self._path} is unavailable: {error}") from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, transaction)


def _connect_to_publish(path: Path) -> tuple[sqlite3.Connection, int]:
    # A file of its own: closing a descriptor of the database file would drop SQLite's locks on it.
    lock = _lock_file(path)
    try:
        return _connect(path, _PUBLISHING), lock
    except BaseException:
        os.close(lock)
        raise


def _connect_to_read(path: Path) -> tuple[sqlite3.Connection, None]:
    if not path.exists():
        raise NotFound(f"no chain in {path}; publish something first")
    return _connect(path, _READING), None


def _connect(path: Path, script: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S)
    try:
        connection.executescript(script)
    except sqlite3.OperationalError as error:
        connection.close()
        raise Unavailable(f"the chain in {path} cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _lock_file(path: Path) -> int:
    """Takes the lock, which lasts until the descriptor is closed, at the latest when the process exits."""
    try:
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"the chain in {path} cannot be opened: {error}") from error
    until = time.monotonic() + BUSY_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(lock)
                raise Conflict(
                    f"another process publishes the chain in {path}; wait until it is done, or stop it if it is "
                    "another `argosy up` or node with the same data directory"
                ) from None
            time.sleep(LOCK_RETRY_S)


def _claim(db: sqlite3.Connection, publisher: str) -> str:
    # Only if there is none: the first publisher of a chain remains its owner.
    db.execute("INSERT OR IGNORE INTO state VALUES ('publisher', ?)", (publisher,))
    return str(db.execute("SELECT value FROM state WHERE name = 'publisher'").fetchone()[0])


def _end_of_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys with the prefix; None if there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _put_block(db: sqlite3.Connection, cid: Cid, data: bytes, *, is_ad: bool) -> None:
    db.execute("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", (cid.bytes, is_ad, data))


def _append(db: sqlite3.Connection, link: ChainLink) -> None:
    _put_block(db, link.cid, link.data, is_ad=True)
    db.execute("INSERT OR REPLACE INTO state VALUES ('head', ?)", (link.cid.bytes,))
    published = link.published
    if published is None:
        return
    if link.is_removed:
        db.execute("DELETE FROM offers WHERE provider = ? AND context = ?", (published.provider, published.context))
        return
    row = (published.provider, published.context, published.metadata, published.ad.bytes, published.multihashes)
    (number,) = db.execute(_PUT_CONTEXT, row).fetchone()
    db.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", [(cid.bytes, number) for cid in link.entries])


def _context_from_row(row: tuple[str, bytes, bytes, bytes, int]) -> PublishedContext:
    provider, context, metadata, ad, multihashes = row
    return PublishedContext(provider, context, metadata, cids.decode(ad), multihashes)
