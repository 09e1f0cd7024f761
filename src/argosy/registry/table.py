"""Table declarations: a row is a frozen dataclass, and a table declares its key, indexes and expiry.

Backends work from these declarations alone. Every row has a `version`, which the store increments with each write; this
gives compare-and-set on every table. Times are whole milliseconds since 1970, by the store's clock.

Only values that every store returns exactly as they were written are accepted (REG-1). A check is built once per column
and runs for every row written, so each is a closure that tests the common type first; it returns the size in bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from math import isfinite
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from argosy.base.errors import Invalid

# A row is read and written whole, and one script or batch holds many of them in memory.
ROW_BYTES_MAX = 1 << 20  # all values of one row; larger values belong in files or object stores
KEY_PART_BYTES_MAX = 1024  # one part of a key, in UTF-8
PAYLOAD_BYTES_MAX = 16 << 20  # one log entry
# Larger ones would come back changed from one store and not from the other (REG-1).
EXACT_MAX = 1 << 53  # larger integers are not exact in Lua, whose numbers are doubles
DEPTH_MAX = 32  # nesting of maps and lists
_NUMBER_BYTES = 8

Check = Callable[[object], int]


class TableRow(Protocol):
    """A row: a frozen dataclass with a version. Version 0 means that it has never been stored."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def version(self) -> int: ...


R = TypeVar("R", bound=TableRow)


class TableLayout(StrEnum):
    """How a table is stored in Redis. SQLite always uses one table with one column per field."""

    ROW = "row"  # a hash per row, and sorted sets as indexes: rows that are updated one by one
    PACKED = "packed"  # one hash for the whole table: few rows that are listed together
    FAMILY = "family"  # one hash per first part of the key: rows that are read by family
    VALUE = "value"  # one encoded value per row, which expires by itself and is never listed


