"""Tables as data: a row is a frozen dataclass, and a table says what its key, its order and its expiry are.

Backends know nothing but this declaration. Every row has a `version` that the store counts up; it is what makes
compare-and-set possible on every table. Times are whole milliseconds since 1970, by the store's clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from argosy.base.errors import Invalid
from argosy.registry import column_checks

ROW_BYTES_MAX = 1 << 20  # of all values of one row: larger things belong in files or object stores


class TableRow(Protocol):
    """What every row is: a frozen dataclass with a version. Version 0 has never been stored."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def version(self) -> int: ...


R = TypeVar("R", bound=TableRow)


class TableLayout(StrEnum):
    """How a table lies in Redis. SQLite has one table with one column each, whatever the layout."""

    ROW = "row"  # a hash per row and an index: rows that are updated one by one
    PACKED = "packed"  # one hash for the whole table: few rows that are listed together
    FAMILY = "family"  # one hash per first part of the key: rows that are asked for by family
    VALUE = "value"  # one packed value per row that expires by itself and is never listed


class ColumnKind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    BYTES = "bytes"
    LIST = "list"  # of texts
    MAP = "map"  # of texts to anything JSON knows


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
    states: tuple[str, ...] = ()  # the only texts it takes, if it is a state


@dataclass(frozen=True)
class TableIndex:
    """Finds rows by the values of some columns, in the order of one integer column.

    With `is_unique` there is at most one row per combination, and the store refuses a second. A row whose `by` values
    contain None is not in the index.
    """

    name: str
    by: tuple[str, ...] = ()
    order: str | None = None
    is_unique: bool = False


@dataclass(frozen=True)
class Table(Generic[R]):
    """One table. `indexes` are looked up by name; the first one lists the whole table."""

    name: str
    row: type[R]
    key: tuple[str, ...]
    layout: TableLayout
    why: str
    indexes: tuple[TableIndex, ...] = ()
    expires: str | None = None  # a column: rows past it are gone
    columns: tuple[Column, ...] = field(init=False)
    _checks: tuple[tuple[column_checks.Check, bool], ...] = field(init=False, repr=False, compare=False)
    _values_of: Callable[[R], tuple[Any, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hints = get_type_hints(self.row)
        columns = tuple(_column(f.name, hints[f.name]) for f in fields(self.row) if f.name != "version")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "_checks", tuple((_check_of(self.name, c), c.is_nullable) for c in columns))
        assert len(columns) > 1, f"{self.name}: a table has a key and something to remember"
        object.__setattr__(self, "_values_of", attrgetter(*(column.name for column in columns)))
        names = {column.name for column in columns}
        used = {*self.key, *([self.expires] if self.expires else ())}
        used |= {name for index in self.indexes for name in (*index.by, *([index.order] if index.order else ()))}
        assert used <= names, f"{self.name}: {used - names} are no columns"
        assert self.layout is not TableLayout.FAMILY or len(self.key) == 2, (
            f"{self.name}: a family has a key of two parts"
        )
        assert self.expires is None or self.layout in (TableLayout.ROW, TableLayout.VALUE), (
            f"{self.name}: only keys expire"
        )

    def index(self, name: str) -> TableIndex:
        found = next((index for index in self.indexes if index.name == name), None)
        assert found is not None, f"{self.name} has no index {name!r}"
        return found

    def key_of(self, row: R) -> tuple[str, ...]:
        return tuple(getattr(row, name) for name in self.key)

    def values(self, row: R) -> dict[str, Any]:
        """The columns of a checked row, without its version."""
        self.check(row)
        return {column.name: getattr(row, column.name) for column in self.columns}

    def make(self, values: Mapping[str, Any], version: int) -> R:
        """A row from what a store has kept; columns the store does not know yet take their defaults."""
        made: R = self.row(**values, version=version)  # type: ignore[call-arg]
        return made

    def check(self, row: R) -> None:
        """Invalid unless every value fits its column; nothing is stored that could not be read back."""
        if not isinstance(row, self.row):
            raise Invalid(f"{self.name} takes rows of {self.row.__name__}, not {type(row).__name__}")
        size = 0
        for value, (check, is_nullable) in zip(self._values_of(row), self._checks, strict=True):
            if value is not None or not is_nullable:
                size += check(value)
        if size > ROW_BYTES_MAX:
            raise Invalid(f"a row of {self.name} may hold {ROW_BYTES_MAX} bytes, not {size}: keep that elsewhere")
        for name in self.key:
            column_checks.check_key_part(self.name, getattr(row, name))


def replace_row(row: R, **values: Any) -> R:
    """A copy of a row with other values, as `dataclasses.replace` makes it, in a fifth of the time."""
    assert values.keys() <= row.__dict__.keys(), f"no such fields: {values.keys() - row.__dict__.keys()}"
    made: R = object.__new__(type(row))
    made.__dict__.update(row.__dict__)
    made.__dict__.update(values)
    return made


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


def _check_of(table: str, column: Column) -> column_checks.Check:
    name = f"{table}.{column.name}"
    return column_checks.state(name, column.states) if column.states else _CHECKS[column.kind](name)


_CHECKS: dict[ColumnKind, Callable[[str], column_checks.Check]] = {
    ColumnKind.TEXT: column_checks.text,
    ColumnKind.INTEGER: column_checks.integer,
    ColumnKind.BOOLEAN: column_checks.boolean,
    ColumnKind.BYTES: column_checks.raw,
    ColumnKind.LIST: column_checks.texts,
    ColumnKind.MAP: column_checks.mapping,
}


def default_of(row: type, name: str) -> Any:
    """The default of a row's field, for rows written before the column existed."""
    for item in fields(row):
        if item.name == name:
            if item.default is not MISSING:
                return item.default
            assert item.default_factory is not MISSING, f"{row.__name__}.{name} is newer than some rows: give a default"
            return item.default_factory()
    raise AssertionError(f"{row.__name__} has no field {name}")
