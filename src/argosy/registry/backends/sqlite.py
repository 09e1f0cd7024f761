"""Registry in one SQLite file, or in memory: no installation and no server.

One thread writes (`sqlite_writer`), and acknowledged commits are on disk. Other processes may use the same file: its
lock serializes their transactions, and a watcher sees their changes within `POLL_S`. Notifications stay in the process.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Gone, Unavailable
from argosy.registry import migrations as schema
from argosy.registry.backends.sqlite_dump import begin_load, dump_items, end_load, load_items
from argosy.registry.backends.sqlite_session import CommitEffects, SqliteSession
from argosy.registry.backends.sqlite_setup import (
    MEMORY,
    Durability,
    connect,
    is_busy,
    path_of,
    prepare,
    to_argosy_error,
)
from argosy.registry.backends.sqlite_writer import SqliteWriter
from argosy.registry.migrations import Migration
from argosy.registry.ports import Change, DumpItem
from argosy.registry.table import Table
from argosy.registry.tables import TABLES
from argosy.registry.transaction import Transaction

T = TypeVar("T")

# One point read of the revision; changes of this process itself are delivered without polling.
POLL_S = 0.5  # how late a watcher may see what another process has written
OPEN_ATTEMPTS_MAX = 50  # SQLite's own timeout does not apply while a file is converted to WAL
OPEN_PAUSE_S = 0.02
ITEMS_PER_STEP = 500  # of a dump or a load, between two turns of the event loop
# As for a subscriber in Redis. A listener that stops reading must not fill the memory.
BACKLOG_MAX = 1024  # messages a listener may be behind


class SqliteStore:
    """A `RegistryStore` in a file. Created by `open`."""

    def __init__(self, path: str, session: SqliteSession, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._tables = list(session.tables.values())
        self._store_clock = session.clock
        self._feed = ChangeFeed()
        self._writer = SqliteWriter(session, where=path, on_commit=self._on_commit)
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
        the process crashes. `memory://` and `:memory:` return a new store of the caller's own."""
        path = path_of(url)

        def open_connection() -> sqlite3.Connection:
            connection = connect(path, durability=durability)
            try:
                prepare(connection, tables, version=version, migrations=migrations, where=path, may_migrate=may_migrate)
            except BaseException:
                connection.close()
                raise
            return connection

        # In a thread: opening waits for locks and disks, and may migrate.
        connection = await _retry_while_busy(open_connection, clock, path)
        return cls(path, SqliteSession(connection, tables, clock), clock=clock)

    async def run(self, transaction: Transaction[T]) -> T:
        """Runs a transaction and returns when its commit is durable. It never loses a race, so it runs once."""
        return await self._writer.submit(lambda session: session.run(transaction))

    async def revision(self) -> int:
        return await self._writer.submit(lambda session: session.revision, is_writing=False)

    # -- changes and notifications ----------------------------------------------------------------------------------

    async def watch(self, after: int, *, rows_of: Collection[Table[Any]] = ()) -> AsyncIterator[Change]:
        # Counted so that polling stops with the last watcher: an idle registry should not read its file twice a second.
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

    def _on_commit(self, revision: int, effects: CommitEffects) -> None:
        self._feed.advance(revision)
        for channel, message in effects.notifications:
            self._feed.notify(channel, message)

    def _ensure_polling(self) -> None:
        """Polls the file's revision while there are watchers: SQLite does not report commits of other processes."""
        # A store in memory has no other processes.
        if self._path != MEMORY and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(self._poll_revision(), name="registry-poll")

    async def _poll_revision(self) -> None:
        while self._feed.watchers:
            await self._clock.sleep(POLL_S)
            try:
                self._feed.advance(await self.revision())
            except ArgosyError:
                continue  # busy or unreachable: calls report that, and the next poll may succeed

    # -- export and import ------------------------------------------------------------------------------------------

    async def dump(self) -> AsyncIterator[DumpItem]:
        """Everything, as of one instant. Reads on a connection of its own, so it does not delay writers."""
        if self._path == MEMORY:  # only this connection sees the data
            for item in await self._writer.submit(self._dump_all):
                yield item
            return
        reader = await _retry_while_busy(partial(connect, self._path), self._clock, self._path)
        try:
            # One read transaction for the whole dump, so that it is of one instant while others write.
            reader.execute("BEGIN")
            items = dump_items(reader, self._tables, self._store_clock.read())
            while chunk := await _in_thread(lambda: list(islice(items, ITEMS_PER_STEP)), self._path):
                for item in chunk:
                    yield item
        finally:
            reader.close()

    def _dump_all(self, session: SqliteSession) -> list[DumpItem]:
        return list(dump_items(session.connection, self._tables, session.clock.read()))

    async def load(self, items: AsyncIterable[DumpItem]) -> int:
        """Fills an empty registry with a dump, and returns the number of items. Until it is done the registry is marked
        as half imported, and cannot be opened again."""
        # A commit of its own, before the first row: a crash at any moment after it leaves a registry that cannot be
        # opened.
        await self._writer.submit(begin_load)
        count = 0
        chunk: list[DumpItem] = []
        async for item in items:
            chunk.append(item)
            if len(chunk) == ITEMS_PER_STEP:
                count += await self._writer.submit(partial(load_items, chunk=chunk))
                chunk = []
        count += await self._writer.submit(partial(load_items, chunk=chunk))
        await self._writer.submit(end_load)
        return count

    async def check(self) -> list[str]:
        """Problems that SQLite finds in the file; empty if there are none."""
        problems = await self._writer.submit(_check_integrity, is_writing=False)
        return [] if problems == ["ok"] else problems

    async def close(self) -> None:
        """Answers all calls in progress, then closes the file."""
        # First, so that no poll is submitted to a writer that is closing.
        if self._polling is not None:
            self._polling.cancel()
        await self._writer.close()
        self._feed.close()


