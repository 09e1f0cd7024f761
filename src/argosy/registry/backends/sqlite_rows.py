"""Rows of one declared table in SQLite: the codec, the SQL statements, and reads within one SQL transaction.

Maps and lists are JSON, booleans 0 or 1, enumerations their values. A value that could not be read back is rejected.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from sqlite3 import Cursor
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec

from argosy.base.errors import Conflict, Invalid
from argosy.registry.migrations import expiry_index, index_columns, index_name, needs_index, quote
from argosy.registry.table import Column, ColumnKind, Table, TableIndex, check_key_part
from argosy.registry.transaction import FIND_MAX, CountRows, Find, Get

# Dropping all is enough: within one SQL transaction of at most 256 calls a cache this full is rare.
CACHED_ROWS_MAX = 4096  # rows of a table cached in one SQL transaction, before all of them are dropped
SINGLE_READS_MAX = 8  # rows read one by one; if a find misses more in the cache, it reads all of its rows at once

Values = tuple[Any, ...]

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode
# Bound once, because they run for every row that is read.
_new = object.__new__
_set = object.__setattr__


class RowCodec:
    """Converts the rows of one table to the values that SQLite stores, and back."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.name = table.name
        self.columns = tuple(column.name for column in table.columns)
        self.key_of = tuple_getter(table.key)
        self._values_of = tuple_getter(self.columns)
        self._names = (*self.columns, "version")
        hints = get_type_hints(table.row)
        self._encoders = [(n, f) for n, c in enumerate(table.columns) if (f := _encoder(c, hints[c.name]))]
        self._decoders = [(c.name, f) for c in table.columns if (f := _decoder(c, hints[c.name]))]
        self._keys = [n for n, c in enumerate(table.columns) if c.name in table.key]
        # Only a row without `__post_init__` and `__slots__` is completely described by its `__dict__`.
        self._is_plain = not hasattr(table.row, "__post_init__") and not hasattr(table.row, "__slots__")

    def decode(self, stored: Sequence[Any]) -> Any:
        values = dict(zip(self._names, stored, strict=True))
        for name, convert in self._decoders:
            if (value := values[name]) is not None:
                values[name] = convert(value)
        if not self._is_plain:
            return self.table.row_from_values(values, values.pop("version"))
        # A frozen dataclass sets its fields one by one, which takes longer than reading them from the store did.
        row = _new(self.table.row)
        _set(row, "__dict__", values)
        return row

    def from_export(self, values: Mapping[str, Any]) -> Any:
        """A row from the values of an export."""
        unknown = set(values) - set(self._names)
        if unknown:
            raise Invalid(f"{self.name} has no column {', '.join(sorted(unknown))}: this export is of a newer argosy")
        columns = dict(values)
        version = columns.pop("version", None)
        # Every stored row has a version from 1 on; 0 would make the row look like one that was never stored.
        if type(version) is not int or version < 1:
            raise Invalid(f"a row of {self.name} has a version from 1, not {version!r:.80}")
        return self.table.row_from_values(columns, version)

    def encode(self, row: Any) -> list[Any]:
        """The columns of a row as SQLite stores them, after checking it."""
        self.table.check(row)
        values = list(self._values_of(row))
        for place, convert in self._encoders:
            if (value := values[place]) is not None:
                values[place] = convert(value)
        return values

    def check_type(self, row: Any) -> Any:
        if not isinstance(row, self.table.row):
            raise Invalid(f"{self.name} takes rows of {self.table.row.__name__}, not {type(row).__name__}")
        return row


def tuple_getter(names: tuple[str, ...]) -> Callable[[Any], Values]:
    if not names:
        return lambda row: ()
    if len(names) > 1:
        return attrgetter(*names)
    get = attrgetter(names[0])
    return lambda row: (get(row),)


def _encoder(column: Column, hint: Any) -> Callable[[Any], Any] | None:
    if column.kind is ColumnKind.MAP:
        return lambda value: _to_json(value if type(value) is dict else dict(value)).decode()
    if column.kind is ColumnKind.LIST:
        return lambda value: _to_json(value).decode()
    if column.kind is ColumnKind.BOOLEAN:
        return int
    # SQLite binds exact `str` values fast and subclasses slowly (`to_plain`), so enumerations are stored as their
    # values.
    enum = _enum(hint)
    return None if enum is None else {member: member.value for member in enum}.__getitem__