class ColumnKind(StrEnum):
    """Type of a column."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    BYTES = "bytes"
    LIST = "list"  # of texts
    MAP = "map"  # of texts to JSON values


_KINDS: dict[Any, ColumnKind] = {
    str: ColumnKind.TEXT,
    int: ColumnKind.INTEGER,
    bool: ColumnKind.BOOLEAN,
    bytes: ColumnKind.BYTES,
}


@dataclass(frozen=True)
class Column:
    name: str
    kind: ColumnKind
    is_nullable: bool
    states: tuple[str, ...] = ()  # the allowed values, for an enumeration


@dataclass(frozen=True)
class TableIndex:
    """Finds rows by the values of some columns, in the order of one integer column.

    With `is_unique` the store rejects a second row with the same values. A row with None among its `by` values is not
    in the index.
    """

    name: str
    by: tuple[str, ...] = ()
    order: str | None = None
    is_unique: bool = False


@dataclass(frozen=True)
class Table(Generic[R]):
    """One table. Indexes are named; the first one lists the whole table."""

    name: str
    row: type[R]
    key: tuple[str, ...]
    layout: TableLayout
    why: str
    indexes: tuple[TableIndex, ...] = ()
    expires: str | None = None  # the column with the expiry time; expired rows are invisible
    columns: tuple[Column, ...] = field(init=False)
    _checks: tuple[tuple[Check, bool], ...] = field(init=False, repr=False, compare=False)
    _values_of: Callable[[R], tuple[Any, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hints = get_type_hints(self.row)
        columns = tuple(_column(f.name, hints[f.name]) for f in fields(self.row) if f.name != "version")
        # Frozen dataclasses set computed fields this way. All of this runs once per table, at import.
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "_checks", tuple((_check_of(self.name, c), c.is_nullable) for c in columns))
        assert len(columns) > 1, f"{self.name}: a table needs a key and at least one other column"
        object.__setattr__(self, "_values_of", attrgetter(*(column.name for column in columns)))
        names = {column.name for column in columns}
        used = {*self.key, *([self.expires] if self.expires else ())}
        used |= {name for index in self.indexes for name in (*index.by, *([index.order] if index.order else ()))}
        assert used <= names, f"{self.name}: {used - names} are no columns"
        assert self.layout is not TableLayout.FAMILY or len(self.key) == 2, (
            f"{self.name}: a family has a key of two parts"
        )
        # Fields of a hash expire only from Redis 7.4 on, so an expiring row needs a key of its own.
        assert self.expires is None or self.layout in (TableLayout.ROW, TableLayout.VALUE), (
            f"{self.name}: only keys expire"
        )

    def index(self, name: str) -> TableIndex:
        match = next((index for index in self.indexes if index.name == name), None)
        assert match is not None, f"{self.name} has no index {name!r}"
        return match

    def key_of(self, row: R) -> tuple[str, ...]:
        return tuple(getattr(row, name) for name in self.key)

    def values(self, row: R) -> dict[str, Any]:
        """Checks a row and returns its columns, without the version."""
        self.check(row)
        return {column.name: getattr(row, column.name) for column in self.columns}

    def row_from_values(self, values: Mapping[str, Any], version: int) -> R:
        """A row from stored values; columns that the store does not have yet take their defaults."""
        row: R = self.row(**values, version=version)  # type: ignore[call-arg]
        return row

    def check(self, row: R) -> None:
        """Raises `Invalid` unless every value fits its column, so that everything stored can be read back."""
        if not isinstance(row, self.row):
            raise Invalid(f"{self.name} takes rows of {self.row.__name__}, not {type(row).__name__}")
        size = 0
        for value, (check, is_nullable) in zip(self._values_of(row), self._checks, strict=True):
            # None in a column that is not nullable is passed to the check, whose error names the column.
            if value is not None or not is_nullable:
                size += check(value)
        if size > ROW_BYTES_MAX:
            raise Invalid(f"row of {self.name} too large: {size} bytes; the limit is {ROW_BYTES_MAX}")
        for name in self.key:
            check_key_part(self.name, getattr(row, name))


def replace_row(row: R, **values: Any) -> R:
    """A copy of a row with other values: like `dataclasses.replace`, in a fifth of the time. Does not run `__init__`,
    so the values are not checked; the store checks the row when it is written."""
    assert values.keys() <= row.__dict__.keys(), f"no such fields: {values.keys() - row.__dict__.keys()}"
    copy: R = object.__new__(type(row))
    copy.__dict__.update(row.__dict__)
    copy.__dict__.update(values)
    return copy


def _column(name: str, hint: Any) -> Column:
    is_nullable = False
    if get_origin(hint) in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not NoneType]
        assert len(options) == 1, f"{name}: one type, or one type and None"
        hint, is_nullable = options[0], True
    origin = get_origin(hint) or hint
    if origin is tuple:
        return Column(name, ColumnKind.LIST, is_nullable)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Column(name, ColumnKind.MAP, is_nullable)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Column(name, ColumnKind.TEXT, is_nullable, tuple(state.value for state in hint))
    return Column(name, _KINDS[hint], is_nullable)


def _check_of(table: str, column: Column) -> Check:
    name = f"{table}.{column.name}"
    return _state_check(name, column.states) if column.states else _CHECKS[column.kind](name)


def default_of(row: type, name: str) -> Any:
    """The default of a row's field, for rows written before the column existed."""
    for item in fields(row):
        if item.name == name:
            if item.default is not MISSING:
                return item.default
            assert item.default_factory is not MISSING, f"{row.__name__}.{name} is newer than some rows: give a default"
            return item.default_factory()
    raise AssertionError(f"{row.__name__} has no field {name}")


# -- checks of values -------------------------------------------------------------------------------------------------


def _text_check(name: str) -> Check:
    def check(value: object) -> int:
        if not isinstance(value, str):
            raise _type_error(name, "text", value)
        return len(value) if value.isascii() else len(_utf8(name, value))

    return check


def _state_check(name: str, states: tuple[str, ...]) -> Check:
    sizes = {text: len(text) for text in states}

    def check(value: object) -> int:
        if not isinstance(value, str) or value not in sizes:
            raise _type_error(name, f"one of {', '.join(states)}", value)
        return sizes[value]

    return check


