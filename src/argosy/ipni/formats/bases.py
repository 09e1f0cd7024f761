"""Bytes as text: the base58 and base32 of CIDs and peer ids."""

from base64 import b32decode, b32encode
from binascii import Error

from argosy.base.errors import Invalid

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {sign: value for value, sign in enumerate(_ALPHABET)}
BASE58_CHARS_MAX = 512      # decoding is quadratic; no id or hash in use is near this


def base58(data: bytes) -> str:
    zeros = len(data) - len(data.lstrip(b"\0"))
    number = int.from_bytes(data, "big")
    signs = []
    while number:
        number, rest = divmod(number, 58)
        signs.append(_ALPHABET[rest])
    return "1" * zeros + "".join(reversed(signs))


def from_base58(text: str) -> bytes:
    if len(text) > BASE58_CHARS_MAX:
        raise Invalid(f"base58 text of {len(text)} characters is longer than {BASE58_CHARS_MAX}")
    number = 0
    for sign in text:
        if sign not in _VALUES:
            raise Invalid(f"{sign!r} is not a base58 character")
        number = number * 58 + _VALUES[sign]
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def base32(data: bytes) -> str:
    return b32encode(data).decode().rstrip("=").lower()


def from_base32(text: str) -> bytes:
    """Lower or upper case, without padding."""
    try:
        return b32decode(text.upper() + "=" * (-len(text) % 8))
    except (Error, ValueError):
        raise Invalid(f"{text[:80]!r} is not base32 text") from None