def _decoder(column: Column, hint: Any) -> Callable[[Any], Any] | None:
    if column.kind is ColumnKind.MAP:
        return _from_json
    if column.kind is ColumnKind.LIST:
        return lambda value: tuple(_from_json(value))
    if column.kind is ColumnKind.BOOLEAN:
        return bool
    enum = _enum(hint)
    if enum is None:
        return None
    members: Mapping[str, StrEnum] = {str(member): member for member in enum}
    return members.__getitem__


def _enum(hint: Any) -> type[StrEnum] | None:
    options = [option for option in get_args(hint) or (hint,) if option is not NoneType]
    return next((o for o in options if isinstance(o, type) and issubclass(o, StrEnum)), None)


# -- statements -------------------------------------------------------------------------------------------------------


class TableSql(RowCodec):
    """The statements of one table, built once, and its codec.

    SQLite rewrites every index of a column that an UPDATE names, even if the value is the same. So the update of a row
    that the transaction has read omits indexed columns that have not changed.
    """

    def __init__(self, table: Table[Any]) -> None:
        assert table.expires is None or not any(index.is_unique for index in table.indexes), (
            f"{table.name}: an expired row would still occupy its place in a unique index"
        )
        super().__init__(table)
        self.is_expiring = table.expires is not None
        self._by = {index.name: index.by for index in table.indexes}
        self._finds: dict[tuple[str, bool, bool, bool, bool], str] = {}
        self._updates: dict[tuple[int, ...], tuple[str, tuple[int, ...]]] = {}
        self._split_columns()
        self._write_statements()

    def _split_columns(self) -> None:
        """Positions of the indexed columns, and of those that are neither indexed nor part of the key."""
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
        assignments = ", ".join(f"{column} = excluded.{column}" for column in others)
        self._live = f" AND {quote(table.expires)} > ?" if table.expires else ""
        is_expired = f"{quote(table.expires)} <= ?" if table.expires else "0"
        self.select = f"SELECT {listed} FROM {name}"
        self.get = f"{self.select} WHERE {self._key_is}{self._live}"
        # An expired row counts as missing: a new one replaces it and begins at version 1.
        replaces = f"DO UPDATE SET {assignments}, version = 1 WHERE {is_expired}" if table.expires else "DO NOTHING"
        self.insert = f"INSERT INTO {name} ({listed}) VALUES ({marks}) ON CONFLICT ({key}) {replaces}"
        # The replacement: a table whose columns are all part of its key has no assignments.
        self.upsert = (
            f"INSERT INTO {name} ({listed}) VALUES ({marks}) ON CONFLICT ({key}) DO UPDATE SET {assignments}, "
            f"version = iif({is_expired}, 1, version + 1) RETURNING version"
        ).replace("SET , ", "SET ")
        self.delete = f"DELETE FROM {name} WHERE {self._key_is} AND version = ?{self._live}"
        self.version = f"SELECT version FROM {name} WHERE {self._key_is}{self._live}"
        # In the order of the key, so that two exports of one registry are equal.
        self.all = f"{self.select}{f' WHERE {quote(table.expires)} > ?' if table.expires else ''} ORDER BY {key}"
        self.prune = (
            f"DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE {is_expired} LIMIT ?)"
            if table.expires
            else None
        )

    def find_values(self, read: Find, now: int) -> list[Any] | None:
        """The parameters of a find; None if no row can be in the index with these values."""
        if not 0 <= read.limit <= FIND_MAX:
            raise Invalid(f"a find returns 0 to {FIND_MAX} rows of {self.name}, not {read.limit}")
        values = self._equals(read.index, read.equals)
        if values is None:
            return None
        if read.after is not None:
            values.append(read.after)
        if read.until is not None:
            values.append(read.until)
        if self.is_expiring:
            values.append(now)
        values.append(read.limit)
        return values

    def find_sql(self, read: Find, *, is_keys_only: bool) -> str:
        """The statement of a find, for whole rows or for their keys."""
        # The text of a find depends on these five alone. There are a few dozen shapes, so the cache needs no bound.
        shape = (read.index, read.after is not None, read.until is not None, read.is_newest_first, is_keys_only)
        return self._finds.get(shape) or self._finds.setdefault(shape, self._find_sql(*shape))

    def check_key(self, key: Values) -> Values:
        """Returns the key. Raises `Invalid` if no row can have it."""
        assert len(key) == len(self.table.key), f"the key of {self.name} is {self.table.key}, not {key}"
        for part in key:
            check_key_part(self.name, part)
        return key

    def count_sql(self, read: CountRows, now: int) -> tuple[str, Sequence[Any]] | None:
        equals = self._equals(read.index, read.equals)
        if equals is None:
            return None
        where = self._where(self.table.index(read.index))
        sql = f"SELECT count(*) FROM {self._source(read.index)}{where}"
        return sql, [*equals, now] if self.is_expiring else equals

    def _equals(self, name: str, equals: tuple[Any, ...]) -> list[Any] | None:
        by = self._by.get(name) or self.table.index(name).by
        assert len(equals) == len(by), f"{self.name}.{name} is read by {by}, not {equals}"
        # In SQL nothing equals NULL, and rows with None are not in the index.
        return None if None in equals else list(map(to_plain, equals))

    def _find_sql(self, name: str, has_after: bool, has_until: bool, is_newest_first: bool, is_keys_only: bool) -> str:
        index = self.table.index(name)
        assert index.order is not None or not (has_after or has_until), f"{self.name}.{name} has no order to bound"
        direction, beyond, within = (" DESC", "<", ">=") if is_newest_first else ("", ">", "<=")
        bounds = [f" AND {quote(index.order)} {beyond} ?"] if has_after and index.order else []
        bounds += [f" AND {quote(index.order)} {within} ?"] if has_until and index.order else []
        # The key comes last and makes the order total, as members do in Redis (REG-1).
        order = [*([index.order] if index.order else []), *self.table.key]
        ordered = ", ".join(f"{quote(column)}{direction}" for column in order)
        listed = ", ".join(map(quote, self.table.key if is_keys_only else self._names))
        where = self._where(index, "".join(bounds))
        return f"SELECT {listed} FROM {self._source(name)}{where} ORDER BY {ordered} LIMIT ?"

    def _where(self, index: TableIndex, bounds: str = "") -> str:
        """A row with None in the order column is not in the index, like one with None among the `by` columns."""
        nullable = {column.name for column in self.table.columns if column.is_nullable}
        parts = "".join(f" AND {quote(name)} = ?" for name in index.by)
        if index.order in nullable and index.order is not None:
            parts += f" AND {quote(index.order)} IS NOT NULL"
        parts += bounds + self._live
        return f" WHERE {parts[5:]}" if parts else ""

    def _source(self, name: str) -> str:
        """Names the index, so that a wrong guess of the query planner never scans the table."""
        index = self.table.index(name)
        if not needs_index(self.table, index):
            return quote(self.name)
        return f"{quote(self.name)} INDEXED BY {quote(index_name(self.table, index))}"

    def update(self, row: Any, values: list[Any], known: Any) -> tuple[str, list[Any]]:
        """The statement that stores a row's next version if the store has it at the row's own. `known` is the row as
        this transaction has read it, or None."""
        # Without the stored row at this very version, any indexed column may have changed, so all of them are written.
        if known is None or known.version != row.version:
            moved = self._indexed
        else:
            old, new = self._indexed_of(known), self._indexed_of(row)
            moved = tuple([n for n, was, now in zip(self._indexed, old, new, strict=True) if was != now])
        prepared = self._updates.get(moved)
        if prepared is None:
            places = (*self._free, *moved)
            prepared = self._updates[moved] = (self._update_sql(places), places)
        sql, places = prepared
        return sql, [*[values[n] for n in places], row.version + 1, *self.key_of(row), row.version]

    def _update_sql(self, places: tuple[int, ...]) -> str:
        sets = "".join(f"{quote(self.columns[n])} = ?, " for n in places)
        return f"UPDATE {quote(self.name)} SET {sets}version = ? WHERE {self._key_is} AND version = ?{self._live}"

    def unique_violation(self, error: str, row: Any) -> Conflict:
        """SQLite names the columns of the violated unique index: `UNIQUE constraint failed: jobs.dedupe_key`."""
        _, _, named = error.partition(": ")
        # The columns identify the index, because SQLite's message has no name of the index.
        columns = tuple(part.rpartition(".")[2] for part in named.split(", "))
        index = next((index.name for index in self.table.indexes if index.is_unique and index.by == columns), named)
        values = ", ".join(repr(getattr(row, column, None)) for column in columns)
        return Conflict(f"{self.name} already has a row with {values} in its unique index {index!r}")


