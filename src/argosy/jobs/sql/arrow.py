"""Results as Arrow record batches, for those who have installed the extra `arrow`."""

from importlib import import_module
from typing import Any

from argosy.jobs.sql.tables import MAP, SqlResult

ROWS_IN_BATCH = 8_192


class PyArrowEncoder:
    """Needs `pyarrow`; making one without it is an ImportError."""

    def __init__(self) -> None:
        self._arrow: Any = import_module("pyarrow")  # by name, because the checker of types may not have it
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
        """At least one, so that the columns are told even of an empty result."""
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
    is_mixed = kind == "Utf8" and cell is not None and not isinstance(cell, str)
    return str(cell) if is_mixed else cell
