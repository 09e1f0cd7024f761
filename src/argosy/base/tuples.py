"""Tuple keys: tuples as bytes that sort as the tuples do, so an ordered store can be scanned by any leading items.

The layout is that of the FoundationDB tuple layer: one type code, then the value in an encoding
that needs no length up front. Between types the order is None < bytes < str < tuple < int < float < False < True;
within a type it is Python's own. The invariant is that every tuple has exactly one encoding: `unpack` rejects any
bytes that `pack` would not have written, so two different keys can never mean the same thing.

Floats: NaN equals nothing, not even itself, so it could be stored and never found; it is rejected. -0.0 equals 0.0, so
it is stored as 0.0. With those two settled the order is total.
"""

import math
import struct
from typing import TypeAlias

from argosy.base.errors import Invalid

Item: TypeAlias = "bool | int | float | bytes | str | tuple[Item, ...] | None"

INT_BYTES_MAX = 255  # the length of a long int is itself one byte
DEPTH_MAX = 32  # tuples within tuples; keys are shallow, and corrupt bytes must not exhaust the stack

_NULL, _BYTES, _STR, _NESTED = 0x00, 0x01, 0x02, 0x05
_INT_LONG_NEGATIVE, _INT_ZERO, _INT_LONG_POSITIVE = 0x0B, 0x14, 0x1D
_INT_SHORT_BYTES_MAX = 8  # up to here the length is part of the type code
_FLOAT, _FALSE, _TRUE = 0x21, 0x26, 0x27
_ESCAPE = 0xFF  # follows a zero byte that is content, not an end; greater than every type code

_DOUBLE = struct.Struct(">d")


def pack(items: tuple[Item, ...]) -> bytes:
    """The key for `items`; keys compare as the tuples do."""
    out = bytearray()
    for item in items:
        # Nearly all items are texts and numbers, and keys are built by the hundred thousand, so these skip the match.
        if type(item) is str:
            _encode_text(_STR, _utf8(item), out)
        elif type(item) is int:
            _encode_int(item, out)
        else:
            _encode(item, out, depth=0)
    return bytes(out)


def unpack(key: bytes) -> tuple[Item, ...]:
    """The items that `pack` made `key` from; anything else is Invalid."""
    items: list[Item] = []
    at = 0
    try:
        while at < len(key):
            item, at = _decode(key, at, depth=0)
            items.append(item)
    except IndexError:
        raise Invalid(f"tuple key ends too early: {key!r}") from None
    return tuple(items)


def prefix_range(items: tuple[Item, ...]) -> tuple[bytes, bytes]:
    """The half-open range of all keys whose tuples begin with `items` and are longer; the key of `items` is outside."""
    prefix = pack(items)
    # An end at 0xFF also excludes keys that share the bytes but not the items: "a\0" packs to "a", its end, then 0xFF.
    return prefix + b"\x00", prefix + b"\xff"


def _encode(item: Item, out: bytearray, *, depth: int) -> None:
    match item:
        case None:
            # Inside a tuple a lone zero byte is the end, so None is escaped there.
            out += b"\x00" if depth == 0 else b"\x00\xff"
        case bool():
            out.append(_TRUE if item else _FALSE)
        case int():
            _encode_int(item, out)
        case float():
            out.append(_FLOAT)
            out += _float_bytes(item)
        case bytes():
            _encode_text(_BYTES, item, out)
        case str():
            _encode_text(_STR, _utf8(item), out)
        case tuple():
            _encode_nested(item, out, depth + 1)
        case _:
            raise Invalid(f"a key may hold None, bool, int, float, bytes, str and tuples; got {type(item).__name__}")


def _encode_text(code: int, content: bytes, out: bytearray) -> None:
    out.append(code)
    out += content.replace(b"\x00", b"\x00\xff")
    out.append(0)


