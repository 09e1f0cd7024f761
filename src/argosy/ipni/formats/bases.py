"""Bytes as text: base58 and base32 for CIDs and peer ids, base64 for dag-json.

Decoders accept one text per value, because a second spelling of the same CID or peer id would be another cache key and
another row.
"""

import re
from base64 import b32encode
from binascii import Error, a2b_base64, b2a_base64
from operator import mul

from argosy.base.errors import Invalid

_SIGNS = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Two digits at a time: half as many divisions of a long number.
_PAIRS = [f"{first:c}{second:c}" for first in _SIGNS for second in _SIGNS]
_NO_SIGN = 255
_VALUES = bytes(_SIGNS.index(byte) if byte in _SIGNS else _NO_SIGN for byte in range(256))
BASE58_CHARS_MAX = 512  # decoding is quadratic; no id or hash in use is near this
_POWERS = [58**place for place in range(BASE58_CHARS_MAX)]

_BASE32 = re.compile("[A-Za-z2-7]*", re.ASCII)
# int(text, 32) converts the whole text in C, but with the digits 0 to 9 and a to v.
_BASE32_DIGITS = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghijklmnopqrstuv")
_BASE32_RESTS = {0, 2, 4, 5, 7}  # characters beyond whole groups of 8 that whole bytes can leave


def base58(data: bytes) -> str:
    # A number has no leading zeros, so they are written separately, one digit each.
    zeros = len(data) - len(data.lstrip(b"\0"))
    number = int.from_bytes(data, "big")
    pairs = []
    while number:
        number, rest = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[rest])
    pairs.reverse()
    return "1" * zeros + "".join(pairs).lstrip("1")  # the first pair may begin with a zero digit


def from_base58(text: str) -> bytes:
    if len(text) > BASE58_CHARS_MAX:
        raise Invalid(f"base58 text of {len(text)} characters is longer than {BASE58_CHARS_MAX}")
    values = text.encode(errors="replace").translate(_VALUES)
    if _NO_SIGN in values:
        raise Invalid(f"{text[:80]!r} is not base58 text")
    number: int = sum(map(mul, reversed(values), _POWERS))
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def base32(data: bytes) -> str:
    return b32encode(data).decode().rstrip("=").lower()


def from_base32(text: str) -> bytes:
    """Lower or upper case, without padding; the bits after the last byte must be zero."""
    size, rest = divmod(len(text) * 5, 8)
    if len(text) % 8 not in _BASE32_RESTS or not _BASE32.fullmatch(text):
        raise Invalid(f"{text[:80]!r} is not base32 text")
    number = int(text.upper().translate(_BASE32_DIGITS), 32) if text else 0
    if number & ((1 << rest) - 1):
        raise Invalid(f"{text[:80]!r} is not canonical base32 text")
    return (number >> rest).to_bytes(size, "big")


def base64(data: bytes) -> str:
    """Without padding."""
    return padded_base64(data).rstrip("=")


def padded_base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def from_base64(text: str) -> bytes:
    """With or without padding; the bits after the last byte must be zero."""
    bare = text.rstrip("=")
    if len(text) - len(bare) not in (0, -len(bare) % 4):
        raise Invalid("the padding of base64 text is wrong")
    try:
        data = a2b_base64(bare.encode("ascii") + b"=" * (-len(bare) % 4), strict_mode=True)
    except (Error, ValueError):
        raise Invalid(f"{text[:80]!r} is not base64 text") from None
    # Bits after the last byte that are not zero would be a second spelling of the same bytes.
    if base64(data) != bare:
        raise Invalid(f"{text[:80]!r} is not canonical base64 text")
    return data


_URL_SIGNS = str.maketrans("+/", "-_")
_USUAL_SIGNS = str.maketrans("-_+/", "+/!!")  # "!" is in no alphabet: text in the other alphabet is rejected


def base64url(data: bytes) -> str:
    return base64(data).translate(_URL_SIGNS)


def from_base64url(text: str) -> bytes:
    return from_base64(text.translate(_USUAL_SIGNS))
