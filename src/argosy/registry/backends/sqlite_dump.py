"""Dump and load of a registry in SQLite: everything as plain items (`ports.DumpItem`), and back.

Expired rows are left out. Rows keep their versions.
"""

from collections.abc import Iterable, Iterator, Mapping
from sqlite3 import Connection
from typing import Any

from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.sqlite_commit import append_log, begin_log, set_counter
from argosy.registry.backends.sqlite_rows import TableSql
from argosy.registry.backends.sqlite_session import OWN_ERRORS, SqliteSession
from argosy.registry.backends.sqlite_setup import HALF_LOADED, SQL
from argosy.registry.ports import DumpItem
from argosy.registry.transaction import Append


def dump_items(connection: Connection, tables: Iterable[TableSql], now: int) -> Iterator[DumpItem]:
    """Reads inside the caller's SQL transaction, so that all items are as of one instant."""
    for table in tables:
        for stored in connection.execute(table.all, (now,) if table.is_expiring else ()):
            row = table.decode(stored)
            yield table.name, {name: getattr(row, name) for name in (*table.columns, "version")}
    for log_id, name, dropped, length in connection.execute(SQL["log_all"]):
        for (payload,) in connection.execute(SQL["entry_all"], (log_id,)):
            yield "log", {"name": name, "payload": payload, "dropped": dropped}
        # An empty log is exported for its number of dropped entries, which must survive the move to another store.
        if not length and dropped:
            yield "log", {"name": name, "payload": None, "dropped": dropped}
    for name, value, expires_at in connection.execute(SQL["counter_all"], (now,)):
        yield "counter", {"name": name, "value": value, "expires_at": expires_at}


def begin_load(session: SqliteSession) -> None:
    """Marks the registry as half imported. It must be empty, so that nothing is mixed or overwritten."""
    occupied = [name for name in session.tables if _has_rows(session, f'"{name}"')]
    occupied += [name for name in ("_logs", "_counters") if _has_rows(session, name)]
    if occupied:
        raise Conflict(f"an import needs an empty registry, and this one has {', '.join(occupied[:5])}: name a new one")
    session.cursor.execute(SQL["meta_write"], (HALF_LOADED, 1))


def load_items(session: SqliteSession, chunk: Iterable[DumpItem]) -> int:
    """Stores items as they are, and returns how many."""
    count = 0
    for kind, values in chunk:
        count += 1
        try:
            _load_item(session, kind, values)
        # All mean that the item itself is wrong. The message names its kind, because an export has thousands of lines.
        except (KeyError, TypeError, ValueError, AttributeError, *OWN_ERRORS) as error:
            raise Invalid(f"this {kind!r:.80} cannot be imported: {error!r}") from error
    return count


def end_load(session: SqliteSession) -> None:
    session.cursor.execute(SQL["meta_drop"], (HALF_LOADED,))


def _has_rows(session: SqliteSession, table: str) -> bool:
    return session.cursor.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None


def _load_item(session: SqliteSession, kind: str, values: Mapping[str, Any]) -> None:
    if kind == "log":
        name, payload = values["name"], values["payload"]
        if session.cursor.execute(SQL["log_find"], (name,)).fetchone() is None:
            begin_log(session.cursor, name, dropped=values["dropped"])
        if payload is not None:
            append_log(session.cursor, Append(name, payload))
    elif kind == "counter":
        set_counter(session.cursor, values["name"], values["value"], values["expires_at"])
    elif kind in session.tables:
        session.import_row(session.tables[kind], values)
    else:
        raise Invalid(f"there is no table {kind!r:.80}: this export is of a newer argosy")
