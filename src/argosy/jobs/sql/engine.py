"""The SQL engine: SQLite in memory, one fresh database per statement, executed in a thread.

An authorizer permits only SELECT on our tables and functions that are listed; a progress handler interrupts a statement
that takes too long or whose caller has gone.
"""

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import Invalid, Throttled
from argosy.jobs.ports import RowReader
from argosy.jobs.sql.pushdown import extract_pushdown
from argosy.jobs.sql.table_loader import TableLoader
from argosy.jobs.sql.tables import MAP, TABLES, Cell, SqlLimits, SqlResult, StatementTimeout, StatementTooLarge, Value

PROGRESS_STEPS = 10_000  # instructions of SQLite's virtual machine between two checks: some tenths of a millisecond
# Few enough that the bounds on the result are checked before much is in memory.
FETCHED_AT_ONCE = 500
EXPRESSION_DEPTH_MAX = 200  # SQLite's parser recurses; its own default is 1,000
# SQLite's default is 500, far more than a query needs.
COMPOUND_SELECTS_MAX = 20
RETRY_AFTER_S = 1.0

_ERRORS = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError)


def element_at(container: Value, key: Value) -> str | None:
    """The values of a map under a key, as a list of one or none."""
    found = _parse(container)
    if isinstance(found, dict):
        return _to_json([found[key]]) if key in found else "[]"
    if isinstance(found, list) and isinstance(key, int) and 1 <= key <= len(found):
        return _to_json([found[key - 1]])
    return None


def array_contains(items: Value, item: Value) -> bool | None:
    found = _parse(items)
    return item in found if isinstance(found, list) else None


def array_any_value(items: Value) -> Value:
    """The first value that is not null."""
    found = _parse(items)
    values = found if isinstance(found, list) else []
    first = next((value for value in values if value is not None), None)
    return _to_json(first) if isinstance(first, dict | list) else first


def starts_with(text: Value, prefix: Value) -> bool | None:
    if not isinstance(text, str) or not isinstance(prefix, str):
        return None
    return text.startswith(prefix)


FUNCTIONS = (
    ("element_at", 2, element_at), ("array_contains", 2, array_contains), ("array_has", 2, array_contains),
    ("array_any_value", 1, array_any_value), ("starts_with", 2, starts_with),
)  # fmt: skip
# SQLite's own functions that are permitted: those that compute. Not those that make large values out of small ones
# (zeroblob, printf, replace) or that reach outside the database (load_extension).
BUILT_IN = frozenset((
    "abs", "avg", "coalesce", "count", "cume_dist", "date", "datetime", "dense_rank", "first_value",
    "glob", "group_concat", "hex", "ifnull", "iif", "instr", "json_array_length", "json_extract", "json_type",
    "json_valid", "lag", "last_value", "lead", "length", "like", "lower", "ltrim", "max", "min", "nth_value", "ntile",
    "nullif", "percent_rank", "quote", "rank", "round", "row_number", "rtrim", "sign", "strftime", "substr",
    "substring", "sum", "time", "total", "trim", "typeof", "unicode", "upper", "->", "->>",
))  # fmt: skip


def _parse(value: Value) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_ALLOWED = {name for name, _, _ in FUNCTIONS} | BUILT_IN


