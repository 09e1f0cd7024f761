"""Content identifiers: a multihash, and the codec of the hashed bytes."""

import builtins
from dataclasses import dataclass
from functools import cached_property, lru_cache

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash, varint
from argosy.ipni.formats.bases import base32, base58, from_base32, from_base58

RAW = 0x55
DAG_PB = 0x70
DAG_CBOR = 0x71
LIBP2P_KEY = 0x72
DAG_JSON = 0x0129
# More than the largest multihash takes in hexadecimal.
TEXT_CHARS_MAX = 512
CACHED_TEXTS = 4096  # the links of the chains being read, and what clients look up repeatedly


@dataclass(frozen=True)
class Cid:
    """`str(cid)` is the text form, `cid.bytes` the binary form. Version 0 is a bare sha2-256 of dag-pb."""

    codec: int
    multihash: builtins.bytes  # the property `bytes` hides the name: Python 3.14 evaluates annotations in the class
    version: int = 1

    @cached_property
    def bytes(self) -> bytes:
        if self.version == 0:
            return self.multihash
        return b"\x01" + varint.encode(self.codec) + self.multihash

    @cached_property
    def _text(self) -> str:
        return base58(self.multihash) if self.version == 0 else "b" + base32(self.bytes)

    def __str__(self) -> str:
        return self._text


def of(data: bytes, codec: int = RAW, code: int = multihash.SHA2_256) -> Cid:
    """The CID of the data."""
    return Cid(codec, multihash.of(data, code))


def decode(data: bytes) -> Cid:
    """Decodes the binary form; nothing may follow it."""
    cid, end = decode_at(data, 0)
    if end != len(data):
        raise Invalid(f"{len(data) - end} bytes follow the CID")
    return cid


def decode_at(data: bytes, at: int) -> tuple[Cid, int]:
    """The CID that begins at `at`, and where it ends."""
    # Version 0 has no version byte. 0x12 would be version 18 otherwise, which does not exist.
    if data[at : at + 2] == b"\x12\x20" and at + 34 <= len(data):
        return Cid(DAG_PB, data[at : at + 34], 0), at + 34
    version, at = varint.decode(data, at)
    if version != 1:
        raise Invalid(f"CID version {version} is not known: 0 and 1 are")
    codec, start = varint.decode(data, at)
    _, at = varint.decode(data, start)
    _, end = varint.decode_bytes(data, at)
    # Raises for a digest that is empty or too long.
    multihash.split(data[start:end])
    return Cid(codec, data[start:end]), end


@lru_cache(CACHED_TEXTS)
def parse(text: str) -> Cid:
    """Parses base58 for version 0; base32, base58 or hexadecimal with their multibase letter for version 1."""
    if len(text) > TEXT_CHARS_MAX:
        raise Invalid(f"a CID of {len(text)} characters is longer than {TEXT_CHARS_MAX}")
    if len(text) == 46 and text.startswith("Qm"):
        return decode(from_base58(text))
    match text[:1]:
        case "b" | "B":
            cid = decode(from_base32(text[1:]))
        case "z":
            cid = decode(from_base58(text[1:]))
        case "f" | "F":
            cid = decode(_from_hex(text[1:]))
        case _:
            raise Invalid(f"{text[:80]!r} is not a CID: it begins with Qm, b, z or f")
    # It would be a second text for the same CID.
    if cid.version == 0:
        raise Invalid(f"{text[:80]!r}: a version 0 CID has no multibase letter")
    return cid


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not hexadecimal text") from None


# The link of an advertisement without entries: sha2-256 of nothing, truncated to 16 bytes, as the specification
# defines.
NO_ENTRIES = parse("bafkreehdwdcefgh4dqkjv67uzcmw7oje")
