"""A SQLite registry file: its URL, its connection settings, its schema and migrations, and its errors.

Several processes may open a file at once: each step takes the write lock first and checks again. A file is never left
between two versions. A file of a newer argosy, of another program, or with an unfinished import is rejected.
"""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from argosy.base.errors import ArgosyError, Conflict, Invalid, Unavailable
from argosy.registry import migrations as schema
from argosy.registry.migrations import Migration
from argosy.registry.table import Table

Durability = Literal["full", "normal"]

MEMORY = ":memory:"
LIBRARY_MIN = (3, 35, 0)  # the first with RETURNING
# Other processes hold the file for one commit or one migration step; seconds at most.
BUSY_MS = 10_000  # how long a call waits for another process that holds the file
# Four times SQLite's default, so that the registry of a large fleet stays in memory.
CACHE_KIB = 8 * 1024  # page cache of a connection
STATEMENTS_CACHED = 512  # prepared statements of a connection; there are about ten per table
# The default of 1000 pages copies (and syncs) four times as often under steady writes.
CHECKPOINT_PAGES = 4000  # 16 MiB of write-ahead log between two copies into the file
HALF_LOADED = "half_loaded"  # the row of _meta that marks an unfinished import

# -- statements of sql/ -----------------------------------------------------------------------------------------------

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?);$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r" *--.*$", re.MULTILINE)


def _read_sql(name: str) -> str:
    return (files("argosy.registry.backends") / "sql" / name).read_text(encoding="utf-8")


SCHEMA = [part.strip() for part in _COMMENT.sub("", _read_sql("schema.sql")).split(";") if part.strip()]
SQL: dict[str, str] = dict(_NAMED.findall(_read_sql("statements.sql")))

# -- opening ----------------------------------------------------------------------------------------------------------


def path_of(url: str | Path) -> str:
    """`sqlite:///registry.db` is relative and `sqlite:////var/lib/registry.db` absolute, as in SQLAlchemy."""
    text = str(url)
    if text in (MEMORY, "memory://", "sqlite://", "sqlite:///:memory:"):
        return MEMORY
    if text.startswith("sqlite:///"):
        text = text.removeprefix("sqlite:///")
    elif "://" in text:
        raise Invalid(f"{text!r:.200} is not a SQLite URL; write sqlite:///relative.db or sqlite:////absolute.db")
    if not text:
        raise Invalid("a SQLite registry needs a path; write sqlite:///relative.db or sqlite:////absolute.db")
    return text


def connect(path: str, *, durability: Durability = "full") -> sqlite3.Connection:
    """A connection with all settings that SQLite does not store in the file."""
    if sqlite3.sqlite_version_info < LIBRARY_MIN:
        raise Invalid(f"the SQLite library is {sqlite3.sqlite_version}; the registry needs {LIBRARY_MIN} or newer")
    connection = sqlite3.connect(
        path,
        timeout=BUSY_MS / 1000,
        isolation_level=None,  # transactions begin and end where the code says so, never by the driver
        check_same_thread=False,  # opened in one thread, then used by the writer's thread alone
        cached_statements=STATEMENTS_CACHED,
    )
    try:
        # Stored in the file, unlike the settings after it; repeating it is harmless.
        connection.execute("PRAGMA journal_mode = WAL")  # readers do not block the writer
        # Per connection, not in the file: a connection without it is 20 times slower, or not durable.
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
    """Brings the file to the current schema, or raises and leaves it as it was."""
    current = _initialize(connection, tables, version, where)
    with closing(connection.cursor()) as cursor:
        if _read_meta(cursor, HALF_LOADED):
            raise Conflict(
                f"the registry {where} is half imported: remove the file and import again, or restore a copy of it"
            )
    # Computed before the first step, so that a file with a gap in its migrations is rejected unchanged.
    steps = schema.steps(current, version, migrations, where=f"the registry {where}")
    if steps and not may_migrate:
        raise Conflict(f"the registry {where} has schema version {current}: run `argosy registry migrate` first")
    for step in steps:
        _migrate(connection, step)
    # The last check is on the file itself: a version number alone would not show a migration that was forgotten.
    wrong = [line for table in tables for line in schema.differences(table, _columns(connection, table))]
    if wrong:
        raise Invalid(f"the registry {where} is not as declared ({'; '.join(wrong[:5])}): a migration is missing")


