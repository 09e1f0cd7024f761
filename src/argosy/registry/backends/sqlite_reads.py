"""Answers row reads inside one SQL transaction, and reads no row twice in it.

Transactions of one batch often read the same rows: sixty claims read the head of one queue. While the SQL transaction
is open no other connection can write, so a row stays as it was read until this transaction writes it. A find whose rows
are mostly cached selects only keys, which come from the index alone.

Rows that expire are read again each time, because time passes inside a transaction, too.
"""

from collections.abc import Iterable
from sqlite3 import Cursor
from typing import Any

from argosy.registry.backends.sqlite_codec import Values
from argosy.registry.backends.sqlite_rows import TableSql
from argosy.registry.transaction import CountRows, Find, Get

KNOWN_MAX = 4096  # rows of a table remembered before all are forgotten
UNKNOWN_MAX = 8  # rows fetched one by one; if more are unknown, all are fetched in one go


class SqliteReads:
    """The rows that a transaction has read, by table and key."""

    def __init__(self, cursor: Cursor, tables: Iterable[TableSql]) -> None:
        self._cursor = cursor
        self._tables = {table.name: table for table in tables}
        self._known: dict[str, dict[Values, Any]] = {name: {} for name in self._tables}

    def clear(self) -> None:
        """A transaction begins, or has taken back some of its writes."""
        for known in self._known.values():
            known.clear()

    def invalidate(self, table: TableSql, key: Values) -> None:
        """A row is written."""
        self._known[table.name].pop(key, None)

    def cached(self, table: TableSql, key: Values) -> Any:
        """A row as it is stored, or None if it was not read."""
        return self._known[table.name].get(key)

    def get(self, question: Get, now: int) -> Any:
        table = self._tables[question.table.name]
        return self._row(table, table.key(question.key), now)

    def find(self, question: Find, now: int) -> list[Any]:
        table = self._tables[question.table.name]
        values = table.find_values(question, now)
        if values is None:
            return []
        known = self._known[table.name]
        if len(known) > KNOWN_MAX:
            known.clear()
        if known:
            keys = self._cursor.execute(table.find_sql(question, is_narrow=True), values).fetchall()
            unknown = [key for key in keys if key not in known]
            if len(unknown) <= UNKNOWN_MAX:
                for key in unknown:
                    self._row(table, key, now)
                return [known[key] for key in keys]
        stored = self._cursor.execute(table.find_sql(question, is_narrow=False), values).fetchall()
        rows = list(map(table.decode, stored))
        if not table.is_expiring:
            known.update(zip(map(table.key_of, rows), rows, strict=True))
        return rows

    def count(self, question: CountRows, now: int) -> int:
        asked = self._tables[question.table.name].count(question, now)
        count: int = 0 if asked is None else self._cursor.execute(*asked).fetchone()[0]
        return count

    def _row(self, table: TableSql, key: Values, now: int) -> Any:
        row = self._known[table.name].get(key)
        if row is None:
            found = self._cursor.execute(table.get, (*key, now) if table.is_expiring else key).fetchone()
            if found is not None:
                row = table.decode(found)
                if not table.is_expiring:
                    self._known[table.name][key] = row
        return row
