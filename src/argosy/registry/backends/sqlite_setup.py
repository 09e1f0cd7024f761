"""Opens a registry file: the connection and its settings, the schema if the file is new, the migrations if it is old.

Several processes may do this at once: each step takes the write lock first and looks again. A file is never left
between two versions, and one that is of a newer argosy, of another program or half imported is refused.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from argosy.base.errors import Conflict, Invalid
from argosy.registry import migrations as schema
from argosy.registry.backends.sqlite_errors import BUSY_MS
from argosy.registry.backends.sqlite_sql import SCHEMA, SQL
from argosy.registry.migrations import Migration
from argosy.registry.table import Table

Durability = Literal["full", "normal"]

MEMORY = ":memory:"
LIBRARY_MIN = (3, 35, 0)  # for RETURNING
CACHE_KIB = 8 * 1024  # of pages, per connection
STATEMENTS_CACHED = 512  # about ten per table
CHECKPOINT_PAGES = 4000  # 16 MiB of log between two copies into the file
HALF_LOADED = "half_loaded"  # the marker of an import under way


def path_of(url: str | Path) -> str:
    """`sqlite:///registry.db` is relative and `sqlite:////var/lib/registry.db` absolute, as elsewhere in Python."""
    text = str(url)
    if text in (MEMORY, "memory://", "sqlite://", "sqlite:///:memory:"):
        return MEMORY
    if text.startswith("sqlite:///"):
        text = text.removeprefix("sqlite:///")
    elif "://" in text:
        raise Invalid(f"{text!r:.200} names no SQLite registry: write sqlite:///relative.db or sqlite:////absolute.db")
    if not text:
        raise Invalid("a SQLite registry needs a path: write sqlite:///relative.db or sqlite:////absolute.db")
    return text


def connect(path: str, *, durability: Durability = "full") -> sqlite3.Connection:
    """A connection with every setting that SQLite forgets between connections."""
    if sqlite3.sqlite_version_info < LIBRARY_MIN:
        raise Invalid(f"the SQLite library is {sqlite3.sqlite_version}: the registry needs {LIBRARY_MIN} or newer")
    connection = sqlite3.connect(
        path,
        timeout=BUSY_MS / 1000,
        isolation_level=None,  # transactions are begun and ended here, never by the driver
        check_same_thread=False,  # opened in one thread, then used by the writer alone
        cached_statements=STATEMENTS_CACHED,
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {durability.upper()}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(
    connection: sqlite3.Connection,
    tables: Sequence[Table[Any]],
    *,
    version: int,
    migrations: Sequence[Migration],
    where: str,
    may_migrate: bool = True,
) -> None:
    """Leaves the file with the present schema, or raises and leaves it as it was."""
    found = _initialize(connection, tables, version, where)
    with closing(connection.cursor()) as cursor:
        if _meta(cursor, HALF_LOADED):
            raise Conflict(
                f"the registry {where} is half imported: remove the file and import again, or restore a copy of it"
            )
    todo = schema.steps(found, version, migrations, where=f"the registry {where}")
    if todo and not may_migrate:
        raise Conflict(f"the registry {where} has schema version {found}: run `argosy registry migrate` first")
    for step in todo:
        _migrate(connection, step)
    wrong = [line for table in tables for line in schema.differences(table, _columns(connection, table))]
    if wrong:
        raise Invalid(f"the registry {where} is not as declared ({'; '.join(wrong[:5])}): a migration is missing")


def _initialize(connection: sqlite3.Connection, tables: Sequence[Table[Any]], version: int, where: str) -> int:
    """The file's schema version, after an empty file has been given its tables in one transaction."""
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            known = {name for (name,) in cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if not known:
                for statement in (*SCHEMA, *schema.create(tables)):
                    cursor.execute(statement)
                cursor.executemany(SQL["meta_write"], [("schema_version", version), ("revision", 0)])
            elif "_meta" not in known:
                raise Invalid(f"{where} is another program's database: name another file for the registry")
            found = _meta(cursor, "schema_version")
        except BaseException:
            _roll_back(connection)
            raise
        cursor.execute("COMMIT")
        if found is None:
            raise Invalid(f"the registry {where} has no schema version: restore a copy of it")
        return found


def _migrate(connection: sqlite3.Connection, step: Migration) -> None:
    """One step and its version row, in one transaction; nothing if another process has been first."""
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            if _meta(cursor, "schema_version") == step.number - 1:
                for statement in step.statements:
                    cursor.execute(statement)
                cursor.execute(SQL["meta_write"], ("schema_version", step.number))
        except BaseException:
            _roll_back(connection)
            raise
        cursor.execute("COMMIT")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _meta(cursor: sqlite3.Cursor, name: str) -> int | None:
    found = cursor.execute(SQL["meta_read"], (name,)).fetchone()
    return None if found is None else int(found[0])


def _columns(connection: sqlite3.Connection, table: Table[Any]) -> dict[str, str]:
    rows = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table.name,)).fetchall()
    return dict(rows)
