"""Writes in SQLite: rows, logs and counters, inside a SQL transaction that the caller opens and ends.

A log is a bounded list of payloads with an exact size. A counter is a number that may expire.
"""

from collections.abc import Mapping
from sqlite3 import Cursor, IntegrityError
from typing import Any

import msgspec

from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.sqlite_rows import SqliteReads, TableSql, Values
from argosy.registry.backends.sqlite_setup import SQL
from argosy.registry.table import check_payload
from argosy.registry.transaction import (
    Append,
    CountUp,
    Delete,
    DropCounter,
    DropLog,
    LogState,
    Notify,
    Put,
    TakeOldest,
    Upsert,
    Write,
)

Event = tuple[int, str, str, int]  # revision, table, key as a JSON list, whether it was deleted


class CommitWriter:
    """Performs the writes of one commit in order, and collects their results."""

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
                append_log(self._cursor, write)
            case TakeOldest():
                self.taken.append(take_oldest(self._cursor, write.log, write.count))
            case DropLog():
                drop_log(self._cursor, write.log)
            case CountUp():
                self.counts.append(count_up(self._cursor, write, self._now))
            case DropCounter():
                self._cursor.execute(SQL["counter_drop"], (write.counter,))
            case Notify():
                self.notifications.append((write.channel, write.message))

    def _put(self, write: Put) -> None:
        table = self._tables[write.table.name]
        # Version 0 means that the caller expects no such row.
        row = write.row
        if row.version == 0:
            self.insert(table, row, version=1)
            return
        key = table.key_of(row)
        # The row as read in this batch, if it is cached, tells which indexed columns have changed.
        sql, values = table.update(row, table.encode(row), self._reads.peek(table, key))
        self._store(table, row, sql, values)
        self.versions.append(row.version + 1)
        self._record_change(table, key)

    def insert(self, table: TableSql, row: Any, *, version: int) -> None:
        self._store(table, row, table.insert, [*table.encode(row), version])
        self.versions.append(version)
        self._record_change(table, table.key_of(row))

    def _store(self, table: TableSql, row: Any, sql: str, values: list[Any]) -> None:
        try:
            # The version is in the WHERE clause: no row updated means a wrong version, without a read before.
            is_done = self._cursor.execute(sql, self._with_now(table, values)).rowcount == 1
        # Constraints other than unique ones are checked in Python, with better messages; this is the only kind left.
        except IntegrityError as error:
            raise table.unique_violation(str(error), row) from error
        if not is_done:
            raise self._version_conflict(table, table.key_of(row), row.version)

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
        key = table.key_of(table.check_type(write.row))
        values = self._with_now(table, [*key, write.row.version])
        if self._cursor.execute(table.delete, values).rowcount != 1:
            raise self._version_conflict(table, key, write.row.version)
        self._record_change(table, key, is_deleted=True)

    def _with_now(self, table: TableSql, values: list[Any]) -> list[Any]:
        return [*values, self._now] if table.is_expiring else values

    def _version_conflict(self, table: TableSql, key: Values, version: int) -> Conflict:
        current = self._cursor.execute(table.version, self._with_now(table, list(key))).fetchone()
        name = f"{table.name} {':'.join(map(str, key))!r:.200}"
        if current is None:
            return Conflict(f"{name} no longer exists, and was at version {version}: read it again")
        if version == 0:
            return Conflict(f"{name} already exists, at version {current[0]}")
        return Conflict(f"{name} is at version {current[0]}, not {version}: read it again")

    def _record_change(self, table: TableSql, key: Values, *, is_deleted: bool = False) -> None:
        # Before the next read of the batch, which must see this write.
        self._reads.invalidate(table, key)
        # Each row written has a revision of its own, so that a watcher recognises a gap by its number.
        revision = self._revision + len(self.changes) + 1
        self.changes.append((revision, table.name, msgspec.json.encode(key).decode(), int(is_deleted)))


# -- logs -------------------------------------------------------------------------------------------------------------

_LogHead = tuple[int, int, int, int, int]  # log_id, number of the next entry, length, size_bytes, dropped


def read_log(cursor: Cursor, log: str, limit: int) -> LogState:
    if limit < 0:
        raise Invalid(f"a log is read for 0 entries or more, not {limit}")
    head = _read_head(cursor, log)
    if head is None:
        return LogState((), 0, 0, 0)
    log_id, _, length, size, dropped = head
    entries = tuple(payload for (payload,) in cursor.execute(SQL["entry_newest"], (log_id, limit)))
    return LogState(entries, length, size, dropped)


