"""Runs transactions on one SQLite connection: answers their reads and performs their commits in a SQL transaction.

The SQL transaction spans many registry transactions (`begin`, `end`): this group commit is what makes durable writes
cheap. Each registry transaction is still atomic by itself: one that raises before its commit, or whose commit is
rejected, leaves nothing behind.

No other connection writes while the SQL transaction is open, so nothing that a body has read can change before its
commit. A row at an unexpected version was therefore not read in this run but passed in by the caller, and running again
would not help: that is a Conflict. A store with concurrent writers (Redis) runs a body again if it lost a row *at the
version that this run had read*, and otherwise raises Conflict as well (REG-1).

A commit ends a body. An exception after it is raised to the caller, but the writes stay.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from sqlite3 import Connection, Cursor, DataError, Error, InterfaceError, ProgrammingError
from typing import Any, TypeVar

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Gone, Invalid
from argosy.registry.backends.sqlite_commit import CommitWriter, Event, read_counter, read_log
from argosy.registry.backends.sqlite_rows import SqliteReads, TableSql
from argosy.registry.backends.sqlite_setup import SQL
from argosy.registry.ports import Change
from argosy.registry.table import Table
from argosy.registry.transaction import (
    Commit,
    CommitResult,
    CountRows,
    Delete,
    Find,
    Get,
    Now,
    Put,
    ReadCounter,
    ReadLog,
    Transaction,
    Upsert,
    Write,
)

T = TypeVar("T")

EVENTS_MAX = 10_000  # changes in the file; a watcher that is further behind must list again
# A read runs in the writer's thread, and must not delay the other calls of its batch for long.
EVENTS_READ_MAX = 1000  # changes returned to a watcher at once
# Expired rows are invisible anyway, so pruning only has to keep up with them.
PRUNE_EVERY_MS = 1000  # interval of deleting expired rows
PRUNE_ROWS_MAX = 200  # expired rows deleted per table at once, so that pruning never delays a batch for long

# Errors of one transaction's own values. Every other error of SQLite concerns the whole SQL transaction.
OWN_ERRORS = (ProgrammingError, InterfaceError, DataError, OverflowError, UnicodeEncodeError)


class StoreClock:
    """The wall clock in milliseconds, but never going back: while it is behind, time advances by the monotonic clock.

    Expiry times are stored, so they must be wall-clock times; but a clock that is set back must not revive a lease.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = clock.wall()
        self._at = clock.now()

    def read(self) -> int:
        wall, at = self._clock.wall(), self._clock.now()
        self._latest = wall if wall >= self._latest else self._latest + max(0.0, at - self._at)
        self._at = at
        return int(self._latest * 1000)


@dataclass
class CommitEffects:
    """What the commits of one SQL transaction cause beside their writes: change events and notifications."""

    events: list[Event] = field(default_factory=list)
    notifications: list[tuple[str, str]] = field(default_factory=list)