def _initialize(connection: sqlite3.Connection, tables: Sequence[Table[Any]], version: int, where: str) -> int:
    """Returns the file's schema version. An empty file first gets its tables, in one transaction."""
    with closing(connection.cursor()) as cursor:
        # The write lock first: two processes that find an empty file would otherwise both create its tables.
        cursor.execute("BEGIN IMMEDIATE")
        try:
            known = {name for (name,) in cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if not known:
                for statement in (*SCHEMA, *schema.create(tables)):
                    cursor.execute(statement)
                cursor.executemany(SQL["meta_write"], [("schema_version", version), ("revision", 0)])
            # Never add tables to a database that another program owns.
            elif "_meta" not in known:
                raise Invalid(f"{where} is another program's database: name another file for the registry")
            current = _read_meta(cursor, "schema_version")
        except BaseException:
            _roll_back(connection)
            raise
        cursor.execute("COMMIT")
        if current is None:
            raise Invalid(f"the registry {where} has no schema version: restore a copy of it")
        return current


def _migrate(connection: sqlite3.Connection, step: Migration) -> None:
    """Performs one step and writes its version, in one transaction; nothing if another process was first."""
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            # Read again under the lock, because another process may have done this step while this one waited.
            if _read_meta(cursor, "schema_version") == step.number - 1:
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


def _read_meta(cursor: sqlite3.Cursor, name: str) -> int | None:
    row = cursor.execute(SQL["meta_read"], (name,)).fetchone()
    return None if row is None else int(row[0])


def _columns(connection: sqlite3.Connection, table: Table[Any]) -> dict[str, str]:
    rows = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table.name,)).fetchall()
    return dict(rows)


# -- errors -----------------------------------------------------------------------------------------------------------

# Unavailable where a retry or an operator's action on the machine helps; Invalid where the configuration is wrong.
_ADVICE: dict[str, tuple[type[ArgosyError], str]] = {
    "SQLITE_FULL": (Unavailable, "its disk is full: free some space, then retry. Acknowledged writes are safe"),
    "SQLITE_READONLY": (Unavailable, "it cannot be written: check the file's and its directory's owner, and the mount"),
    "SQLITE_BUSY": (Unavailable, f"another process has held it for {BUSY_MS} ms: retry with back-off"),
    "SQLITE_LOCKED": (Unavailable, "it is locked: retry with back-off"),
    "SQLITE_IOERR": (Unavailable, "its disk does not read or write: check the disk, then retry"),
    "SQLITE_CANTOPEN": (Invalid, "it cannot be opened: check that the directory exists and is writable"),
    "SQLITE_PERM": (Invalid, "permission denied: check the file's owner"),
    "SQLITE_AUTH": (Invalid, "permission denied: check the file's owner"),
    "SQLITE_NOTADB": (Invalid, "it is not a SQLite database: name another file, or restore a copy"),
    "SQLITE_CORRUPT": (Invalid, "it is damaged: stop, keep the file, and restore a copy or import an export"),
    "SQLITE_NOMEM": (Unavailable, "memory is short: retry with back-off"),
}


def is_busy(error: BaseException) -> bool:
    return _error_name(error) in ("SQLITE_BUSY", "SQLITE_LOCKED")


def to_argosy_error(error: BaseException, where: str) -> BaseException:
    """The error with advice if there is any; others stay as they are, because no caller could handle them."""
    if not isinstance(error, sqlite3.Error) or _error_name(error) not in _ADVICE:
        return error
    kind, advice = _ADVICE[_error_name(error)]
    converted = kind(f"the registry {where} failed ({error}): {advice}")
    converted.__cause__ = error
    return converted


def _error_name(error: BaseException) -> str:
    """SQLite's name of an error without its detail: SQLITE_IOERR_WRITE is SQLITE_IOERR."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])
