"""The bucket of a client on each level of a window.

Every instance must compute the same, in any process and release, so the result depends only on the client's bytes, the
window's seed and the configuration. There are three ways:

* Slices of 32 bits of one wide hash, one slice per level: the levels are independent, as the tuning formula assumes.
* With a secret, the same from a keyed hash (BLAKE2b): a client that does not know the secret cannot choose an id that
  collides with a victim's. Murmur and similar hashes have collisions that hold for every seed, so a secret seed would
  not be enough.
* Double hashing, `(a + i * b) mod 2^32 mod M`, bit for bit as in the Go original. Clients that share buckets on two
  levels share nearly all others, so it exists for comparison and compatibility only.
"""

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import TypeAlias

import xxhash

from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.base.hashing import hash64
from argosy.throttle.model import Config

Levels: TypeAlias = Callable[[bytes], tuple[int, ...]]

SEED_MAX = (1 << 64) - 1
_LOW32 = (1 << 32) - 1
_XXH3_LEVELS = 4  # slices in one 128-bit digest
_BLAKE2_LEVELS = 16  # slices in one 512-bit digest
# Separates these hashes from those of other programs that have the same secret.
_PERSON = b"argosy-throttle"
_SEED_AND_BLOCK = Struct("<QQ")


def levels_of(config: Config, window_seed: int) -> Levels:
    """The function from a client's bytes to its columns, one per level."""
    if not 0 <= window_seed <= SEED_MAX:
        raise Invalid(f"the seed of a window has 64 bits, not {window_seed}")
    if config.hashing == "double":
        return double(config.levels, config.buckets, _murmur_seed(config.secret, window_seed))
    # Independent slices matter: with double hashing two clients that share two levels share nearly all of them, in a
    # test 323 pairs of 8 million instead of the 8 of independent hashes.
    digest = _digests(config, window_seed)
    slices, buckets = Struct(f"<{config.levels}I"), config.buckets

    def independent(client: bytes) -> tuple[int, ...]:
        return tuple([part % buckets for part in slices.unpack_from(digest(client))])

    return independent


def _digests(config: Config, window_seed: int) -> Callable[[bytes], bytes]:
    """Enough bytes for all levels: several digests where one is too short."""
    if config.secret is not None:
        return _keyed_digest(config.secret, window_seed, config.levels)
    if config.levels <= _XXH3_LEVELS:
        return lambda client: xxhash.xxh3_128_digest(client, window_seed)
    seeds = [(window_seed + block) & SEED_MAX for block in range(-(-config.levels // _XXH3_LEVELS))]
    return lambda client: b"".join([xxhash.xxh3_128_digest(client, seed) for seed in seeds])


def _keyed_digest(secret: bytes, window_seed: int, levels: int) -> Callable[[bytes], bytes]:
    # BLAKE2b takes at most 64 bytes as key; a longer secret is hashed first, as in HMAC.
    key = secret if len(secret) <= blake2b.MAX_KEY_SIZE else blake2b(secret).digest()
    # Copying a keyed state costs half as much as keying a new one.
    states = [
        blake2b(key=key, salt=_SEED_AND_BLOCK.pack(window_seed, block), person=_PERSON)
        for block in range(-(-levels // _BLAKE2_LEVELS))
    ]

    def digest(client: bytes) -> bytes:
        parts = []
        for state in states:
            copy = state.copy()
            copy.update(client)
            parts.append(copy.digest())
        return b"".join(parts)

    return digest


def double(levels: int, buckets: int, murmur_seed: int) -> Levels:
    """Double hashing from the first half of a 128-bit murmur3."""
    digest = load_module("mmh3", extra="throttle", purpose="double hashing").mmh3_x64_128_uintdigest

    def bucket_columns(client: bytes) -> tuple[int, ...]:
        half = digest(client, murmur_seed)
        a, b = half & _LOW32, half >> 32 & _LOW32
        return tuple([((a + i * b) & _LOW32) % buckets for i in range(levels)])

    return bucket_columns


def _murmur_seed(secret: bytes | None, window_seed: int) -> int:
    """Murmur's seed has 32 bits. The window's has 64, of which the lower ones are round numbers, so it is hashed."""
    packed = window_seed.to_bytes(8, "little")
    if secret is not None:
        packed = _keyed_digest(secret, window_seed, 2)(packed)
    return hash64(packed) & _LOW32
