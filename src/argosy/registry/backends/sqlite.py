"""Registry in one SQLite file, or in memory: no installation and no server.

One thread writes (`sqlite_writer`), and acknowledged commits are on disk. Other processes may use the same file: its
lock serializes their transactions, and a watcher sees their changes within `POLL_S`. Notifications stay in the process.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError
from argosy.registry import migrations as schema
from argosy.registry.backends import sqlite_dump as dumping
from argosy.registry.backends.sqlite_errors import is_busy, to_argosy_error
from argosy.registry.backends.sqlite_notify import ChangeFeed
from argosy.registry.backends.sqlite_session import Effects, SqliteSession
from argosy.registry.backends.sqlite_setup import MEMORY, Durability, connect, path_of, prepare
from argosy.registry.backends.sqlite_writer import Writer
from argosy.registry.migrations import Migration
from argosy.registry.ports import Change
from argosy.registry.table import Table
from argosy.registry.tables import TABLES
from argosy.registry.transaction import Transaction

T = TypeVar("T")

POLL_S = 0.5  # how late a watcher may see what another process has written
OPEN_ATTEMPTS_MAX = 50  # SQLite does not wait its turn while a file becomes a WAL file
OPEN_PAUSE_S = 0.02
ITEMS_PER_STEP = 500  # of a dump or a load, between two turns of the event loop


class SqliteStore:
    """A `RegistryStore` in a file. `open` it; the constructor is for `open` alone."""

    def __init__(self, path: str, session: SqliteSession, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._tables = list(session.tables.values())
        self._store_clock = session.clock
        self._feed = ChangeFeed()
        self._writer = Writer(session, where=path, on_commit=self._on_commit)
        self._polling: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str | Path,
        *,
        clock: Clock,
        durability: Durability = "full",
        tables: Sequence[Table[Any]] = TABLES,
        version: int = schema.SCHEMA_VERSION,
        migrations: Sequence[Migration] = schema.MIGRATIONS,
        may_migrate: bool = True,
    ) -> "SqliteStore":
        """Opens or creates a registry. `durability="normal"` may lose the last commits when the power fails, never when
        the process does. `memory://` and `:memory:` give a store of its own to the caller."""
        path = path_of(url)
        opening = partial(
            _open_connection, path, durability, tables, version=version, migrations=migrations, may_migrate=may_migrate
        )
        connection = await _retry_while_busy(opening, clock, path)
        return cls(path, SqliteSession(connection, tables, clock), clock=clock)

    async def run(self, transaction: Transaction[T]) -> T:
        """Runs a program and answers when its commit is durable. It never races, so it never has to run again."""
        return await self._writer.submit(lambda session: session.run(transaction))

    async def revision(self) -> int:
        return await self._writer.submit(lambda session: session.revision, is_writing=False)

    async def watch(self, after: int, *, rows_of: Collection[Table[Any]] = ()) -> AsyncIterator[Change]:
        self._feed.watchers += 1
        self._ensure_polling()
        names = frozenset(table.name for table in rows_of)
        try:
            while True:
                read = partial(SqliteSession.changes_after, after=after, rows_of=names)
                changes = await self._writer.submit(read, is_writing=False)
                for change in changes:
                    yield change
                    after = change.revision
                if not changes:
                    await self._feed.wait_beyond(after)
        finally:
            self._feed.watchers -= 1

    def listen(self, channel: str) -> AsyncIterator[str]:
        return self._feed.listen(channel)

    async def dump(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """All tables, logs and counters of one instant; see `sqlite_dump` for the shapes. Writers are not held up."""
        if self._path == MEMORY:
            copy = partial(_dump_all, tables=self._tables)
            for item in await self._writer.submit(copy):
                yield item
            return
        reader = await _retry_while_busy(partial(connect, self._path), self._clock, self._path)
        try:
            reader.execute("BEGIN")
            found = dumping.items(reader, self._tables, self._store_clock.read())
            while chunk := await _in_thread(partial(_next_chunk, found), self._path):
                for item in chunk:
                    yield item
        finally:
            reader.close()

    async def load(self, items: AsyncIterable[tuple[str, dict[str, Any]]]) -> int:
        """Fills an empty registry with what another has dumped, and says how many items there were. Until it is done
        the registry is marked, and cannot be opened again."""
        await self._writer.submit(dumping.begin_load)
        count = 0
        chunk: list[dumping.Item] = []
        async for item in items:
            chunk.append(item)
            if len(chunk) == ITEMS_PER_STEP:
                count += await self._writer.submit(partial(dumping.load, chunk=chunk))
                chunk = []
        count += await self._writer.submit(partial(dumping.load, chunk=chunk))
        await self._writer.submit(dumping.end_load)
        return count

    async def check(self) -> list[str]:
        """What SQLite finds wrong with the file; nothing, if all is well."""
        found = await self._writer.submit(_integrity, is_writing=False)
        return [] if found == ["ok"] else found

    async def close(self) -> None:
        """Answers every call under way, then lets go of the file."""
        if self._polling is not None:
            self._polling.cancel()
        await self._writer.close()
        self._feed.close()

    def _on_commit(self, revision: int, effects: Effects) -> None:
        self._feed.advance(revision)
        for channel, message in effects.notifications:
            self._feed.notify(channel, message)

    def _ensure_polling(self) -> None:
        """Sees to it that changes of other processes are noticed while anybody watches."""
        if self._path != MEMORY and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(self._poll_revision(), name="registry-poll")

    async def _poll_revision(self) -> None:
        while self._feed.watchers:
            await self._clock.sleep(POLL_S)
            try:
                self._feed.advance(await self.revision())
            except ArgosyError:
                continue  # the file is busy or away; whoever calls is notifications


def _open_connection(path: str, durability: Durability, tables: Sequence[Table[Any]], **how: Any) -> sqlite3.Connection:
    connection = connect(path, durability=durability)
    try:
        prepare(connection, tables, where=path, **how)
    except BaseException:
        connection.close()
        raise
    return connection


async def _retry_while_busy(step: "partial[T]", clock: Clock, where: str) -> T:
    """Runs a step that may be begun again, in a thread, until the file is not busy."""
    for _ in range(OPEN_ATTEMPTS_MAX - 1):
        try:
            return await asyncio.to_thread(step)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise to_argosy_error(error, where) from error
            await clock.sleep(OPEN_PAUSE_S)
    return await _in_thread(step, where)


async def _in_thread(step: "partial[T]", where: str) -> T:
    try:
        return await asyncio.to_thread(step)
    except sqlite3.Error as error:
        raise to_argosy_error(error, where) from error


def _next_chunk(found: Iterator[dumping.Item]) -> list[dumping.Item]:
    return list(islice(found, ITEMS_PER_STEP))


def _dump_all(session: SqliteSession, tables: list[Any]) -> list[dumping.Item]:
    return list(dumping.items(session.connection, tables, session.clock.read()))


def _integrity(session: SqliteSession) -> list[str]:
    return [line for (line,) in session.cursor.execute("PRAGMA integrity_check").fetchall()]
