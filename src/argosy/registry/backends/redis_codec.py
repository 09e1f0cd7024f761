"""Rows in Redis: the fields of a row's hash, the content of a packed value, and decoding of both.

A row that is updated alone is a hash with one field per column that is not None; maps have one field per entry. All
fields stay within what Redis stores as a listpack, which takes a third of the memory of a hash table; columns that do
not fit go together into one companion value. Field names are as short as possible (`created_at` is `c`). Rows of the
other layouts are the version and a msgpack array of the columns in their declared order. New columns are declared last,
so that neither names nor positions of earlier ones change: stored rows depend on both.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec

from argosy.base.backends.redis.connection import Arg
from argosy.registry.backends.redis_keys import (
    key_of,
    member_of,
    stored_indexes,
    uuid_bytes,
    uuid_text,
    value_key_of,
    value_member_of,
)
from argosy.registry.table import Column, ColumnKind, Table, TableIndex, TableLayout, default_of

FIELD_BYTES_MAX = 64  # default of hash-max-listpack-value: one longer value costs the row 300 to 400 bytes
# A row may have several such maps (a task has two), so the bound of one is far below the limit of the hash.
MAP_FIELDS_MAX = 64  # entries of a map stored as fields; keeps the hash below hash-max-listpack-entries
LONG_MARK = b"+"  # follows the version of a row that has a companion
VERSION_FIELD = "v"
# The version precedes the array as plain digits, because the scripts read it on every commit and a pattern is enough.
DIGITS = b"0123456789"  # of the version; a msgpack array never begins with one of them
# Texts are the usual content of maps and are stored without quotes. The mark keeps the encoding unambiguous.
JSON_MARK = b"\0"  # before an entry of a map of texts that is not a text, or begins with this byte itself

# Exact types only: a bool is an int as well, and would be written as True.
_PLAIN_TYPES = frozenset((str, int))
# One encoder and decoder of each kind for the process: constructing them per row costs more than the encoding.
_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


def field_names(table: Table[Any]) -> dict[str, str]:
    """Field names by column: as many letters as needed to differ from those of the columns declared before."""
    used = {VERSION_FIELD}
    names: dict[str, str] = {}
    for column in table.columns:
        if column.name not in table.key:
            prefixes = (column.name[:size] for size in range(1, len(column.name) + 1))
            names[column.name] = next(prefix for prefix in prefixes if prefix not in used)
            used.add(names[column.name])
    return names


class TableCodec:
    """The codec of one table."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.fields = field_names(table)
        self.is_value = table.layout is TableLayout.VALUE
        # The key is in the name of the Redis key or member, and a value's expiry in the TTL of its key; neither is
        # stored twice.
        excluded = {*table.key, table.expires} if self.is_value else set(table.key)
        self.columns = tuple(column for column in table.columns if column.name not in excluded)
        # Columns declare text for enumerations. Only the annotation of the row says which of them, and what a map
        # contains.
        hints = get_type_hints(table.row)
        self._enums = {c.name: enum for c in table.columns if (enum := _enum(hints[c.name]))}
        self._by_field = {self.fields[c.name].encode(): (c.name, _decoder(c, self._enums)) for c in self.columns}
        self._maps = {self.fields[c.name].encode(): c.name for c in self.columns if c.kind is ColumnKind.MAP}
        self._of_texts = {
            c.name for c in self.columns if c.kind is ColumnKind.MAP and str in get_args(hints[c.name])[1:]
        }
        # A row in the store may lack a column: a column that is None has no field, and a row may be older than the
        # column.
        self._absent = {c.name: self._when_absent(c) for c in self.columns}
        self._converters = [(n, f) for n, c in enumerate(self.columns) if (f := _unpacker(c, self._enums))]
        # Tables in one hash are read as a whole, so only the unique indexes exist in the store: they guard a rule
        # between rows.
        is_hash = table.layout in (TableLayout.PACKED, TableLayout.FAMILY)
        declared = table.indexes if is_hash else stored_indexes(table)
        self.indexes: tuple[TableIndex, ...] = tuple(i for i in declared if i.is_unique or not is_hash)
        used = {name for i in self.indexes for name in (*i.by, *([i.order] if i.order else ()))}
        self.indexed = tuple(column for column in table.columns if column.name in used)
        self.indexed_names = tuple(column.name for column in self.indexed)
        self._writers = [(c.name, self.fields[c.name], c.kind, c.name in used) for c in self.columns]
        has_bytes = any(column.kind is ColumnKind.BYTES for column in self.columns)
        assert not (is_hash and self.indexed and has_bytes), f"{table.name}: scripts cannot unpack bytes"
        # UUIDs as 16 bytes save memory where there may be a million rows (idempotency keys, page events).
        self._is_compact = self.is_value  # the others are few, or scripts decode them

    def _when_absent(self, column: Column) -> Callable[[], Any]:
        """What a missing field means: None, an empty map, or a row older than the column."""
        if column.is_nullable:
            return lambda: None
        if column.kind is ColumnKind.MAP:
            return dict
        return lambda: default_of(self.table.row, column.name)

    # -- rows as hashes ---------------------------------------------------------------------------------------

    def row_fields(self, row: Any) -> tuple[list[Arg], bytes]:
        """The fields and values of a checked row, without its version, and its companion (empty: none)."""
        fields: list[Arg] = []
        long: dict[str, Any] = {}
        for name, field, kind, is_indexed in self._writers:
            value = getattr(row, name)
            if value is None:
                continue
            if kind is ColumnKind.MAP:
                entries = self._entries(field, value, is_of_texts=name in self._of_texts) if value else ()
                if entries is None:
                    long[name] = _json_text(value)
                else:
                    fields += entries
                continue
            # hiredis encodes plain ASCII texts and integers itself, faster than here.
            raw: Arg = value if type(value) in _PLAIN_TYPES and str(value).isascii() else _raw(kind, value)
            # An indexed column always stays a field, however long: the scripts look for it there and cannot read the
            # companion.
            if is_indexed or type(raw) is int or len(raw) <= FIELD_BYTES_MAX:  # type: ignore[arg-type]
                fields += (field, raw)
            else:
                long[name] = value
        return fields, _pack(long) if long else b""

    def _entries(self, field: str, value: Mapping[str, Any], *, is_of_texts: bool) -> list[Arg] | None:
        """One field per entry of a map, or None if they are too many or too long."""
        if len(value) > MAP_FIELDS_MAX:
            return None
        entries: list[Arg] = []
        for key, item in value.items():
            name = f"{field}.{key}".encode()
            text = item.encode() if is_of_texts and isinstance(item, str) else _to_json(item)
            if is_of_texts and (not isinstance(item, str) or item.startswith("\0")):
                text = JSON_MARK + _to_json(item)
            # All entries or none: a map that is partly in the companion would have to be merged, and an entry deleted
            # in two places.
            if len(name) > FIELD_BYTES_MAX or len(text) > FIELD_BYTES_MAX:
                return None
            entries += (name, text)
        return entries

    def from_fields(self, member: bytes, flat: Sequence[bytes], long: bytes | None) -> Any:
        values: dict[str, Any] = {}
        version = 0
        for at in range(0, len(flat), 2):
            # A field that no column has is ignored: it was written by a newer argosy that has declared more columns.
            field, raw = flat[at], flat[at + 1]
            if (column_of := self._by_field.get(field)) is not None:
                values[column_of[0]] = column_of[1](raw)
            elif field == b"v":
                version = int(raw.rstrip(LONG_MARK))
            else:
                column, _, key = field.partition(b".")
                if (name := self._maps.get(column)) is not None:
                    values.setdefault(name, {})[key.decode()] = self._entry(name, raw)
        if long:
            values |= self._from_long(long)
        return self._build_row(member, values, version)

    def _entry(self, name: str, raw: bytes) -> Any:
        if name not in self._of_texts:
            return _from_json(raw)
        return _from_json(raw[1:]) if raw.startswith(JSON_MARK) else raw.decode()

    def _from_long(self, long: bytes) -> dict[str, Any]:
        values: dict[str, Any] = _unpack(long)
        for place, convert in self._converters:
            name = self.columns[place].name
            if name in values:
                values[name] = convert(values[name])
        return values

    # -- rows as packed values --------------------------------------------------------------------------------

    def encode_packed(self, row: Any) -> bytes:
        """A checked row, without its version and its key."""
        items = [_to_packable(column, getattr(row, column.name)) for column in self.columns]
        if self._is_compact:
            items = [uuid_bytes(item) or item if isinstance(item, str) else item for item in items]
        return _pack(items)

    def from_packed(self, member: bytes, raw: bytes, expires: int | None = None) -> Any:
        """`expires` is the expiry of a value's key; the value itself does not contain it."""
        # A msgpack array begins with a byte above 0x7f, so all leading digits belong to the version.
        packed = raw.lstrip(DIGITS)
        version = raw[: len(raw) - len(packed)]
        items: list[Any] = _unpack(packed)
        if self._is_compact:
            # Only texts: the bytes of a BYTES column that are 16 long are no UUID.
            for place, column in enumerate(self.columns[: len(items)]):
                if column.kind is ColumnKind.TEXT and isinstance(items[place], bytes):
                    items[place] = uuid_text(items[place])
        for place, convert in self._converters:
            if place < len(items) and items[place] is not None:
                items[place] = convert(items[place])
        # Not strict: a row written before a column was declared has a shorter array (`_absent` fills in the rest), and
        # one of a newer argosy a longer one.
        values = {column.name: item for column, item in zip(self.columns, items, strict=False)}
        if self.is_value and self.table.expires is not None:
            values[self.table.expires] = expires
        return self._build_row(member, values, int(version))

    def _build_row(self, member: bytes, values: dict[str, Any], version: int) -> Any:
        for name, missing in self._absent.items():
            if name not in values:
                values[name] = missing()
        values.update(zip(self.table.key, self.key_of(member), strict=True))
        return self.table.row_from_values(values, version)

    # -- what scripts read ---------------------------------------------------------------------------------

    def member_of(self, key: tuple[str, ...]) -> bytes:
        return value_member_of(key) if self.is_value else member_of(key)

    def key_of(self, member: bytes) -> tuple[str, ...]:
        return value_key_of(member) if self.is_value else key_of(member)

    def index_values(self, row: Any) -> list[Arg]:
        """The columns that indexes use: empty for None, else `=` and the text."""
        values: list[Arg] = []
        for column in self.indexed:
            value = getattr(row, column.name)
            # The mark distinguishes None from an empty text; a Lua script receives every argument as a string.
            is_plain = type(value) in _PLAIN_TYPES
            values.append("" if value is None else f"={value}" if is_plain else b"=" + _raw(column.kind, value))
        return values

    def index_places(self) -> list[str]:
        """Where a script finds those columns in a stored row: fields, or positions in the packed array."""
        if self.table.layout in (TableLayout.PACKED, TableLayout.FAMILY):
            # Lua arrays begin at 1.
            return [str(self.columns.index(column) + 1) for column in self.indexed]
        # A column of the key is in no field. `#n` says that it is part n of the member.
        return [self.fields.get(name) or f"#{self.table.key.index(name) + 1}" for name in self.indexed_names]

    def equal_texts(self, index: TableIndex, equals: Sequence[Any]) -> list[bytes] | None:
        """The values of a lookup in the form that scripts compare; None if no row can have them."""
        assert len(equals) == len(index.by), f"{self.table.name}.{index.name} is read by {index.by}, not {equals}"
        kinds = {column.name: column.kind for column in self.table.columns}
        texts = []
        for name, value in zip(index.by, equals, strict=True):
            # As in SQL, None equals nothing: a row with None in one of these columns is not in the index.
            if value is None:
                return None
            texts.append(_raw(kinds[name], value))
        return texts


