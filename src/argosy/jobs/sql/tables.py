"""The tables that statements can read, the types of their columns in SQLite and Arrow, and results as Arrow batches."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from argosy.base.errors import Invalid

Value: TypeAlias = str | int | float | bytes | None
Cell: TypeAlias = "Value | dict[str, str]"


class StatementTimeout(Invalid):
    """The statement took too long."""


class StatementTooLarge(Invalid):
    """The statement reads or returns too much."""


@dataclass(frozen=True)
class SqlLimits:
    """Bounds of a statement: silo's values for time, bytes and concurrency."""

    statement_s: float = 5.0
    statement_chars: int = 100_000
    parameters: int = 1_000
    scanned_rows: int = 1_000_000  # of the store
    result_rows: int = 100_000
    result_bytes: int = 64 << 20
    concurrent: int = 8  # statements on one shard


@dataclass(frozen=True)
class SqlResult:
    """Columns with the names of their Arrow types, and rows in their order."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]


MAP = "Map(Utf8, Utf8)"

# SQLite has few types: the Arrow type of a column is restored for the result (`engine._kind`).
_SQLITE_TYPES = {
    "Utf8": "TEXT",
    MAP: "TEXT",
    "Int64": "INTEGER",
    "UInt8": "INTEGER",
    "UInt32": "INTEGER",
}


@dataclass(frozen=True)
class SqlTable:
    name: str
    columns: Mapping[str, str]  # Arrow types by name

    @property
    def ddl(self) -> str:
        columns = ", ".join(f"{name} {_SQLITE_TYPES[kind]}" for name, kind in self.columns.items())
        return f"CREATE TABLE {self.name} ({columns})"

    @property
    def insert(self) -> str:
        return f"INSERT INTO {self.name} VALUES ({', '.join('?' for _ in self.columns)})"


# Names and types of all columns are silo's, so that its users' statements run unchanged.
JOBS = SqlTable("jobs", {
    "shard_id": "Utf8",
    "tenant": "Utf8",
    "id": "Utf8",
    "priority": "UInt8",
    "enqueue_time_ms": "Int64",
    "payload": "Utf8",                      # JSON
    "status_kind": "Utf8",
    "status_changed_at_ms": "Int64",
    "task_group": "Utf8",
    "current_attempt": "UInt32",
    "next_attempt_starts_after_ms": "Int64",
    "metadata": MAP,
    "limits": "Utf8",                       # JSON
})  # fmt: skip
QUEUES = SqlTable("queues", {
    "shard_id": "Utf8",
    "tenant": "Utf8",
    "queue_name": "Utf8",
    "entry_type": "Utf8",                   # holder or requester
    "task_id": "Utf8",
    "job_id": "Utf8",
    "priority": "UInt8",
    "timestamp_ms": "Int64",                # when it was granted, or from when it waits
})  # fmt: skip
TENANT_COUNTS = SqlTable(
    "tenant_counts",
    {
        "shard_id": "Utf8",
        "tenant": "Utf8",
        "status_kind": "Utf8",  # a job that waits counts as scheduled here
        "cnt": "Int64",
    },
)
QUEUE_COUNTS = SqlTable("queue_counts", {
    "shard_id": "Utf8",
    "tenant": "Utf8",
    "queue_name": "Utf8",
    "holders": "Int64",
    "requesters": "Int64",
    "max_concurrency": "UInt32",            # of a fixed limit known only while a job waits
    "limit_type": "Utf8",                   # concurrency or floating
})  # fmt: skip
TASKS = SqlTable("tasks", {
    "shard_id": "Utf8",
    "tenant": "Utf8",
    "task_group": "Utf8",
    "start_time_ms": "Int64",
    "priority": "UInt8",
    "job_id": "Utf8",
    "attempt": "UInt32",
    "variant_type": "Utf8",
    "task_id": "Utf8",
    "held_queues": "Utf8",                  # JSON
})  # fmt: skip

TABLES = {table.name: table for table in (JOBS, QUEUES, TENANT_COUNTS, QUEUE_COUNTS, TASKS)}


ROWS_IN_BATCH = 8_192


class PyArrowEncoder:
    """Encodes results with `pyarrow`; raises ImportError if it is not installed."""

    def __init__(self) -> None:
        self._arrow: Any = import_module("pyarrow")  # by name, because mypy may run where it is not installed
        pyarrow = self._arrow
        self._types = {
            "Utf8": pyarrow.utf8(),
            "Int64": pyarrow.int64(),
            "UInt8": pyarrow.uint8(),
            "UInt32": pyarrow.uint32(),
            "Float64": pyarrow.float64(),
            "Binary": pyarrow.binary(),
            "Null": pyarrow.null(),
            MAP: pyarrow.map_(pyarrow.utf8(), pyarrow.utf8()),
        }

    def messages(self, result: SqlResult) -> list[bytes]:
        """At least one message, so that an empty result has its columns."""
        schema = self._arrow.schema([(name, self._types[kind]) for name, kind in result.columns])
        starts = range(0, max(1, len(result.rows)), ROWS_IN_BATCH)
        return [self._message(schema, result, start) for start in starts]

    def _message(self, schema: Any, result: SqlResult, start: int) -> bytes:
        rows = result.rows[start : start + ROWS_IN_BATCH]
        arrays = [
            self._arrow.array([_entry(row[at], kind) for row in rows], type=self._types[kind])
            for at, (_, kind) in enumerate(result.columns)
        ]
        sink = self._arrow.BufferOutputStream()
        with self._arrow.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=schema))
        return bytes(sink.getvalue().to_pybytes())


def _entry(cell: Any, kind: str) -> Any:
    if isinstance(cell, dict):
        return list(cell.items())
    # SQLite's columns may mix types, Arrow's may not.
    is_mixed = kind == "Utf8" and cell is not None and not isinstance(cell, str)
    return str(cell) if is_mixed else cell