def to_plain(value: Any) -> Any:
    """SQLite binds exact `str` and `int` fast, and their subclasses (enumerations) slowly."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    return str.__str__(value) if isinstance(value, str) else int(value) if kind is bool else value


# -- reads ------------------------------------------------------------------------------------------------------------


class SqliteReads:
    """Answers row reads inside one SQL transaction, and reads no row twice in it.

    Registry transactions of one batch often read the same rows: sixty claims read the head of one queue. While the SQL
    transaction is open no other connection can write, so a row stays as it was read until this transaction writes it. A
    find whose rows are mostly cached selects only keys, which come from the index alone.

    Rows that expire are read again each time, because time passes inside a SQL transaction, too.
    """

    def __init__(self, cursor: Cursor, tables: Iterable[TableSql]) -> None:
        self._cursor = cursor
        self._tables = {table.name: table for table in tables}
        self._rows: dict[str, dict[Values, Any]] = {name: {} for name in self._tables}

    def clear(self) -> None:
        """A SQL transaction has started, or has rolled back some of its writes."""
        for rows in self._rows.values():
            rows.clear()

    def invalidate(self, table: TableSql, key: Values) -> None:
        """A row was written."""
        self._rows[table.name].pop(key, None)

    def peek(self, table: TableSql, key: Values) -> Any:
        """The cached row, or None if it was not read."""
        return self._rows[table.name].get(key)

    def get(self, read: Get, now: int) -> Any:
        table = self._tables[read.table.name]
        return self._read_row(table, table.check_key(read.key), now)

    def find(self, read: Find, now: int) -> list[Any]:
        table = self._tables[read.table.name]
        values = table.find_values(read, now)
        if values is None:
            return []
        cached = self._rows[table.name]
        if len(cached) > CACHED_ROWS_MAX:
            cached.clear()
        # The rows that other calls of this batch have read are decoded already; keys alone are cheaper to read than
        # rows.
        if cached:
            keys = self._cursor.execute(table.find_sql(read, is_keys_only=True), values).fetchall()
            missing = [key for key in keys if key not in cached]
            if len(missing) <= SINGLE_READS_MAX:
                for key in missing:
                    self._read_row(table, key, now)
                return [cached[key] for key in keys]
        stored = self._cursor.execute(table.find_sql(read, is_keys_only=False), values).fetchall()
        rows = list(map(table.decode, stored))
        # Rows of expiring tables are not cached: each call has its own present time, and a cached row could have
        # expired.
        if not table.is_expiring:
            cached.update(zip(map(table.key_of, rows), rows, strict=True))
        return rows

    def count(self, read: CountRows, now: int) -> int:
        statement = self._tables[read.table.name].count_sql(read, now)
        count: int = 0 if statement is None else self._cursor.execute(*statement).fetchone()[0]
        return count

    def _read_row(self, table: TableSql, key: Values, now: int) -> Any:
        row = self._rows[table.name].get(key)
        if row is None:
            stored = self._cursor.execute(table.get, (*key, now) if table.is_expiring else key).fetchone()
            if stored is not None:
                row = table.decode(stored)
                if not table.is_expiring:
                    self._rows[table.name][key] = row
        return row