def _raw(kind: ColumnKind, value: Any) -> bytes:
    if kind is ColumnKind.TEXT:
        text: str = value
        return text.encode()
    if kind is ColumnKind.INTEGER:
        return b"%d" % value
    if kind is ColumnKind.BOOLEAN:
        return b"1" if value else b"0"
    if kind is ColumnKind.BYTES:
        raw: bytes = value
        return raw
    return _to_json(value if kind is ColumnKind.LIST else dict(value))


def _decoder(column: Column, enums: Mapping[str, type[StrEnum]]) -> Callable[[bytes], Any]:
    if column.kind is ColumnKind.INTEGER:
        return int
    if column.kind is ColumnKind.BOOLEAN:
        return b"1".__eq__
    if column.kind is ColumnKind.BYTES:
        return bytes
    if column.kind is ColumnKind.LIST:
        return lambda raw: tuple(_from_json(raw))
    if column.name in enums:
        members: dict[bytes, Any] = {str(member).encode(): member for member in enums[column.name]}
        return members.__getitem__
    return bytes.decode


def _to_packable(column: Column, value: Any) -> Any:
    return _json_text(value) if column.kind is ColumnKind.MAP and value is not None else value


def _json_text(value: Mapping[str, Any]) -> str:
    """Maps are JSON in every layout and every store, so that what JSON cannot express is rejected or changed the same
    way everywhere (REG-1)."""
    return _to_json(value if type(value) is dict else dict(value)).decode()


def _unpacker(column: Column, enums: Mapping[str, type[StrEnum]]) -> Callable[[Any], Any] | None:
    if column.kind is ColumnKind.LIST:
        return tuple
    if column.kind is ColumnKind.MAP:
        return _from_json
    return enums.get(column.name)


def _enum(hint: Any) -> type[StrEnum] | None:
    options = [option for option in get_args(hint) or (hint,) if option is not NoneType]
    return next((o for o in options if isinstance(o, type) and issubclass(o, StrEnum)), None)