def _encode_nested(items: tuple[Item, ...], out: bytearray, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Invalid(f"a key may nest tuples {DEPTH_MAX} deep; this one goes deeper")
    out.append(_NESTED)
    for item in items:
        _encode(item, out, depth=depth)
    out.append(0)


def _encode_int(number: int, out: bytearray) -> None:
    size = (number.bit_length() + 7) // 8
    if size > INT_BYTES_MAX:
        raise Invalid(f"an int in a key may take {INT_BYTES_MAX} bytes; this one takes {size}")
    if size <= _INT_SHORT_BYTES_MAX:
        out.append(_INT_ZERO + size if number >= 0 else _INT_ZERO - size)
    elif number > 0:
        out += bytes((_INT_LONG_POSITIVE, size))
    else:
        out += bytes((_INT_LONG_NEGATIVE, size ^ 0xFF))
    # A negative number is written as its one's complement, so that a greater magnitude sorts first.
    out += (number if number >= 0 else number + (1 << 8 * size) - 1).to_bytes(size, "big")


def _float_bytes(number: float) -> bytes:
    if math.isnan(number):
        raise Invalid("NaN cannot be part of a key: it equals nothing, so it could never be found")
    # Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
    raw = _DOUBLE.pack(number + 0.0)
    # IEEE doubles sort as their bits once the sign is flipped, and negative ones are flipped whole.
    return bytes(b ^ 0xFF for b in raw) if raw[0] & 0x80 else bytes((raw[0] ^ 0x80,)) + raw[1:]


def _utf8(text: str) -> bytes:
    try:
        return text.encode()  # UTF-8 sorts by code point, as str does
    except UnicodeEncodeError:
        raise Invalid(f"text in a key must be valid Unicode; got {text!r}") from None


def _decode(key: bytes, at: int, *, depth: int) -> tuple[Item, int]:
    code = key[at]
    at += 1
    if code == _NULL:
        return None, at
    if code == _BYTES:
        return _decode_text(key, at)
    if code == _STR:
        content, at = _decode_text(key, at)
        return _text(content), at
    if code == _NESTED:
        return _decode_nested(key, at, depth + 1)
    if _INT_LONG_NEGATIVE <= code <= _INT_LONG_POSITIVE:
        return _decode_int(key, at, code)
    if code == _FLOAT:
        return _decode_float(_take(key, at, 8)), at + 8
    if code in (_FALSE, _TRUE):
        return code == _TRUE, at
    raise Invalid(f"tuple key has the unknown type code {code:#04x} at byte {at - 1}: {key!r}")


def _decode_text(key: bytes, at: int) -> tuple[bytes, int]:
    start = at
    while True:
        at = key.find(b"\x00", at)
        if at < 0:
            raise IndexError
        # A zero byte that belongs to the content is followed by 0xFF, which no type code equals.
        if key[at + 1 : at + 2] != b"\xff":
            return key[start:at].replace(b"\x00\xff", b"\x00"), at + 1
        at += 2


def _decode_nested(key: bytes, at: int, depth: int) -> tuple[tuple[Item, ...], int]:
    if depth > DEPTH_MAX:
        raise Invalid(f"tuple key nests deeper than {DEPTH_MAX}")
    items: list[Item] = []
    while key[at] != _NULL or key[at + 1 : at + 2] == b"\xff":
        if key[at] == _NULL:
            items.append(None)
            at += 2
        else:
            item, at = _decode(key, at, depth=depth)
            items.append(item)
    return tuple(items), at + 1


def _decode_int(key: bytes, at: int, code: int) -> tuple[int, int]:
    is_negative = code < _INT_ZERO
    size = abs(code - _INT_ZERO)
    if size > _INT_SHORT_BYTES_MAX:
        size = key[at] ^ (0xFF if is_negative else 0)
        at += 1
        # `pack` uses the short form for these, and every tuple has exactly one encoding.
        if size <= _INT_SHORT_BYTES_MAX:
            raise Invalid(f"tuple key holds an int of {size} bytes in the long form: {key!r}")
    written = int.from_bytes(_take(key, at, size), "big")
    number = written - (1 << 8 * size) + 1 if is_negative else written
    if (number.bit_length() + 7) // 8 != size:
        raise Invalid(f"tuple key holds an int with needless leading bytes: {key!r}")
    return number, at + size


def _decode_float(written: bytes) -> float:
    raw = bytes((written[0] ^ 0x80,)) + written[1:] if written[0] & 0x80 else bytes(b ^ 0xFF for b in written)
    number: float = _DOUBLE.unpack(raw)[0]
    if math.isnan(number) or (number == 0 and raw[0]):
        raise Invalid(f"tuple key holds {number}, which is never written")
    return number


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"tuple key holds text that is not UTF-8: {content!r}") from None


def _take(key: bytes, at: int, size: int) -> bytes:
    if at + size > len(key):
        raise IndexError
    return key[at : at + size]
