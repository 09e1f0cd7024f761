"""The little of protocol buffers that keys, envelopes and peer records need: numbers and bytes, by field number."""

from collections.abc import Iterator, Sequence

from argosy.base.errors import Invalid
from argosy.ipni.formats import varint

FieldValue = int | bytes

_NUMBER = 0
_BYTES = 2


def encode(fields: Sequence[tuple[int, FieldValue]]) -> bytes:
    """The fields in the order given, which is what a signature is made over."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: FieldValue) -> bytes:
    if isinstance(value, int):
        return varint.encode(number << 3 | _NUMBER) + varint.encode(value)
    return varint.encode(number << 3 | _BYTES) + varint.encode_bytes(value)


def fields(data: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Every field as it comes; Invalid for fixed-size numbers and groups, which none of our messages has."""
    at = 0
    while at < len(data):
        tag, at = varint.decode(data, at)
        value: FieldValue
        match tag & 7:
            case 0:
                value, at = varint.decode(data, at)
            case 2:
                value, at = varint.decode_bytes(data, at)
            case kind:
                raise Invalid(f"field {tag >> 3} has wire type {kind}: only 0 and 2 are used here")
        yield tag >> 3, value


def last_fields(data: bytes) -> dict[int, FieldValue]:
    """By number; of a field that comes twice the last counts, as the encoding defines it."""
    return dict(fields(data))


def number(found: dict[int, FieldValue], field: int, what: str) -> int:
    value = found.get(field, 0)  # a zero is not written
    if not isinstance(value, int):
        raise Invalid(f"{what} is a number, not bytes")
    return value


def content(found: dict[int, FieldValue], field: int, what: str) -> bytes:
    value = found.get(field, b"")
    if not isinstance(value, bytes):
        raise Invalid(f"{what} is bytes, not a number")
    return value
