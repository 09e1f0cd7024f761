"""Unsigned LEB128 numbers, and protobuf messages, which are made of them."""

from collections.abc import Iterator, Sequence

from argosy.base.errors import Invalid

VARINT_BYTES_MAX = 9  # the limit of multiformats: 63 bits


def encode(number: int) -> bytes:
    assert 0 <= number < 1 << 63, number
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode(data: bytes, at: int = 0) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    number = shift = 0
    for end in range(at, min(len(data), at + VARINT_BYTES_MAX)):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and end > at:  # a second form of the same number would be a second CID of the same content
                raise Invalid(f"the number at byte {at} is not in its shortest form")
            return number, end + 1
        shift += 7
    raise Invalid(f"the number at byte {at} does not end within {VARINT_BYTES_MAX} bytes")


def encode_bytes(data: bytes) -> bytes:
    """The data with a length prefix."""
    return encode(len(data)) + data


def decode_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """The data after the length prefix at `at`, and where it ends."""
    size, start = decode(data, at)
    if start + size > len(data):
        raise Invalid(f"{size} bytes are declared at byte {at}, and {len(data) - start} remain")
    return data[start : start + size], start + size


FieldValue = int | bytes

_NUMBER = 0  # wire types; fixed-size numbers and groups do not occur in keys, envelopes and peer records
_BYTES = 2


def encode_message(fields: Sequence[tuple[int, FieldValue]]) -> bytes:
    """Encodes the fields in the given order: signatures cover these bytes."""
    return b"".join(_encode_field(number, value) for number, value in fields)


def _encode_field(number: int, value: FieldValue) -> bytes:
    if isinstance(value, int):
        return encode(number << 3 | _NUMBER) + encode(value)
    return encode(number << 3 | _BYTES) + encode_bytes(value)


def message_fields(data: bytes) -> Iterator[tuple[int, FieldValue]]:
    """The fields in the order of the message; raises Invalid for other wire types."""
    at = 0
    while at < len(data):
        tag, at = decode(data, at)
        value: FieldValue
        match tag & 7:
            case 0:
                value, at = decode(data, at)
            case 2:
                value, at = decode_bytes(data, at)
            case kind:
                raise Invalid(f"field {tag >> 3} has wire type {kind}: only 0 and 2 are used here")
        yield tag >> 3, value


def last_fields(data: bytes) -> dict[int, FieldValue]:
    """The fields by number; of a repeated field the last one counts, as protobuf defines."""
    return dict(message_fields(data))


def int_value(found: dict[int, FieldValue], field: int, what: str) -> int:
    value = found.get(field, 0)  # protobuf omits zeros
    if not isinstance(value, int):
        raise Invalid(f"{what} is a number, not bytes")
    return value


def bytes_value(found: dict[int, FieldValue], field: int, what: str) -> bytes:
    value = found.get(field, b"")
    if not isinstance(value, bytes):
        raise Invalid(f"{what} is bytes, not a number")
    return value
