"""Payloads, results and progress as bytes: msgpack, unless they are bytes already, which nobody looks into."""

from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.jobs.model import PAYLOAD_BYTES_MAX

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(value: object) -> bytes:
    """Bytes stay as they are. None is nothing, and comes back as None."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        packed = bytes(value)
    else:
        try:
            packed = _encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise Invalid(f"this cannot be packed as msgpack ({error}): send plain values, or bytes") from error
    if len(packed) > PAYLOAD_BYTES_MAX:
        raise Invalid(f"packed, it has {len(packed)} bytes; {PAYLOAD_BYTES_MAX} are allowed: send a reference instead")
    return packed


def unpack(data: bytes) -> Any:
    """What was packed; bytes that are no msgpack come back as bytes."""
    if not data:
        return None
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return data
