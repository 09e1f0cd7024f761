"""Everything a registry holds as plain items, and back: what export and import are made of.

    ("jobs", {"job_id": "a", …, "version": 3})                  a row, by the name of its table
    ("log", {"name": …, "payload": b"…", "dropped": 0})         an entry, oldest first; None if the log has none left
    ("counter", {"name": …, "value": 7, "expires_at": None})    milliseconds since 1970, or None: for ever

What has expired is left out. Rows keep their versions.
"""

from collections.abc import Iterable, Iterator, Mapping
from sqlite3 import Connection
from typing import Any

from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends import sqlite_logs as logs
from argosy.registry.backends.sqlite_rows import TableSql
from argosy.registry.backends.sqlite_session import OWN_ERRORS, SqliteSession
from argosy.registry.backends.sqlite_setup import HALF_LOADED
from argosy.registry.backends.sqlite_sql import SQL
from argosy.registry.transaction import Append

Item = tuple[str, dict[str, Any]]


def items(connection: Connection, tables: Iterable[TableSql], now: int) -> Iterator[Item]:
    """Read inside the caller's transaction, so that all of it is of one instant."""
    for table in tables:
        for stored in connection.execute(table.all, (now,) if table.is_expiring else ()):
            row = table.decode(stored)
            yield table.name, {name: getattr(row, name) for name in (*table.columns, "version")}
    for log_id, name, dropped, length in connection.execute(SQL["log_all"]):
        for (payload,) in connection.execute(SQL["entry_all"], (log_id,)):
            yield "log", {"name": name, "payload": payload, "dropped": dropped}
        if not length and dropped:
            yield "log", {"name": name, "payload": None, "dropped": dropped}
    for name, value, expires_at in connection.execute(SQL["counter_all"], (now,)):
        yield "counter", {"name": name, "value": value, "expires_at": expires_at}


def begin_load(session: SqliteSession) -> None:
    """Marks the registry as half imported; it must be empty, so that nothing is mixed or lost."""
    held = [name for name in session.tables if _has_rows(session, f'"{name}"')]
    held += [name for name in ("_logs", "_counters") if _has_rows(session, name)]
    if held:
        raise Conflict(f"an import needs an empty registry, and this one has {', '.join(held[:5])}: name a new one")
    session.cursor.execute(SQL["meta_write"], (HALF_LOADED, 1))


def load(session: SqliteSession, chunk: Iterable[Item]) -> int:
    """Stores some items as they are, and says how many."""
    count = 0
    for kind, values in chunk:
        count += 1
        try:
            _load_one(session, kind, values)
        except (KeyError, TypeError, ValueError, AttributeError, *OWN_ERRORS) as error:
            raise Invalid(f"this {kind!r:.80} cannot be imported: {error!r}") from error
    return count


def end_load(session: SqliteSession) -> None:
    session.cursor.execute(SQL["meta_drop"], (HALF_LOADED,))


def _has_rows(session: SqliteSession, table: str) -> bool:
    return session.cursor.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None


def _load_one(session: SqliteSession, kind: str, values: Mapping[str, Any]) -> None:
    if kind == "log":
        _load_entry(session, values["name"], values["payload"], values["dropped"])
    elif kind == "counter":
        logs.set_counter(session.cursor, values["name"], values["value"], values["expires_at"])
    elif kind in session.tables:
        session.load_row(session.tables[kind], values)
    else:
        raise Invalid(f"there is no table {kind!r:.80}: this export is of a newer argosy")


def _load_entry(session: SqliteSession, name: str, payload: bytes | None, dropped: int) -> None:
    if session.cursor.execute(SQL["log_find"], (name,)).fetchone() is None:
        logs.begin(session.cursor, name, dropped=dropped)
    if payload is not None:
        logs.append(session.cursor, Append(name, payload))
