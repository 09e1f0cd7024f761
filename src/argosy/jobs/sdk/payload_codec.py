"""Encoding of payloads, results and progress: msgpack; bytes are passed through unchanged."""

from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.jobs.model import PAYLOAD_BYTES_MAX

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(value: object) -> bytes:
    """Bytes are kept as they are. None becomes empty, and is decoded as None."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        packed = bytes(value)
    else:
        try:
            packed = _encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise Invalid(f"cannot encode the value as msgpack ({error}); send plain values, or bytes") from error
    if len(packed) > PAYLOAD_BYTES_MAX:
        raise Invalid(f"the encoded value has {len(packed)} bytes; at most {PAYLOAD_BYTES_MAX} are allowed")
    return packed


def unpack(data: bytes) -> Any:
    """The decoded value; bytes that are not msgpack are returned as bytes."""
    if not data:
        return None
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return data
