"""Parameters of a find: the content by one of its names, and the format of the response."""

import re
from enum import Enum
from functools import lru_cache

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, multihash
from argosy.ipni.formats.bases import from_base58

ACCEPT_CHARS_MAX = 1024
_USUAL_HEX, _USUAL_BYTES = "1220", 34  # hexadecimal sha2-256; base58 has no digit 0
_MEDIA_TYPE = re.compile(r"[^\s/;,]+/[^\s/;,]+")


class NotAcceptable(Invalid):
    """None of the formats that the caller accepts is supported."""

    status = 406


class ResponseFormat(Enum):
    JSON = "application/json"
    LINES = "application/x-ndjson"


@lru_cache(maxsize=64)
def form_of(accept: bytes) -> ResponseFormat:
    """The format for an Accept header: NDJSON wherever it is listed, JSON for anything or nothing."""
    text = accept.decode("latin-1")
    if len(text) > ACCEPT_CHARS_MAX:
        raise Invalid(f"an accept header of {len(text)} characters is longer than {ACCEPT_CHARS_MAX}")
    types = [part.partition(";")[0].strip().lower() for part in text.split(",")]
    types = [each for each in types if each]
    for each in types:
        if not _MEDIA_TYPE.fullmatch(each):
            raise Invalid(f"{each[:80]!r} in the accept header is not a media type")
    # Anywhere in the list and without weights, as storetheindex decides.
    if ResponseFormat.LINES.value in types:
        return ResponseFormat.LINES
    if not types or ResponseFormat.JSON.value in types or "*/*" in types:
        return ResponseFormat.JSON
    raise NotAcceptable("not acceptable; accept application/json or application/x-ndjson")


def multihash_of_cid(text: str) -> bytes:
    """Independent of the codec: the same bytes are the same content."""
    return cid.parse(text).multihash


def multihash_of_text(text: str) -> bytes:
    """Base58, else hexadecimal. Most are sha2-256, whose hexadecimal form is not valid base58."""
    # The common case first: trying base58 on it would only fail after decoding.
    if text.startswith(_USUAL_HEX) and len(text) == 2 * _USUAL_BYTES:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    try:
        return _whole(from_base58(text))
    except Invalid:
        pass
    try:
        return _whole(bytes.fromhex(text))
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not a multihash in base58 or hexadecimal") from None


def second_hash(found: bytes) -> bytes:
    """The multihash itself; raises Invalid unless it is a second hash of double-hashed lookups."""
    code, _ = multihash.split(found)
    if code != multihash.DBL_SHA2_256:
        raise Invalid(f"a lookup of this kind is by the second hash, of function 0x56, not {code:#x}")
    return found


def is_second_hash(found: bytes) -> bool:
    return found[:1] == b"\x56"


def _whole(data: bytes) -> bytes:
    multihash.split(data)
    return data
