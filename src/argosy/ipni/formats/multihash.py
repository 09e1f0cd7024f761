"""Multihashes: hashes that name their function, `code ‖ digest length ‖ digest`."""

from collections.abc import Callable
from hashlib import blake2b, sha256, sha512

from argosy.base.errors import Invalid
from argosy.ipni.formats import varint

IDENTITY = 0x00
SHA2_256 = 0x12
SHA2_512 = 0x13
DBL_SHA2_256 = 0x56  # marks a second hash, of double-hashed lookups
BLAKE2B_256 = 0xB220
DIGEST_BYTES_MAX = 128  # more than any hash function in use; longer identity hashes are data, not keys
DIGEST_BYTES_MIN = 16  # of a truncated hash: fewer could be forged; NO_ENTRIES is truncated to exactly this

_FUNCTIONS: dict[int, Callable[[bytes], bytes]] = {
    IDENTITY: bytes,
    SHA2_256: lambda data: sha256(data).digest(),
    SHA2_512: lambda data: sha512(data).digest(),
    BLAKE2B_256: lambda data: blake2b(data, digest_size=32).digest(),
}


def wrap(code: int, digest: bytes) -> bytes:
    return varint.encode(code) + varint.encode_bytes(digest)


def of(data: bytes, code: int = SHA2_256) -> bytes:
    """The multihash of the data."""
    return wrap(code, _FUNCTIONS[code](data))


def split(multihash: bytes) -> tuple[int, bytes]:
    """Code and digest; raises Invalid if it is not exactly one multihash."""
    code, at = varint.decode(multihash)
    digest, end = varint.decode_bytes(multihash, at)
    if end != len(multihash):
        raise Invalid(f"{len(multihash) - end} bytes follow the multihash")
    if not digest or len(digest) > DIGEST_BYTES_MAX:
        raise Invalid(f"a digest has 1 to {DIGEST_BYTES_MAX} bytes, not {len(digest)}")
    return code, digest


def is_whole(data: bytes) -> bool:
    """Whether it is exactly one multihash."""
    if len(data) == 34 and data.startswith(b"\x12\x20"):
        return True  # sha2-256, as nearly all are
    try:
        split(data)
    except Invalid:
        return False
    return True


def is_of(multihash: bytes, data: bytes) -> bool:
    """Whether the data has this hash, which may be truncated; raises Invalid for an unknown function."""
    code, digest = split(multihash)
    if code not in _FUNCTIONS:
        raise Invalid(f"hash function {code:#x} cannot be checked: use sha2-256, sha2-512 or blake2b-256")
    expected = _FUNCTIONS[code](data)
    if code == IDENTITY:
        return expected == digest
    return len(digest) >= DIGEST_BYTES_MIN and expected[: len(digest)] == digest
