"""The way between rows and the tuples of values that SQLite keeps, for one declared table.

Maps and lists are JSON, booleans 0 or 1, states their names. What could not be read back is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec

from argosy.base.errors import Invalid
from argosy.registry.table import Column, ColumnKind, Table

Values = tuple[Any, ...]

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode
_new = object.__new__
_set = object.__setattr__


class RowCodec:
    """The codec of one table."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.name = table.name
        self.columns = tuple(column.name for column in table.columns)
        self.key_of = tuple_getter(table.key)
        self._values_of = tuple_getter(self.columns)
        self._names = (*self.columns, "version")
        hints = get_type_hints(table.row)
        self._encoders = [(n, f) for n, c in enumerate(table.columns) if (f := _encoder(c, hints[c.name]))]
        self._decoders = [(c.name, f) for c in table.columns if (f := _decoder(c, hints[c.name]))]
        self._keys = [n for n, c in enumerate(table.columns) if c.name in table.key]
        self._is_plain = not hasattr(table.row, "__post_init__") and not hasattr(table.row, "__slots__")

    def decode(self, stored: Sequence[Any]) -> Any:
        values = dict(zip(self._names, stored, strict=True))
        for name, convert in self._decoders:
            if (value := values[name]) is not None:
                values[name] = convert(value)
        if not self._is_plain:
            return self.table.row_from_values(values, values.pop("version"))
        # A frozen dataclass sets its fields one by one, which takes longer than reading them from the store did.
        row = _new(self.table.row)
        _set(row, "__dict__", values)
        return row

    def load(self, values: Mapping[str, Any]) -> Any:
        """A row from an export."""
        unknown = set(values) - set(self._names)
        if unknown:
            raise Invalid(f"{self.name} has no column {', '.join(sorted(unknown))}: this export is of a newer argosy")
        columns = dict(values)
        version = columns.pop("version", None)
        if type(version) is not int or version < 1:
            raise Invalid(f"a row of {self.name} has a version from 1, not {version!r:.80}")
        return self.table.row_from_values(columns, version)

    def encode(self, row: Any) -> list[Any]:
        """The columns of a checked row as SQLite takes them."""
        self.table.check(row)
        values = list(self._values_of(row))
        for place, convert in self._encoders:
            if (value := values[place]) is not None:
                values[place] = convert(value)
        return values

    def own(self, row: Any) -> Any:
        if not isinstance(row, self.table.row):
            raise Invalid(f"{self.name} takes rows of {self.table.row.__name__}, not {type(row).__name__}")
        return row


def tuple_getter(names: tuple[str, ...]) -> Callable[[Any], Values]:
    if not names:
        return lambda row: ()
    if len(names) > 1:
        return attrgetter(*names)
    get = attrgetter(names[0])
    return lambda row: (get(row),)


def _encoder(column: Column, hint: Any) -> Callable[[Any], Any] | None:
    if column.kind is ColumnKind.MAP:
        return lambda value: _to_json(value if type(value) is dict else dict(value)).decode()
    if column.kind is ColumnKind.LIST:
        return lambda value: _to_json(value).decode()
    if column.kind is ColumnKind.BOOLEAN:
        return int
    enum = _enum(hint)
    return None if enum is None else {member: member.value for member in enum}.__getitem__


def _decoder(column: Column, hint: Any) -> Callable[[Any], Any] | None:
    if column.kind is ColumnKind.MAP:
        return _from_json
    if column.kind is ColumnKind.LIST:
        return lambda value: tuple(_from_json(value))
    if column.kind is ColumnKind.BOOLEAN:
        return bool
    enum = _enum(hint)
    if enum is None:
        return None
    members: Mapping[str, StrEnum] = {str(member): member for member in enum}
    return members.__getitem__


def _enum(hint: Any) -> type[StrEnum] | None:
    options = [option for option in get_args(hint) or (hint,) if option is not NoneType]
    return next((o for o in options if isinstance(o, type) and issubclass(o, StrEnum)), None)
