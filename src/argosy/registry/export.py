"""Export and import of a registry: the format of `argosy registry export`, and moving whole registries between stores.

One JSON object per line. The first line has the versions; the last one the number of lines between, so that a truncated
file is detected before anything is stored.

    {"argosy-registry": 1, "schema_version": 1, "revision": 4711}
    {"table": "jobs", "row": {"job_id": "a", …, "version": 3}}
    {"log": "canary_runs:home", "payload": "kwEC…", "dropped": 0}
    {"counter": "task_uid", "value": 7, "expires_at": null}
    {"end": 3}

Bytes are base64, times are milliseconds since 1970, and a row keeps its version. The items are those of
`RegistryStore.dump`. A file is read twice, once to check all of it and once to store it, so that nothing is stored of a
file that is damaged anywhere.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import NoneType
from typing import IO, Any, Protocol, TypeAlias, get_args, get_type_hints, runtime_checkable

import msgspec

from argosy.base.errors import Invalid
from argosy.registry.migrations import SCHEMA_VERSION
from argosy.registry.ports import DumpItem, RegistryStore
from argosy.registry.table import ColumnKind, Table
from argosy.registry.tables import TABLES

FORMAT_VERSION = 1
LINE_BYTES_MAX = 8 << 20  # a row has at most 1 MiB of values; JSON may escape a byte by six
LOG, COUNTER = "log", "counter"

_TABLES = {table.name: table for table in TABLES}
_COLUMNS = {table.name: {column.name for column in table.columns} | {"version"} for table in TABLES}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class ExportHeader:
    """The first line: versions of the registry that was exported."""

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


def item_line(item: DumpItem) -> bytes:
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


def read_header(line: bytes) -> ExportHeader:
    """Raises `Invalid` unless this is the first line of an export that this argosy can read."""
    values = _object(line, 1)
    if "argosy-registry" not in values:
        raise Invalid('line 1: not an export of a registry: it would begin with {"argosy-registry": …}')
    if values["argosy-registry"] != FORMAT_VERSION:
        found = f"{values['argosy-registry']!r:.40}"
        raise Invalid(f"line 1: the export has format {found}, this argosy reads {FORMAT_VERSION}: use a newer one")
    try:
        header = ExportHeader(int(values["schema_version"]), int(values["revision"]))
    except (KeyError, TypeError, ValueError):
        raise Invalid("line 1: the header lacks schema_version or revision") from None
    if header.schema_version > SCHEMA_VERSION:
        raise Invalid(
            f"line 1: the export has schema version {header.schema_version}, this argosy knows {SCHEMA_VERSION}: "
            f"use the argosy that wrote it, or a newer one"
        )
    return header


def read_items(lines: Iterator[bytes]) -> Iterator[DumpItem]:
    """The items after the header. Raises `Invalid`, with the number of the line, at the first that cannot be stored.

    Items are yielded as they are read, so read to the end before storing the first one.
    """
    count = 0
    for number, line in enumerate(lines, start=2):
        values = _object(line, number)
        if "end" in values:
            # Lines may be missing in the middle, too, after an incomplete copy.
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


def check_item(item: DumpItem) -> list[str]:
    """Problems of an item that a store has dumped; empty if another store could load it."""
    kind, values = item
    try:
        if kind in _TABLES:
            _check_row(kind, _TABLES[kind].row(**values))
        else:
            _item(_object(item_line(item), 1))
    except (Invalid, TypeError, ValueError) as error:
        return [str(error)]
    return []


def _item(values: Mapping[str, Any]) -> DumpItem:
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
    """Converters of values that JSON cannot express: bytes, tuples and enumerations."""
    hints = get_type_hints(table.row)
    converters: dict[str, Callable[[Any], Any]] = {}
    for column in table.columns:
        options = [option for option in get_args(hints[column.name]) or (hints[column.name],) if option is not NoneType]
        if column.kind is ColumnKind.BYTES:
            # Without `validate` Python skips foreign characters, and a damaged value would be imported as another one.
            converters[column.name] = partial(b64decode, validate=True)
        elif column.kind is ColumnKind.LIST:
            converters[column.name] = _tuple
        elif isinstance(options[0], type) and issubclass(options[0], StrEnum):
            converters[column.name] = options[0]
    return converters


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_CONVERTERS = {table.name: _converters(table) for table in TABLES}


def _convert(table: str, column: str, value: Any) -> Any:
    convert = _CONVERTERS[table].get(column)
    return value if value is None or convert is None else convert(value)


def row_values(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row in its table's types, checked. A column newer than the export takes its default."""
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


# -- whole registries -------------------------------------------------------------------------------------------------


PROGRESS_EVERY = 500  # items between two progress reports

Counts: TypeAlias = Counter[str]  # items by table, and of logs and counters
OnProgress: TypeAlias = Callable[[int], None]  # called with the number of items done


class LoadableStore(RegistryStore, Protocol):
    """A store that can also load the dump of another."""

    async def load(self, items: AsyncIterable[DumpItem]) -> int:
        """Stores items as they are in an empty registry, and returns how many. Raises `Conflict` if it is not empty."""
        ...


@runtime_checkable
class CheckableStore(Protocol):
    """A store that can check its own files."""

    async def check(self) -> list[str]:
        """Problems of the store itself, apart from its data; empty if there are none."""
        ...


async def write_export(store: RegistryStore, out: IO[bytes], on_progress: OnProgress) -> Counts:
    """Writes everything in the store as lines."""
    counts: Counts = Counter()
    out.write(header_line(await store.revision()))
    async for item in store.dump():
        out.write(item_line(item))
        _count(counts, item, on_progress)
    out.write(end_line(counts.total()))
    return counts


class RegistryExport:
    """An export file. The constructor reads it to its end, and raises `Invalid` if anything in it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.header: ExportHeader
        # The first of the two readings: everything is checked here, before a store is touched.
        self.counts: Counts = Counter(kind for kind, _ in self._items())

    async def import_into(self, store: LoadableStore, on_progress: OnProgress) -> None:
        stored = await store.load(self._items_with_progress(on_progress))
        assert stored == self.counts.total(), f"{stored} of {self.counts.total()} items were stored"

    async def _items_with_progress(self, on_progress: OnProgress) -> AsyncIterator[DumpItem]:
        counts: Counts = Counter()
        for item in self._items():
            yield item
            _count(counts, item, on_progress)

    def _items(self) -> Iterator[DumpItem]:
        self._file.seek(0)
        # One byte more than allowed is read, so that a line that is too long is detected by its length.
        lines = iter(lambda: self._file.readline(LINE_BYTES_MAX + 1), b"")
        self.header = read_header(next(lines, b""))
        yield from read_items(lines)


async def check_store(store: RegistryStore, on_progress: OnProgress) -> tuple[Counts, list[str]]:
    """Reads everything, and returns counts and problems. A store without problems can be exported and imported."""
    counts: Counts = Counter()
    problems = await store.check() if isinstance(store, CheckableStore) else []
    try:
        async for item in store.dump():
            _count(counts, item, on_progress)
            problems += check_item(item)
    except (ValueError, LookupError, TypeError) as error:  # raised by the decoding of a damaged row
        problems.append(f"reading failed after {counts.total()} items: {type(error).__name__}: {error}")
    return counts, problems


def _count(counts: Counts, item: DumpItem, on_progress: OnProgress) -> None:
    counts[item[0]] += 1
    if counts.total() % PROGRESS_EVERY == 0:
        on_progress(counts.total())
