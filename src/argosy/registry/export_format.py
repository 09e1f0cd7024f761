"""A registry as text, and back: what `argosy registry export` and `import` move between SQLite and Redis.

One JSON object per line. The first line says what this is; the last one how many lines lie between, so that a file that
was cut off is noticed before anything is stored.

    {"argosy-registry": 1, "schema_version": 1, "revision": 4711}
    {"table": "jobs", "row": {"job_id": "a", …, "version": 3}}
    {"log": "canary_runs:home", "payload": "kwEC…", "dropped": 0}
    {"counter": "task_uid", "value": 7, "expires_at": null}
    {"end": 3}

Bytes are base64, times are milliseconds since 1970, and a row keeps its version. The items themselves are those of
`RegistryStore.dump`: a table's name, or `log`, or `counter`, with its values.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import NoneType
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec

from argosy.base.errors import Invalid
from argosy.registry.migrations import SCHEMA_VERSION
from argosy.registry.table import ColumnKind, Table
from argosy.registry.tables import TABLES

FORMAT_VERSION = 1
LINE_BYTES_MAX = 8 << 20  # a row has at most 1 MiB of values; JSON may escape a byte by six
LOG, COUNTER = "log", "counter"

Item: TypeAlias = tuple[str, dict[str, Any]]

_TABLES = {table.name: table for table in TABLES}
_COLUMNS = {table.name: {column.name for column in table.columns} | {"version"} for table in TABLES}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Header:
    """What the first line says of the registry that was exported."""

    schema_version: int
    revision: int


class _LogEntry(msgspec.Struct, forbid_unknown_fields=True):
    name: str = msgspec.field(name="log")
    payload: bytes | None
    dropped: int


class _Counter(msgspec.Struct, forbid_unknown_fields=True):
    name: str = msgspec.field(name="counter")
    value: int
    expires_at: int | None


# -- writing ------------------------------------------------------------------------------------------------


def header_line(revision: int) -> bytes:
    return _line({"argosy-registry": FORMAT_VERSION, "schema_version": SCHEMA_VERSION, "revision": revision})


def item_line(item: Item) -> bytes:
    kind, values = item
    if kind == LOG:
        return _line(_LogEntry(values["name"], values["payload"], values["dropped"]))
    if kind == COUNTER:
        return _line(_Counter(values["name"], values["value"], values["expires_at"]))
    assert kind in _TABLES, f"{kind} is no table"
    return _line({"table": kind, "row": values})


def end_line(count: int) -> bytes:
    return _line({"end": count})


def _line(value: object) -> bytes:
    return _encode(value) + b"\n"


# -- reading ------------------------------------------------------------------------------------------------


def read_header(line: bytes) -> Header:
    """Invalid unless this is the first line of an export that this argosy understands."""
    values = _object(line, 1)
    if "argosy-registry" not in values:
        raise Invalid('line 1: this is no export of a registry: it would begin with {"argosy-registry": …}')
    if values["argosy-registry"] != FORMAT_VERSION:
        found = f"{values['argosy-registry']!r:.40}"
        raise Invalid(f"line 1: the export has format {found}, this argosy reads {FORMAT_VERSION}: use a newer one")
    try:
        header = Header(int(values["schema_version"]), int(values["revision"]))
    except (KeyError, TypeError, ValueError):
        raise Invalid("line 1: the header lacks schema_version or revision") from None
    if header.schema_version > SCHEMA_VERSION:
        raise Invalid(
            f"line 1: the export has schema version {header.schema_version}, this argosy knows {SCHEMA_VERSION}: "
            f"use the argosy that wrote it, or a newer one"
        )
    return header


def read_items(lines: Iterator[bytes]) -> Iterator[Item]:
    """The items after the header; Invalid, with the number of the line, at the first that cannot be stored.

    Items come as they are read, so walk to the end before storing the first one.
    """
    count = 0
    for number, line in enumerate(lines, start=2):
        values = _object(line, number)
        if "end" in values:
            if values["end"] != count:
                raise Invalid(f"line {number}: the export should have {values['end']} items and has {count}")
            if any(line.strip() for line in lines):
                raise Invalid(f"line {number + 1}: there is more after the end: are these two exports in one file?")
            return
        count += 1
        try:
            yield _item(values)
        except (Invalid, msgspec.ValidationError, TypeError, ValueError) as error:
            raise Invalid(f"line {number}: {error}") from error
    raise Invalid(f"the export is cut off after {count} items: its last line would say how many there are")


def _object(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        raise Invalid(f"line {number}: a line has at most {LINE_BYTES_MAX} bytes")
    try:
        values = _decode(line)
    except msgspec.DecodeError as error:
        raise Invalid(f"line {number}: is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise Invalid(f"line {number}: is not a JSON object")
    return values


def check_item(item: Item) -> list[str]:
    """What is wrong with something a store has given; nothing, if it could be moved elsewhere."""
    kind, values = item
    try:
        if kind in _TABLES:
            _check_row(kind, _TABLES[kind].row(**values))
        else:
            _item(_object(item_line(item), 1))
    except (Invalid, TypeError, ValueError) as error:
        return [str(error)]
    return []


def _item(values: Mapping[str, Any]) -> Item:
    if LOG in values:
        entry = msgspec.convert(values, _LogEntry)
        return LOG, {"name": entry.name, "payload": entry.payload, "dropped": entry.dropped}
    if COUNTER in values:
        counter = msgspec.convert(values, _Counter)
        return COUNTER, {"name": counter.name, "value": counter.value, "expires_at": counter.expires_at}
    if set(values) != {"table", "row"}:
        raise Invalid(f"is no row, log entry or counter, but has {', '.join(sorted(values))[:80] or 'nothing'}")
    return values["table"], row_values(values["table"], values["row"])


def _converters(table: Table[Any]) -> dict[str, Callable[[Any], Any]]:
    """What JSON has no word for: bytes, tuples and the words of an enumeration."""
    hints = get_type_hints(table.row)
    found: dict[str, Callable[[Any], Any]] = {}
    for column in table.columns:
        options = [option for option in get_args(hints[column.name]) or (hints[column.name],) if option is not NoneType]
        if column.kind is ColumnKind.BYTES:
            found[column.name] = partial(b64decode, validate=True)
        elif column.kind is ColumnKind.LIST:
            found[column.name] = _tuple
        elif isinstance(options[0], type) and issubclass(options[0], StrEnum):
            found[column.name] = options[0]
    return found


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_CONVERTERS = {table.name: _converters(table) for table in TABLES}


def _convert(table: str, column: str, value: Any) -> Any:
    convert = _CONVERTERS[table].get(column)
    return value if value is None or convert is None else convert(value)


def row_values(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row as its table has them, each checked; a column newer than the export takes its default."""
    table = _TABLES.get(name)
    if table is None:
        raise Invalid(f"there is no table {name!r:.80}: this export is of a newer argosy")
    if unknown := sorted(set(values) - _COLUMNS[name]):
        raise Invalid(f"{name} has no column {unknown[0]!r:.80}: this export is of a newer argosy")
    row = table.row(**{column: _convert(name, column, value) for column, value in values.items()})
    _check_row(name, row)
    return {column.name: getattr(row, column.name) for column in table.columns} | {"version": row.version}


def _check_row(name: str, row: Any) -> None:
    _TABLES[name].check(row)
    if type(row.version) is not int or row.version < 1:
        raise Invalid(f"a stored row of {name} has a version of 1 or more, not {row.version!r:.40}")
