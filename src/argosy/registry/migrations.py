"""Schema of the relational store, generated from the table declarations, and the migrations between versions.

A new store is created at the current version. An older store is migrated one version at a time, each in one transaction
together with its version row, so that a crash leaves it at a version and never between two. A new column with a default
is one line: `Migration(2, "jobs know their tenant", (add_column(JOBS, "tenant"),))`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from argosy.base.errors import Conflict, Invalid
from argosy.registry.table import Column, ColumnKind, Table, TableIndex, default_of

SCHEMA_VERSION = 1

SQL_TYPES = {
    ColumnKind.TEXT: "TEXT",
    ColumnKind.INTEGER: "INTEGER",
    ColumnKind.BOOLEAN: "INTEGER",
    ColumnKind.BYTES: "BLOB",
    ColumnKind.LIST: "TEXT",
    ColumnKind.MAP: "TEXT",
}


@dataclass(frozen=True)
class Migration:
    """The statements from version `number - 1` to `number`."""

    number: int
    why: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = ()


def create(tables: Iterable[Table[Any]]) -> list[str]:
    """All tables and their indexes, as they are declared now."""
    return [statement for table in tables for statement in (create_table(table), *create_indexes(table))]


def create_table(table: Table[Any]) -> str:
    # Types and NOT NULL only. Ranges and lengths are checked in Python, by code that both stores share (REG-1).
    columns = [_definition(column) for column in table.columns]
    key = ", ".join(map(quote, table.key))
    parts = ",\n    ".join([*columns, '"version" INTEGER NOT NULL', f"PRIMARY KEY ({key})"])
    # Keys are texts: with a rowid, every lookup would search two B-trees, the key's and the rows'.
    return f"CREATE TABLE {quote(table.name)} (\n    {parts}\n) WITHOUT ROWID"


def create_indexes(table: Table[Any]) -> list[str]:
    declared = [create_index(table, index) for index in table.indexes if needs_index(table, index)]
    return [*declared, *([create_index(table, expiry)] if (expiry := expiry_index(table)) else [])]


def create_index(table: Table[Any], index: TableIndex) -> str:
    """Rows whose values contain None are not in the index; SQLite appends the key, which orders rows that are equal."""
    columns = index_columns(index)
    nullable = [column.name for column in table.columns if column.name in columns and column.is_nullable]
    where = " AND ".join(f"{quote(name)} IS NOT NULL" for name in nullable)
    return (
        f"CREATE {'UNIQUE ' if index.is_unique else ''}INDEX {quote(index_name(table, index))}"
        f" ON {quote(table.name)} ({', '.join(map(quote, columns))}){f' WHERE {where}' if where else ''}"
    )


def add_column(table: Table[Any], name: str) -> str:
    """Adds a column; existing rows get its default."""
    # The column is declared already, so the statement cannot differ from what a new registry gets.
    column = next((column for column in table.columns if column.name == name), None)
    assert column is not None, f"{table.name} has no column {name!r}"
    default = literal(column, default_of(table.row, name))
    return f"ALTER TABLE {quote(table.name)} ADD COLUMN {_definition(column)} DEFAULT {default}"


def steps(found: int, wanted: int, migrations: Sequence[Migration], *, where: str) -> list[Migration]:
    """The migrations between two versions. Raises `Conflict` if a newer Argosy wrote the store."""
    if found > wanted:
        raise Conflict(
            f"{where} has schema version {found} and this argosy knows {wanted}: "
            f"use the argosy that wrote it, or a newer one"
        )
    chosen = [step for step in migrations if found < step.number <= wanted]
    # A gap would leave the tables in a state that no version has.
    if [step.number for step in chosen] != list(range(found + 1, wanted + 1)):
        raise Invalid(
            f"{where} has schema version {found}, and there is no way from there to {wanted}: "
            f"export it with the argosy that wrote it, and import it into a new registry"
        )
    return chosen


def differences(table: Table[Any], found: Mapping[str, str]) -> list[str]:
    """How the columns of a stored table (name to SQL type) differ from those declared."""
    wanted = {column.name: SQL_TYPES[column.kind] for column in table.columns} | {"version": "INTEGER"}
    return [
        *(f"{table.name} lacks the column {name!r}" for name in wanted if name not in found),
        *(f"{table.name} has the unknown column {name!r}" for name in found if name not in wanted),
        *(
            f"{table.name}.{name} is {found[name]}, not {kind}"
            for name, kind in wanted.items()
            if name in found and found[name] != kind
        ),
    ]


def index_columns(index: TableIndex) -> tuple[str, ...]:
    """A unique index has its values alone; any other has the order column after them."""
    return index.by if index.is_unique or index.order is None else (*index.by, index.order)


def index_name(table: Table[Any], index: TableIndex) -> str:
    return f"{table.name}.{index.name}"


def needs_index(table: Table[Any], index: TableIndex) -> bool:
    """False if the primary key already has the rows in this order."""
    columns = index_columns(index)
    return columns != table.key[: len(columns)]


def expiry_index(table: Table[Any]) -> TableIndex | None:
    """Pruning finds expired rows by this index; a table without another index on its expiry gets one."""
    if table.expires is None or any(index_columns(index) == (table.expires,) for index in table.indexes):
        return None
    return TableIndex("_expires", order=table.expires)


def quote(name: str) -> str:
    assert '"' not in name, name
    return f'"{name}"'


def literal(column: Column, value: object) -> str:
    """A default as SQL text."""
    if value is None:
        return "NULL"
    if column.kind is ColumnKind.BYTES:
        assert isinstance(value, bytes)
        return f"x'{value.hex()}'"
    if column.kind in (ColumnKind.INTEGER, ColumnKind.BOOLEAN):
        return str(int(value))  # type: ignore[call-overload]
    text = str(value) if column.kind is ColumnKind.TEXT else msgspec.json.encode(value).decode()
    return "'" + text.replace("'", "''") + "'"


def _definition(column: Column) -> str:
    return f"{quote(column.name)} {SQL_TYPES[column.kind]}{'' if column.is_nullable else ' NOT NULL'}"
