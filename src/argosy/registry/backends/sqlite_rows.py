"""One declared table as SQLite sees it: its statements, made once.

SQLite rewrites every index of a column that an UPDATE names, changed or not. So an update of a row that the program
has read leaves out indexed columns that are as they were.
"""

from collections.abc import Sequence
from typing import Any

from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.sqlite_codec import RowCodec, Values, tuple_getter
from argosy.registry.column_checks import check_key_part
from argosy.registry.migrations import expiry_index, index_columns, index_name, needs_index, quote
from argosy.registry.table import Table, TableIndex
from argosy.registry.transaction import FIND_MAX, CountRows, Find


class TableSql(RowCodec):
    """The statements of one table, and its codec."""

    def __init__(self, table: Table[Any]) -> None:
        assert table.expires is None or not any(index.is_unique for index in table.indexes), (
            f"{table.name}: an expired row would still stand in the way of a unique index"
        )
        super().__init__(table)
        self.is_expiring = table.expires is not None
        self._by = {index.name: index.by for index in table.indexes}
        self._finds: dict[tuple[str, bool, bool, bool, bool], str] = {}
        self._updates: dict[tuple[int, ...], tuple[str, tuple[int, ...]]] = {}
        self._split_columns()
        self._write_statements()

    def _split_columns(self) -> None:
        """Key, indexed and free columns, by their places."""
        indexes = [*self.table.indexes, *([expiry] if (expiry := expiry_index(self.table)) else [])]
        indexed = {name for index in indexes for name in index_columns(index)} - set(self.table.key)
        places = range(len(self.columns))
        self._indexed = tuple(n for n in places if self.columns[n] in indexed)
        self._free = tuple(n for n in places if n not in self._keys and n not in self._indexed)
        self._indexed_of = tuple_getter(tuple(self.columns[n] for n in self._indexed))

    def _write_statements(self) -> None:
        table, name = self.table, quote(self.name)
        self._key_is = " AND ".join(f"{quote(part)} = ?" for part in table.key)
        listed = ", ".join(map(quote, self._names))
        marks = ", ".join("?" * len(self._names))
        key = ", ".join(map(quote, table.key))
        others = [quote(column) for column in self.columns if column not in table.key]
        taken = ", ".join(f"{column} = excluded.{column}" for column in others)
        self._live = f" AND {quote(table.expires)} > ?" if table.expires else ""
        is_over = f"{quote(table.expires)} <= ?" if table.expires else "0"
        self.select = f"SELECT {listed} FROM {name}"
        self.get = f"{self.select} WHERE {self._key_is}{self._live}"
        # An expired row is no row: a new one takes its place and begins at version 1.
        replaces = f"DO UPDATE SET {taken}, version = 1 WHERE {is_over}" if table.expires else "DO NOTHING"
        self.insert = f"INSERT INTO {name} ({listed}) VALUES ({marks}) ON CONFLICT ({key}) {replaces}"
        self.upsert = (
            f"INSERT INTO {name} ({listed}) VALUES ({marks}) ON CONFLICT ({key}) DO UPDATE SET {taken}, "
            f"version = iif({is_over}, 1, version + 1) RETURNING version"
        ).replace("SET , ", "SET ")
        self.delete = f"DELETE FROM {name} WHERE {self._key_is} AND version = ?{self._live}"
        self.version = f"SELECT version FROM {name} WHERE {self._key_is}{self._live}"
        self.all = f"{self.select}{f' WHERE {quote(table.expires)} > ?' if table.expires else ''} ORDER BY {key}"
        self.prune = (
            f"DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE {is_over} LIMIT ?)"
            if table.expires
            else None
        )

    # -- questions --------------------------------------------------------------------------------------------

    def find_values(self, question: Find, now: int) -> list[Any] | None:
        """What the statement of a question is given; None if the index cannot have such rows."""
        if not 0 <= question.limit <= FIND_MAX:
            raise Invalid(f"one question returns 0 to {FIND_MAX} rows of {self.name}, not {question.limit}")
        equals = self._equals(question.index, question.equals)
        if equals is None:
            return None
        if question.after is not None:
            equals.append(question.after)
        if question.until is not None:
            equals.append(question.until)
        if self.is_expiring:
            equals.append(now)
        equals.append(question.limit)
        return equals

    def find_sql(self, question: Find, *, is_narrow: bool) -> str:
        """The statement of a question: for whole rows or, narrow, for their keys."""
        has_after, has_until = question.after is not None, question.until is not None
        shape = (question.index, has_after, has_until, question.is_newest_first, is_narrow)
        return self._finds.get(shape) or self._finds.setdefault(shape, self._find_sql(*shape))

    def key(self, key: Values) -> Values:
        """A key as it is asked for; Invalid if no row can have it."""
        assert len(key) == len(self.table.key), f"a row of {self.name} is got by {self.table.key}, not {key}"
        for part in key:
            check_key_part(self.name, part)
        return key

    def count(self, question: CountRows, now: int) -> tuple[str, Sequence[Any]] | None:
        equals = self._equals(question.index, question.equals)
        if equals is None:
            return None
        where = self._where(self.table.index(question.index))
        sql = f"SELECT count(*) FROM {self._source(question.index)}{where}"
        return sql, [*equals, now] if self.is_expiring else equals

    def _equals(self, name: str, equals: tuple[Any, ...]) -> list[Any] | None:
        by = self._by.get(name) or self.table.index(name).by
        assert len(equals) == len(by), f"{self.name}.{name} is asked for {by}, not {equals}"
        return None if None in equals else list(map(plain, equals))

    def _find_sql(self, name: str, has_after: bool, has_until: bool, is_newest_first: bool, is_narrow: bool) -> str:
        index = self.table.index(name)
        assert index.order is not None or not (has_after or has_until), f"{self.name}.{name} has no order to bound"
        turn, beyond, within = (" DESC", "<", ">=") if is_newest_first else ("", ">", "<=")
        bounds = [f" AND {quote(index.order)} {beyond} ?"] if has_after and index.order else []
        bounds += [f" AND {quote(index.order)} {within} ?"] if has_until and index.order else []
        order = [*([index.order] if index.order else []), *self.table.key]
        ordered = ", ".join(f"{quote(column)}{turn}" for column in order)
        listed = ", ".join(map(quote, self.table.key if is_narrow else self._names))
        where = self._where(index, "".join(bounds))
        return f"SELECT {listed} FROM {self._source(name)}{where} ORDER BY {ordered} LIMIT ?"

    def _where(self, index: TableIndex, bounds: str = "") -> str:
        """A row without a value to be ordered by is not in the index, as one without a value to be found by."""
        nullable = {column.name for column in self.table.columns if column.is_nullable}
        parts = "".join(f" AND {quote(name)} = ?" for name in index.by)
        if index.order in nullable and index.order is not None:
            parts += f" AND {quote(index.order)} IS NOT NULL"
        parts += bounds + self._live
        return f" WHERE {parts[5:]}" if parts else ""

    def _source(self, name: str) -> str:
        """Names the index, so that no question ever walks the table because a planner guessed."""
        index = self.table.index(name)
        if not needs_index(self.table, index):
            return quote(self.name)
        return f"{quote(self.name)} INDEXED BY {quote(index_name(self.table, index))}"

    # -- writes -----------------------------------------------------------------------------------------------

    def update(self, row: Any, values: list[Any], known: Any) -> tuple[str, list[Any]]:
        """The statement that turns a row into its next version, if it is at the row's own one."""
        if known is None or known.version != row.version:
            moved = self._indexed
        else:
            old, new = self._indexed_of(known), self._indexed_of(row)
            moved = tuple([n for n, was, now in zip(self._indexed, old, new, strict=True) if was != now])
        named = self._updates.get(moved)
        if named is None:
            places = (*self._free, *moved)
            named = self._updates[moved] = (self._update_sql(places), places)
        sql, places = named
        return sql, [*[values[n] for n in places], row.version + 1, *self.key_of(row), row.version]

    def _update_sql(self, places: tuple[int, ...]) -> str:
        sets = "".join(f"{quote(self.columns[n])} = ?, " for n in places)
        return f"UPDATE {quote(self.name)} SET {sets}version = ? WHERE {self._key_is} AND version = ?{self._live}"

    def unique_violation(self, error: str, row: Any) -> Conflict:
        """SQLite names the columns of the unique index that said no: `UNIQUE constraint failed: jobs.dedupe_key`."""
        _, _, named = error.partition(": ")
        columns = tuple(part.rpartition(".")[2] for part in named.split(", "))
        index = next((index.name for index in self.table.indexes if index.is_unique and index.by == columns), named)
        values = ", ".join(repr(getattr(row, column, None)) for column in columns)
        return Conflict(f"{self.name} already has a row with {values} in its unique index {index!r}")


def plain(value: Any) -> Any:
    """SQLite binds exact texts and numbers quickly, and their descendants by a detour."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    return str.__str__(value) if isinstance(value, str) else int(value) if kind is bool else value
