"""Multihashes: a hash that says which function made it, `code ‖ digest length ‖ digest`."""

from collections.abc import Callable
from hashlib import blake2b, sha256, sha512

from argosy.base.errors import Invalid
from argosy.ipni.formats import varint

IDENTITY = 0x00
SHA2_256 = 0x12
SHA2_512 = 0x13
DBL_SHA2_256 = 0x56  # marks a second hash, of double-hashed lookups
BLAKE2B_256 = 0xB220
DIGEST_BYTES_MAX = 128  # beyond any hash function in use; identity hashes longer than this are data, not keys

_MAKERS: dict[int, Callable[[bytes], bytes]] = {
    IDENTITY: bytes,
    SHA2_256: lambda data: sha256(data).digest(),
    SHA2_512: lambda data: sha512(data).digest(),
    BLAKE2B_256: lambda data: blake2b(data, digest_size=32).digest(),
}


def wrap(code: int, digest: bytes) -> bytes:
    return varint.encode(code) + varint.encode_bytes(digest)


def of(data: bytes, code: int = SHA2_256) -> bytes:
    """The multihash of the data."""
    return wrap(code, _MAKERS[code](data))


def split(multihash: bytes) -> tuple[int, bytes]:
    """Code and digest; Invalid if it is not one whole multihash."""
    code, at = varint.decode(multihash)
    digest, end = varint.decode_bytes(multihash, at)
    if end != len(multihash):
        raise Invalid(f"{len(multihash) - end} bytes follow the multihash")
    if not digest or len(digest) > DIGEST_BYTES_MAX:
        raise Invalid(f"a digest has 1 to {DIGEST_BYTES_MAX} bytes, not {len(digest)}")
    return code, digest


def is_whole(data: bytes) -> bool:
    """Whether it is one whole multihash."""
    if len(data) == 34 and data.startswith(b"\x12\x20"):
        return True  # what nearly all are
    try:
        split(data)
    except Invalid:
        return False
    return True


def is_of(multihash: bytes, data: bytes) -> bool:
    """Whether the data has this hash, be it truncated; Invalid for a function that this program does not know."""
    code, digest = split(multihash)
    if code not in _MAKERS:
        raise Invalid(f"hash function {code:#x} cannot be checked: use sha2-256, sha2-512 or blake2b-256")
    made = _MAKERS[code](data)
    if code == IDENTITY:
        return made == digest
    return len(digest) >= DIGEST_BYTES_MIN and made[: len(digest)] == digest


DIGEST_BYTES_MIN = 16  # fewer could be forged; NoEntries is truncated to just this
