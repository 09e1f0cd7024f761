"""Runs transactions on one SQLite connection: answers their reads and performs their commits in a SQL transaction.

The SQL transaction spans many registry transactions (`begin`, `end`): this group commit is what makes durable writes
cheap. Each registry transaction still stands alone: one that raises before its commit, or whose commit is rejected,
leaves nothing behind.

No other connection writes while the SQL transaction is open, so nothing that a body has read can change before its
commit. A row at an unexpected version was therefore not read in this run but passed in by the caller, and running again
would not help: that is a Conflict. A store with concurrent writers (Redis) runs a body again if it lost a row *at the
version that this run had read*, and otherwise raises Conflict as well.

A commit ends a body. An exception after it is raised to the caller, but the writes stay.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from sqlite3 import Connection, Cursor, DataError, Error, InterfaceError, ProgrammingError
from typing import Any, TypeVar

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Gone, Invalid
from argosy.registry.backends import sqlite_logs as logs
from argosy.registry.backends.sqlite_commit import CommitWriter, Event
from argosy.registry.backends.sqlite_reads import SqliteReads
from argosy.registry.backends.sqlite_rows import TableSql
from argosy.registry.backends.sqlite_sql import SQL
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

EVENTS_KEPT = 10_000  # changes a watcher may be behind before it must list again
EVENTS_READ_MAX = 1000  # changes one look of a watcher returns
PRUNE_EVERY_MS = 1000  # between two looks for what has expired
PRUNE_ROWS_MAX = 200  # of one table, per look: pruning never holds up a batch for long

# Errors of one program's own values; every other error of SQLite is about the whole transaction.
OWN_ERRORS = (ProgrammingError, InterfaceError, DataError, OverflowError, UnicodeEncodeError)


class StoreClock:
    """The process's wall clock in milliseconds, but never going back: while it is behind, the span clock counts."""

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
class Effects:
    """What the commits of one transaction lead to, besides what is in the tables."""

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
        self._effects = Effects()
        self._reads = SqliteReads(self.cursor, self.tables.values())
        self._committed = 0
        self._changes_before = 0
        self._prune_at = 0
        self._answers: dict[type, Callable[[Any], Any]] = {
            Get: lambda question: self._reads.get(question, self.now),
            Find: lambda question: self._reads.find(question, self.now),
            CountRows: lambda question: self._reads.count(question, self.now),
            ReadLog: lambda question: logs.read(self.cursor, question.log, question.limit),
            ReadCounter: lambda question: logs.read_counter(self.cursor, question.counter, self.now),
            Now: lambda question: self.now,
        }

    # -- the transaction around many programs -----------------------------------------------------------------

    def begin(self, *, is_writing: bool) -> None:
        self.cursor.execute("BEGIN IMMEDIATE" if is_writing else "BEGIN")
        self._changes_before = self.connection.total_changes
        (self.revision,) = self.cursor.execute(SQL["meta_read"], ("revision",)).fetchone()
        self._committed = self.revision
        self._reads.clear()
        self._effects = Effects()

    def end(self) -> Effects:
        """Makes everything since `begin` durable."""
        effects, self._effects = self._effects, Effects()
        if effects.events:
            self.cursor.executemany(SQL["event_add"], effects.events)
            self.cursor.execute(SQL["event_trim"], (self.revision - EVENTS_KEPT,))
            self.cursor.execute(SQL["meta_write"], ("revision", self.revision))
        if self.connection.total_changes != self._changes_before:
            self._prune()
        self.cursor.execute("COMMIT")
        return effects

    def undo(self) -> None:
        """Forgets everything since `begin`. SQLite may already have done so itself, as when the disk is full."""
        self._effects = Effects()
        if self.connection.in_transaction:
            self.cursor.execute("ROLLBACK")

    def _prune(self) -> None:
        """Deletes a bounded number of expired rows. They were invisible already, so this is no change to watch. It goes
        with what is written anyway: to read, a registry needs no room on its disk."""
        if self.now < self._prune_at:
            return
        self._prune_at = self.now + PRUNE_EVERY_MS
        self.cursor.execute(SQL["counter_prune"], (self.now, PRUNE_ROWS_MAX))
        for table in self.tables.values():
            if table.prune is not None:
                self.cursor.execute(table.prune, (self.now, PRUNE_ROWS_MAX))

    # -- programs ---------------------------------------------------------------------------------------------

    def run(self, transaction: Transaction[T]) -> T:
        """Runs one program from its start to its end. A refusal reaches the program where it asked."""
        self.now = self.clock.read()
        program = transaction.begin()
        is_committed = False
        try:
            step = next(program)
            while True:
                assert not is_committed, "a program ends with its commit: ask before it"
                try:
                    is_commit = isinstance(step, Commit)
                    reply: Any = self._commit(step.writes) if isinstance(step, Commit) else self._reply(step)
                except ArgosyError as refusal:
                    step = program.throw(refusal)
                else:
                    is_committed = is_commit
                    step = program.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            program.close()

    def _reply(self, questions: tuple[Any, ...]) -> tuple[Any, ...]:
        answers = self._answers
        try:
            return tuple([answers[type(question)](question) for question in questions])
        except OWN_ERRORS as error:
            raise Invalid(f"the question cannot be asked: {error}") from error

    # -- commits ----------------------------------------------------------------------------------------------

    def _commit(self, writes: tuple[Write, ...]) -> CommitResult:
        """All writes or none. One statement alone needs no savepoint: it leaves nothing if it is refused."""
        commit = self._new_commit()
        is_one_statement = len(writes) == 1 and type(writes[0]) in (Put, Upsert, Delete)
        try:
            if is_one_statement:
                commit.write(writes[0])
            else:
                self._perform(commit, writes)
        except OWN_ERRORS as error:
            raise Invalid(f"the commit cannot be stored: {error}") from error
        self.revision += len(commit.changes)
        self._effects.events += commit.changes
        self._effects.notifications += commit.notifications
        return CommitResult(self.revision, tuple(commit.versions), tuple(commit.taken), tuple(commit.counts))

    def _new_commit(self) -> CommitWriter:
        return CommitWriter(self.cursor, self.tables, self._reads, now=self.now, revision=self.revision)

    def _perform(self, commit: CommitWriter, writes: tuple[Write, ...]) -> None:
        self.cursor.execute("SAVEPOINT one_commit")
        try:
            for write in writes:
                commit.write(write)
        except Error as error:
            if isinstance(error, OWN_ERRORS):
                self._roll_back()
            raise
        except BaseException:
            self._roll_back()
            raise
        self.cursor.execute("RELEASE one_commit")

    def _roll_back(self) -> None:
        self._reads.clear()
        self.cursor.execute("ROLLBACK TO one_commit")
        self.cursor.execute("RELEASE one_commit")

    def load_row(self, table: TableSql, values: Mapping[str, Any]) -> None:
        """Stores a row of an import at the version it comes with."""
        row = table.load(values)
        commit = self._new_commit()
        commit.insert(table, row, version=row.version)
        self.revision += 1
        self._effects.events += commit.changes

    # -- what watchers read -----------------------------------------------------------------------------------

    def changes_after(self, after: int, rows_of: Set[str] = frozenset()) -> list[Change]:
        if after > self.revision:
            raise Gone(f"revision {after} is ahead of this registry, which is at {self.revision}: list again")
        (oldest,) = self.cursor.execute(SQL["event_oldest"]).fetchone()
        if after < (self._committed if oldest is None else oldest - 1):
            raise Gone(f"changes after revision {after} are no longer kept: list again, and watch from there")
        self.now = self.clock.read()
        found = self.cursor.execute(SQL["event_after"], (after, EVENTS_READ_MAX)).fetchall()
        return [self._change(event, rows_of) for event in found]

    def _change(self, event: Event, rows_of: Set[str]) -> Change:
        revision, name, encoded_key, is_deleted = event
        key = tuple(msgspec.json.decode(encoded_key))
        row = None
        if name in rows_of and not is_deleted:
            # In the same transaction as the events, and read once if it has changed several times.
            row = self._reads.get(Get(self.tables[name].table, key), self.now)
        return Change(revision, name, key, bool(is_deleted), row)
