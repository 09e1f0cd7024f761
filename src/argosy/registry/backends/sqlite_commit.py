"""Executes the writes of a commit as SQL statements, inside a transaction that the caller opens and ends."""

from collections.abc import Mapping
from sqlite3 import Cursor, IntegrityError
from typing import Any

import msgspec

from argosy.base.errors import Conflict
from argosy.registry.backends import sqlite_logs as logs
from argosy.registry.backends.sqlite_codec import Values
from argosy.registry.backends.sqlite_reads import SqliteReads
from argosy.registry.backends.sqlite_rows import TableSql
from argosy.registry.transaction import (
    Append,
    CountUp,
    Delete,
    DropCounter,
    DropLog,
    Notify,
    Put,
    TakeOldest,
    Upsert,
    Write,
)

Event = tuple[int, str, str, int]  # revision, table, key as a JSON list, is it deleted


class CommitWriter:
    """The writes of one commit in the order they are given, and what they answer."""

    def __init__(
        self, cursor: Cursor, tables: Mapping[str, TableSql], reads: SqliteReads, *, now: int, revision: int
    ) -> None:
        self._cursor = cursor
        self._tables = tables
        self._reads = reads
        self._now = now
        self._revision = revision
        self.changes: list[Event] = []
        self.notifications: list[tuple[str, str]] = []
        self.versions: list[int] = []
        self.taken: list[tuple[bytes, ...]] = []
        self.counts: list[tuple[int, int]] = []

    def write(self, write: Write) -> None:
        match write:
            case Put():
                self._put(write)
            case Upsert():
                self._upsert(write)
            case Delete():
                self._delete(write)
            case Append():
                logs.append(self._cursor, write)
            case TakeOldest():
                self.taken.append(logs.take_oldest(self._cursor, write.log, write.count))
            case DropLog():
                logs.drop(self._cursor, write.log)
            case CountUp():
                self.counts.append(logs.count_up(self._cursor, write, self._now))
            case DropCounter():
                logs.drop_counter(self._cursor, write.counter)
            case Notify():
                self.notifications.append((write.channel, write.message))

    def _put(self, write: Put) -> None:
        table = self._tables[write.table.name]
        row = write.row
        if row.version == 0:
            self.insert(table, row, version=1)
            return
        key = table.key_of(row)
        sql, values = table.update(row, table.encode(row), self._reads.cached(table, key))
        self._store(table, row, sql, values)
        self.versions.append(row.version + 1)
        self._record_change(table, key)

    def insert(self, table: TableSql, row: Any, *, version: int) -> None:
        self._store(table, row, table.insert, [*table.encode(row), version])
        self.versions.append(version)
        self._record_change(table, table.key_of(row))

    def _store(self, table: TableSql, row: Any, sql: str, values: list[Any]) -> None:
        try:
            is_done = self._cursor.execute(sql, self._with_now(table, values)).rowcount == 1
        except IntegrityError as error:
            raise table.unique_violation(str(error), row) from error
        if not is_done:
            raise self._stale(table, table.key_of(row), row.version)

    def _upsert(self, write: Upsert) -> None:
        table = self._tables[write.table.name]
        values, key = [*table.encode(write.row), 1], table.key_of(write.row)
        try:
            (version,) = self._cursor.execute(table.upsert, self._with_now(table, values)).fetchone()
        except IntegrityError as error:
            raise table.unique_violation(str(error), write.row) from error
        self.versions.append(version)
        self._record_change(table, key)

    def _delete(self, write: Delete) -> None:
        table = self._tables[write.table.name]
        key = table.key_of(table.own(write.row))
        values = self._with_now(table, [*key, write.row.version])
        if self._cursor.execute(table.delete, values).rowcount != 1:
            raise self._stale(table, key, write.row.version)
        self._record_change(table, key, is_deleted=True)

    def _with_now(self, table: TableSql, values: list[Any]) -> list[Any]:
        return [*values, self._now] if table.is_expiring else values

    def _stale(self, table: TableSql, key: Values, version: int) -> Conflict:
        found = self._cursor.execute(table.version, self._with_now(table, list(key))).fetchone()
        shown = f"{table.name} {':'.join(map(str, key))!r:.200}"
        if found is None:
            return Conflict(f"{shown} is gone, and was at version {version}: read it again")
        if version == 0:
            return Conflict(f"{shown} is already there, at version {found[0]}")
        return Conflict(f"{shown} is at version {found[0]}, not {version}: read it again")

    def _record_change(self, table: TableSql, key: Values, *, is_deleted: bool = False) -> None:
        self._reads.invalidate(table, key)
        revision = self._revision + len(self.changes) + 1
        self.changes.append((revision, table.name, msgspec.json.encode(key).decode(), int(is_deleted)))