def append_log(cursor: Cursor, write: Append) -> None:
    check_payload(write.payload)
    head = _read_head(cursor, write.log)
    if head is None:
        begin_log(cursor, write.log)
        head = _read_head(cursor, write.log)
        assert head is not None
    log_id, number, length, size, dropped = head
    cursor.execute(SQL["entry_add"], (log_id, number, write.payload))
    length, size = length + 1, size + len(write.payload)
    excess, excess_bytes = _excess(cursor, log_id, length, size, write)
    # Entries are numbered without gaps, so the oldest ones are a range below a number.
    if excess:
        cursor.execute(SQL["entry_drop"], (log_id, number + 1 - length + excess))
    cursor.execute(SQL["log_move"], (number + 1, length - excess, size - excess_bytes, dropped + excess, log_id))


def begin_log(cursor: Cursor, log: str, *, dropped: int = 0) -> None:
    cursor.execute(SQL["log_begin"], (log, dropped))


def take_oldest(cursor: Cursor, log: str, count: int) -> tuple[bytes, ...]:
    if count < 0:
        raise Invalid(f"0 entries or more can be taken from a log, not {count}")
    head = _read_head(cursor, log)
    if head is None:
        return ()
    # Length and size are kept in the head, so that an append is exact without counting the entries.
    log_id, number, length, size, dropped = head
    entries = tuple(payload for (payload,) in cursor.execute(SQL["entry_oldest"], (log_id, count)))
    cursor.execute(SQL["entry_drop"], (log_id, number - length + len(entries)))
    cursor.execute(SQL["log_move"], (number, length - len(entries), size - sum(map(len, entries)), dropped, log_id))
    return entries


def drop_log(cursor: Cursor, log: str) -> None:
    head = _read_head(cursor, log)
    if head is not None:
        # `number` is the next one, so everything below it is the whole log.
        cursor.execute(SQL["entry_drop"], head[:2])
        cursor.execute(SQL["log_drop"], head[:1])


def _read_head(cursor: Cursor, log: str) -> _LogHead | None:
    head: _LogHead | None = cursor.execute(SQL["log_find"], (log,)).fetchone()
    return head


def _excess(cursor: Cursor, log_id: int, length: int, size: int, write: Append) -> tuple[int, int]:
    """How many of the oldest entries exceed the log's limits, and their bytes. An entry that is larger than the whole
    log is itself dropped."""
    keep = length if write.keep is None else max(write.keep, 0)
    keep_bytes = size if write.keep_bytes is None else max(write.keep_bytes, 0)
    if length <= keep and size <= keep_bytes:
        return 0, 0
    excess = excess_bytes = 0
    # Oldest first, and no further than necessary: usually one entry.
    for (entry_bytes,) in cursor.execute(SQL["entry_sizes"], (log_id,)):
        if length - excess <= keep and size - excess_bytes <= keep_bytes:
            break
        excess, excess_bytes = excess + 1, excess_bytes + entry_bytes
    return excess, excess_bytes


# -- counters ---------------------------------------------------------------------------------------------------------


def read_counter(cursor: Cursor, counter: str, now: int) -> tuple[int, int]:
    """A counter's value and the milliseconds it has left (0: no expiry, or no counter)."""
    row = cursor.execute(SQL["counter_read"], (counter, now)).fetchone()
    if row is None:
        return 0, 0
    value, expires_at = row
    return value, 0 if expires_at is None else expires_at - now


def count_up(cursor: Cursor, write: CountUp, now: int) -> tuple[int, int]:
    if write.ttl_ms is not None and write.ttl_ms <= 0:
        raise Invalid(f"a counter lives for 1 millisecond or more, not {write.ttl_ms}")
    # An expired counter reads as missing, and begins again at 1.
    value, expires_at = cursor.execute(SQL["counter_read"], (write.counter, now)).fetchone() or (0, None)
    # The expiry is set with the first hit and never moved, so that an address with steady hits is freed, too.
    if value == 0 and write.ttl_ms is not None:
        expires_at = now + write.ttl_ms
    set_counter(cursor, write.counter, value + 1, expires_at)
    return value + 1, 0 if expires_at is None else expires_at - now


def set_counter(cursor: Cursor, counter: str, value: int, expires_at: int | None) -> None:
    cursor.execute(SQL["counter_write"], (counter, value, expires_at))