def _integer_check(name: str) -> Check:
    def check(value: object) -> int:
        # The exact type: True is an int in Python, and would come back as 1.
        if type(value) is int and -EXACT_MAX <= value <= EXACT_MAX:
            return _NUMBER_BYTES
        raise _type_error(name, "integer", value) if type(value) is not int else _inexact_error(name, value)

    return check


def _boolean_check(name: str) -> Check:
    def check(value: object) -> int:
        if type(value) is not bool:
            raise _type_error(name, "boolean", value)
        return 1

    return check


def _raw_check(name: str) -> Check:
    def check(value: object) -> int:
        if type(value) is not bytes:
            raise _type_error(name, "bytes", value)
        return len(value)

    return check


def _texts_check(name: str) -> Check:
    item = _text_check(f"an item of {name}")

    def check(value: object) -> int:
        if not isinstance(value, tuple):
            raise _type_error(name, "list of texts, as a tuple", value)
        return sum(map(item, value))

    return check


def _mapping_check(name: str) -> Check:
    def check(value: object) -> int:
        if not isinstance(value, Mapping):
            raise _type_error(name, "map", value)
        return _json_size(name, value, 0) if value else 0

    return check


def check_key_part(table: str, part: object) -> None:
    """Raises `Invalid` unless a key part is a non-empty text of bounded length."""
    if not isinstance(part, str) or not 0 < len(_utf8(f"a key of {table}", part)) <= KEY_PART_BYTES_MAX:
        raise Invalid(f"a key of {table} must be text of 1 to {KEY_PART_BYTES_MAX} bytes, not {part!r:.80}")


def check_payload(payload: object) -> None:
    """Raises `Invalid` unless the payload is one log entry of bounded size."""
    if not isinstance(payload, bytes) or len(payload) > PAYLOAD_BYTES_MAX:
        raise Invalid(f"a log entry must be at most {PAYLOAD_BYTES_MAX} bytes, not {payload!r:.80}")


def _inexact_error(name: str, value: int) -> Invalid:
    return Invalid(f"{name} must lie within ±2^53 to be exact in every store, not {value}")


def _utf8(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} cannot be written as UTF-8: {value!r:.80}") from error


def _type_error(name: str, expected: str, value: object) -> Invalid:
    return Invalid(f"{name} must be {expected}, not {value!r:.80}")


def _json_size(name: str, value: object, depth: int) -> int:
    """Size of a value inside a map, in bytes. Only JSON values are allowed."""
    if depth > DEPTH_MAX:
        raise Invalid(f"{name} is nested more than {DEPTH_MAX} levels deep")
    match value:
        case str():
            return len(value) if value.isascii() else len(_utf8(name, value))
        case None | bool():
            return 1
        case int():
            if not -EXACT_MAX <= value <= EXACT_MAX:
                raise _inexact_error(name, value)
            return _NUMBER_BYTES
        case float():
            # msgspec writes NaN and infinity as null, so they would come back as None.
            if not isfinite(value):
                raise Invalid(f"{name} cannot hold {value}: JSON has no such number")
            return _NUMBER_BYTES
        case Mapping():
            size = 0
            for key, item in value.items():
                if not isinstance(key, str):
                    raise _type_error(f"a key in {name}", "text", key)
                size += _json_size(name, key, depth) + _json_size(name, item, depth + 1)
            return size
        case list() | tuple():
            return sum(_json_size(name, item, depth + 1) for item in value)
    raise _type_error(name, "JSON values", value)


_CHECKS: dict[ColumnKind, Callable[[str], Check]] = {
    ColumnKind.TEXT: _text_check,
    ColumnKind.INTEGER: _integer_check,
    ColumnKind.BOOLEAN: _boolean_check,
    ColumnKind.BYTES: _raw_check,
    ColumnKind.LIST: _texts_check,
    ColumnKind.MAP: _mapping_check,
}