class SqlEngine:
    """Executes statements on shards, a bounded number at a time on each."""

    def __init__(self, clock: Clock, limits: SqlLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or SqlLimits()
        self._running: Counter[str] = Counter()

    async def query(
        self, shard_id: str, rows: RowReader, sql: str, parameters: Mapping[str, Value], *, tenant: str | None
    ) -> SqlResult:
        """Executes a statement. `parameters` are keyed by what follows the `$`; with a `tenant` only its rows exist.

        Raises Invalid for a wrong statement, StatementTimeout, StatementTooLarge, and Throttled while too many run.
        """
        # Before a database is made for it.
        if len(sql) > self._limits.statement_chars or len(parameters) > self._limits.parameters:
            raise StatementTooLarge(
                f"a statement may have {self._limits.statement_chars} characters"
                f" and {self._limits.parameters} parameters"
            )
        with (
            self._limit_concurrency(shard_id),
            closing(_Statement(sql, parameters, self._clock, self._limits)) as statement,
        ):
            tables = await statement.prepare()
            loader = TableLoader(
                shard_id,
                rows,
                now_ms=int(self._clock.wall() * 1000),
                tenant=tenant,
                pushdown=extract_pushdown(sql, parameters),
                scanned_max=self._limits.scanned_rows,
                pause=statement.pause,
            )
            # A database per statement: statements see one moment of each table, and a tenant's rows are never in a
            # database that another tenant's statement reads.
            for table in sorted(tables):
                async for chunk in loader.load(table):
                    await statement.insert(table, chunk)
            return await statement.run(tables)

    @contextmanager
    def _limit_concurrency(self, shard_id: str) -> Iterator[None]:
        # Rejected with a time to retry, not queued: slow statements would pile up.
        if self._running[shard_id] >= self._limits.concurrent:
            raise Throttled(
                f"too many statements: {self._limits.concurrent} are running on this shard; retry",
                retry_after_s=RETRY_AFTER_S,
            )
        self._running[shard_id] += 1
        try:
            yield
        finally:
            self._running[shard_id] -= 1


class _Statement:
    """One statement and its database. Its thread may outlive the caller, but not for long: see `close`."""

    def __init__(self, sql: str, parameters: Mapping[str, Value], clock: Clock, limits: SqlLimits) -> None:
        self._sql = sql
        self._parameters = parameters
        self._clock = clock
        self._limits = limits
        self._ends_at = clock.now() + limits.statement_s
        self._is_over_time = False
        self._lock = threading.Lock()  # guards the two flags below
        self._is_closed = False
        self._is_running = False
        self._tables: set[str] = set()
        self._denied = ""
        # Used by several threads one after the other, never at the same time: every call awaits the previous one.
        self._base = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        # No value may be larger than a whole result.
        self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(limits.result_bytes, 1 << 20))
        self._base.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, EXPRESSION_DEPTH_MAX)
        self._base.setlimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, COMPOUND_SELECTS_MAX)
        # No ATTACH: it would open files of the node.
        self._base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        for name, arguments, function in FUNCTIONS:
            self._base.create_function(name, arguments, function, deterministic=True)
        # All tables, also those that the statement does not read: `prepare` finds out which it does.
        for table in TABLES.values():
            self._base.execute(table.ddl)
        self._base.set_progress_handler(self._check_deadline, PROGRESS_STEPS)

    async def prepare(self) -> set[str]:
        """The tables that the statement reads; Invalid if it is no SELECT on the tables above."""
        await self._work(self._prepare)
        return set(self._tables)

    async def pause(self) -> None:
        if self._clock.now() >= self._ends_at:
            raise self._timeout_error()
        await asyncio.sleep(0)

    async def insert(self, table: str, rows: list[tuple[Value, ...]]) -> None:
        await self.pause()
        await self._work(lambda: self._base.executemany(TABLES[table].insert, rows))

    async def run(self, tables: set[str]) -> SqlResult:
        names, rows = await self._work(self._select)
        columns = tuple((name, _kind(name, tables, [row[at] for row in rows])) for at, name in enumerate(names))
        maps = [at for at, (_, kind) in enumerate(columns) if kind == MAP]
        return SqlResult(columns, tuple(_with_maps(row, maps) for row in rows) if maps else tuple(rows))

    def close(self) -> None:
        """Closes the database. If a thread still uses it, the progress handler interrupts that thread, which closes it:
        a connection must not be closed while another thread uses it."""
        with self._lock:
            self._is_closed = True
            if not self._is_running:
                self._base.close()

    async def _work(self, work: Any) -> Any:
        def run() -> Any:
            # Set here and not by the caller: a call that is cancelled while it waits for a thread never starts.
            with self._lock:
                if self._is_closed:
                    return None  # the caller was cancelled
                self._is_running = True
            try:
                return work()
            except _ERRORS as error:
                raise self._failure(error) from error
            finally:
                with self._lock:
                    self._is_running = False
                    if self._is_closed:
                        self._base.close()

        return await asyncio.to_thread(run)

    def _prepare(self) -> None:
        self._base.set_authorizer(self._authorize)
        try:
            # EXPLAIN compiles the statement without running it; the authorizer sees every table, column and function.
            self._base.execute(f"EXPLAIN {self._sql}", self._parameters)
        finally:
            # Without it while rows are inserted: the authorizer denies everything but SELECT.
            self._base.set_authorizer(None)

    def _select(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        self._base.set_authorizer(self._authorize)
        cursor = self._base.execute(self._sql, self._parameters)
        names = [column[0] for column in cursor.description or ()]
        rows: list[tuple[Any, ...]] = []
        size_bytes = 0
        while fetched := cursor.fetchmany(FETCHED_AT_ONCE):
            rows += fetched
            size_bytes += sum(_size_bytes(cell) for row in fetched for cell in row)
            if size_bytes > self._limits.result_bytes:
                raise StatementTooLarge(f"the result has more than {self._limits.result_bytes} bytes; add a LIMIT")
            if len(rows) > self._limits.result_rows:
                raise StatementTooLarge(f"the result has more than {self._limits.result_rows} rows; add a LIMIT")
        return names, rows

    def _authorize(self, action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
        match action:
            case sqlite3.SQLITE_SELECT:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_READ if first in TABLES:
                self._tables.add(first)
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_FUNCTION if second is not None and second.lower() in _ALLOWED:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_FUNCTION:
                self._denied = f"function {second} is not supported"
            case sqlite3.SQLITE_READ:
                self._denied = f"table {first} not found; the tables are {', '.join(TABLES)}"
            # A recursive statement can produce rows without end out of nothing.
            case sqlite3.SQLITE_RECURSIVE:
                self._denied = "recursive statements are not supported"
            case _:
                self._denied = "only SELECT is supported"
        return sqlite3.SQLITE_DENY

    def _check_deadline(self) -> bool:
        """True stops the statement."""
        self._is_over_time = self._clock.now() >= self._ends_at
        return self._is_over_time or self._is_closed

    def _failure(self, error: Exception) -> Invalid:
        # SQLite reports an interrupted statement like any other error; the flag says why it was interrupted.
        if self._is_over_time:
            return self._timeout_error()
        return Invalid(f"sql: {self._denied or error}")

    def _timeout_error(self) -> StatementTimeout:
        return StatementTimeout(f"the statement timed out after {self._limits.statement_s:g} s; read less")


def _size_bytes(cell: Value) -> int:
    return len(cell) if isinstance(cell, str | bytes) else 8


def _kind(name: str, tables: set[str], cells: list[Value]) -> str:
    """The type of a result column: that of the table's column of this name if the values fit, else by the values."""
    seen = {type(cell) for cell in cells if cell is not None}
    by_value = {str: "Utf8", int: "Int64", float: "Float64", bytes: "Binary"}
    of_values = {by_value[kind] for kind in seen}
    declared = next((TABLES[table].columns[name] for table in sorted(tables) if name in TABLES[table].columns), None)
    if declared is not None and of_values <= {_plain(declared)} and _fits(declared, cells):
        return declared
    if of_values == {"Int64", "Float64"}:
        return "Float64"
    return of_values.pop() if len(of_values) == 1 else ("Utf8" if of_values else "Null")


def _fits(declared: str, cells: list[Value]) -> bool:
    most = {"UInt8": 0xFF, "UInt32": 0xFFFF_FFFF}.get(declared)
    return most is None or all(0 <= cell <= most for cell in cells if isinstance(cell, int))


def _plain(declared: str) -> str:
    return "Utf8" if declared in ("Utf8", MAP) else "Int64"


def _with_maps(row: tuple[Value, ...], maps: list[int]) -> tuple[Cell, ...]:
    cells: list[Cell] = list(row)
    for at in maps:
        text = row[at]
        if isinstance(text, str):
            with suppress(msgspec.DecodeError):  # another value under the name of a column of maps
                cells[at] = msgspec.json.decode(text, type=dict[str, str])
    return tuple(cells)
