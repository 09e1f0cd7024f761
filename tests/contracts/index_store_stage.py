"""Shared by the suites of the content index's store: stores to open, and test data."""

from collections.abc import Awaitable, Callable
from hashlib import blake2b, sha256, sha512

from argosy.ipni.formats import multihash
from argosy.ipni.formats.bases import base58
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import IndexStore

Open = Callable[[], Awaitable[IndexStore]]


def peer(name: str) -> str:
    """A peer id of the common kind."""
    return base58(multihash.wrap(multihash.IDENTITY, b"\x08\x01\x12\x20" + sha256(name.encode()).digest()))


def sha(name: str) -> bytes:
    return multihash.of(name.encode())


def many(name: str, count: int) -> list[bytes]:
    return [sha(f"{name}-{each}") for each in range(count)]


def digests_with_prefix(count: int, begin: bytes = b"\xaa" * 16) -> list[bytes]:
    """Digests with a common prefix."""
    return [multihash.wrap(multihash.SHA2_256, begin + each.to_bytes(32 - len(begin), "big")) for each in range(count)]


def unusual() -> list[bytes]:
    """Multihashes of rare functions, short and long ones, and pairs that differ only in function or last byte."""
    digest = sha256(b"unusual").digest()
    return [
        multihash.wrap(multihash.BLAKE2B_256, blake2b(b"unusual", digest_size=32).digest()),
        multihash.wrap(multihash.SHA2_512, sha512(b"unusual").digest()),
        multihash.wrap(multihash.BLAKE2B_256, digest),
        multihash.wrap(0x16, digest),
        multihash.wrap(multihash.SHA2_256, digest[:20]),
        multihash.wrap(multihash.IDENTITY, b"a"),
        multihash.wrap(multihash.IDENTITY, b"a\0"),
        multihash.wrap(multihash.IDENTITY, b"x" * 100 + b"1"),
        multihash.wrap(multihash.IDENTITY, b"x" * 100 + b"2"),
    ]


ALICE, BOB = peer("alice"), peer("bob")


def value(provider: str = ALICE, context: bytes = b"context", metadata: bytes = b"\x80\x12") -> IndexValue:
    return IndexValue(provider, context, metadata)