class SqliteSession:
    """One connection, used by one thread."""

    def __init__(self, connection: Connection, tables: Iterable[Table[Any]], clock: Clock) -> None:
        self.connection = connection
        self.cursor: Cursor = connection.cursor()
        self.tables = {table.name: TableSql(table) for table in tables}
        self.clock = StoreClock(clock)
        self.now = self.clock.read()
        self.revision = 0
        self._effects = CommitEffects()
        self._reads = SqliteReads(self.cursor, self.tables.values())
        self._committed = 0
        self._changes_before = 0
        self._prune_at = 0
        self._readers: dict[type, Callable[[Any], Any]] = {
            Get: lambda read: self._reads.get(read, self.now),
            Find: lambda read: self._reads.find(read, self.now),
            CountRows: lambda read: self._reads.count(read, self.now),
            ReadLog: lambda read: read_log(self.cursor, read.log, read.limit),
            ReadCounter: lambda read: read_counter(self.cursor, read.counter, self.now),
            Now: lambda read: self.now,
        }

    # -- the SQL transaction around many registry transactions ------------------------------------------------------

    def begin(self, *, is_writing: bool) -> None:
        # IMMEDIATE takes the write lock now: a read transaction that writes later fails if another process wrote.
        self.cursor.execute("BEGIN IMMEDIATE" if is_writing else "BEGIN")
        # A batch of reads, or one whose commits were all rejected, must not write anything itself.
        self._changes_before = self.connection.total_changes
        (self.revision,) = self.cursor.execute(SQL["meta_read"], ("revision",)).fetchone()
        self._committed = self.revision
        # Another process may have written since the last SQL transaction.
        self._reads.clear()
        self._effects = CommitEffects()

    def end(self) -> CommitEffects:
        """Makes everything since `begin` durable."""
        # Events are written once per batch, not per commit: one trim and one update of the revision serve all of them.
        effects, self._effects = self._effects, CommitEffects()
        if effects.events:
            self.cursor.executemany(SQL["event_add"], effects.events)
            self.cursor.execute(SQL["event_trim"], (self.revision - EVENTS_MAX,))
            self.cursor.execute(SQL["meta_write"], ("revision", self.revision))
        if self.connection.total_changes != self._changes_before:
            self._prune()
        self.cursor.execute("COMMIT")
        return effects

    def undo(self) -> None:
        """Rolls back everything since `begin`. SQLite may already have done so itself, as when the disk is full."""
        self._effects = CommitEffects()
        if self.connection.in_transaction:
            self.cursor.execute("ROLLBACK")

    def _prune(self) -> None:
        """Deletes a bounded number of expired rows. They were invisible already, so this is no change to watch. It is
        only done together with other writes: reading a registry must not need space on its disk."""
        if self.now < self._prune_at:
            return
        self._prune_at = self.now + PRUNE_EVERY_MS
        self.cursor.execute(SQL["counter_prune"], (self.now, PRUNE_ROWS_MAX))
        for table in self.tables.values():
            if table.prune is not None:
                self.cursor.execute(table.prune, (self.now, PRUNE_ROWS_MAX))

    # -- registry transactions --------------------------------------------------------------------------------------

    def run(self, transaction: Transaction[T]) -> T:
        """Runs one transaction from start to end. An error of a read or of the commit is raised inside the body, where
        it was yielded, so that the body can handle it."""
        # One instant for the whole body: what it reads as live is live when it commits.
        self.now = self.clock.read()
        body = transaction.begin()
        is_committed = False
        try:
            step = next(body)
            while True:
                assert not is_committed, "a transaction ends with its commit: read before it"
                try:
                    is_commit = isinstance(step, Commit)
                    reply: Any = self._commit(step.writes) if isinstance(step, Commit) else self._answer(step)
                # Errors of SQLite are not for the body: they end the whole SQL transaction.
                except ArgosyError as error:
                    step = body.throw(error)
                else:
                    is_committed = is_commit
                    step = body.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            body.close()

    def _answer(self, reads: tuple[Any, ...]) -> tuple[Any, ...]:
        readers = self._readers
        try:
            return tuple([readers[type(read)](read) for read in reads])
        # A read with values that cannot be bound (a huge integer, a lone surrogate) fails alone, not its whole batch.
        except OWN_ERRORS as error:
            raise Invalid(f"invalid read: {error}") from error

    # -- commits ----------------------------------------------------------------------------------------------------

    def _commit(self, writes: tuple[Write, ...]) -> CommitResult:
        """All writes or none. A single statement needs no savepoint: it leaves nothing if it fails."""
        commit = self._new_commit()
        # Most commits have one write, and a savepoint costs two more statements.
        is_one_statement = len(writes) == 1 and type(writes[0]) in (Put, Upsert, Delete)
        try:
            if is_one_statement:
                commit.write(writes[0])
            else:
                self._write_all(commit, writes)
        except OWN_ERRORS as error:
            raise Invalid(f"the commit cannot be stored: {error}") from error
        self.revision += len(commit.changes)
        self._effects.events += commit.changes
        self._effects.notifications += commit.notifications
        return CommitResult(self.revision, tuple(commit.versions), tuple(commit.taken), tuple(commit.counts))

    def _new_commit(self) -> CommitWriter:
        return CommitWriter(self.cursor, self.tables, self._reads, now=self.now, revision=self.revision)

    def _write_all(self, commit: CommitWriter, writes: tuple[Write, ...]) -> None:
        self.cursor.execute("SAVEPOINT one_commit")
        try:
            for write in writes:
                commit.write(write)
        except Error as error:
            # After any other error of SQLite the whole SQL transaction is undone, and the savepoint with it.
            if isinstance(error, OWN_ERRORS):
                self._roll_back()
            raise
        except BaseException:
            self._roll_back()
            raise
        self.cursor.execute("RELEASE one_commit")

    def _roll_back(self) -> None:
        # Rows cached since the savepoint may come from writes that are now undone.
        self._reads.clear()
        self.cursor.execute("ROLLBACK TO one_commit")
        self.cursor.execute("RELEASE one_commit")

    def import_row(self, table: TableSql, values: Mapping[str, Any]) -> None:
        """Stores a row of an import at the version that it has there."""
        row = table.from_export(values)
        commit = self._new_commit()
        commit.insert(table, row, version=row.version)
        self.revision += 1
        self._effects.events += commit.changes

    # -- the change feed --------------------------------------------------------------------------------------------

    def changes_after(self, after: int, rows_of: Set[str] = frozenset()) -> list[Change]:
        # A file that was restored from a copy may be behind its watchers: their revisions are of another history.
        if after > self.revision:
            raise Gone(f"revision {after} is ahead of this registry, which is at {self.revision}: list again")
        (oldest,) = self.cursor.execute(SQL["event_oldest"]).fetchone()
        if after < (self._committed if oldest is None else oldest - 1):
            raise Gone(f"changes after revision {after} are no longer stored: list again, and watch from there")
        self.now = self.clock.read()
        events = self.cursor.execute(SQL["event_after"], (after, EVENTS_READ_MAX)).fetchall()
        return [self._to_change(event, rows_of) for event in events]

    def _to_change(self, event: Event, rows_of: Set[str]) -> Change:
        revision, name, encoded_key, is_deleted = event
        key = tuple(msgspec.json.decode(encoded_key))
        row = None
        if name in rows_of and not is_deleted:
            # In the same SQL transaction as the events, and read once if it has changed several times.
            row = self._reads.get(Get(self.tables[name].table, key), self.now)
        return Change(revision, name, key, bool(is_deleted), row)