async def _retry_while_busy(step: Callable[[], T], clock: Clock, where: str) -> T:
    """Runs a step in a thread, again while the file is busy."""
    for _ in range(OPEN_ATTEMPTS_MAX - 1):
        try:
            return await asyncio.to_thread(step)
        except sqlite3.Error as error:
            # Anything but a busy file stays wrong at the next attempt.
            if not is_busy(error):
                raise to_argosy_error(error, where) from error
            await clock.sleep(OPEN_PAUSE_S)
    return await _in_thread(step, where)


async def _in_thread(step: Callable[[], T], where: str) -> T:
    try:
        return await asyncio.to_thread(step)
    except sqlite3.Error as error:
        raise to_argosy_error(error, where) from error


def _check_integrity(session: SqliteSession) -> list[str]:
    return [line for (line,) in session.cursor.execute("PRAGMA integrity_check").fetchall()]


class ChangeFeed:
    """Wakes watchers at a new revision, and delivers notifications to listeners, within one process.

    Notifications of other processes are not delivered. Their changes are, because they are in the file.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.watchers = 0
        self._moved = asyncio.Event()
        # Weak, because a caller may drop a listener without closing it (see ChannelListener).
        self._listeners: dict[str, WeakSet[ChannelListener]] = {}
        self._is_closed = False

    def advance(self, revision: int) -> None:
        if revision > self.revision:
            self.revision = revision
            self._wake()

    async def wait_beyond(self, revision: int) -> None:
        """Returns when there is a newer revision, or the store is closed."""
        while self.revision <= revision and not self._is_closed:
            await self._moved.wait()

    def notify(self, channel: str, message: str) -> None:
        for listener in tuple(self._listeners.get(channel, ())):
            listener.deliver(message)

    def listen(self, channel: str) -> "ChannelListener":
        listener = ChannelListener(channel)
        self._listeners.setdefault(channel, WeakSet()).add(listener)
        return listener

    def close(self) -> None:
        self._is_closed = True
        self._wake()
        for listeners in self._listeners.values():
            for listener in tuple(listeners):
                listener.close()

    def _wake(self) -> None:
        self._moved.set()
        # A new event for the next revision: clearing the old one could happen before all watchers have run.
        self._moved = asyncio.Event()


class ChannelListener:
    """Messages of one channel since the listener was created. The feed refers to it weakly: a listener that its owner
    drops without closing it is collected, and its backlog with it."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._backlog: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._is_behind = False
        self._is_closed = False

    def deliver(self, message: str) -> None:
        # Permanent: after one lost message the listener's state is unknown, even if there is room again.
        self._is_behind = self._is_behind or len(self._backlog) >= BACKLOG_MAX
        if not self._is_behind:
            self._backlog.append(message)
        self._arrived.set()

    def close(self) -> None:
        self._is_closed = True
        self._arrived.set()

    def __aiter__(self) -> "ChannelListener":
        return self

    async def __anext__(self) -> str:
        while not self._backlog:
            if self._is_behind:
                raise Gone(f"a listener of {self._channel!r} fell {BACKLOG_MAX} messages behind: read the tables again")
            if self._is_closed:
                raise Unavailable(f"the registry is closed, and with it the channel {self._channel!r}")
            self._arrived.clear()
            await self._arrived.wait()
        return self._backlog.popleft()
