"""Which bucket of each level a client falls into, in one window.

Every instance must answer the same, in any process and release, so the answer depends on the client's bytes, the
window's seed and the configuration alone. Three ways:

* Slices of 32 bits of one wide hash, one slice per level: the levels are independent, as the tuning formula assumes.
* With a secret, the same from a keyed hash (BLAKE2b): who does not know the secret cannot choose an id that collides
  with a victim's. Murmur and its like have collisions that hold for every seed, so a secret seed would not do.
* Double hashing, `(a + i * b) mod 2^32 mod M`, bit for bit as in the Go original. Clients that meet on two levels meet
  on nearly all further ones, so it is there for comparison and compatibility only.
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
_PERSON = b"argosy-throttle"
_SEED_AND_BLOCK = Struct("<QQ")


def levels_of(config: Config, window_seed: int) -> Levels:
    """The function from a client's bytes to its buckets, one per level."""
    if not 0 <= window_seed <= SEED_MAX:
        raise Invalid(f"a window's seed is a whole number of 64 bits, not {window_seed}")
    if config.hashing == "double":
        return double(config.levels, config.buckets, _murmur_seed(config.secret, window_seed))
    digest = _digests(config, window_seed)
    slices, buckets = Struct(f"<{config.levels}I"), config.buckets

    def independent(client: bytes) -> tuple[int, ...]:
        return tuple([part % buckets for part in slices.unpack_from(digest(client))])

    return independent


def _digests(config: Config, window_seed: int) -> Callable[[bytes], bytes]:
    """Bytes enough for all levels; several digests where one is too short."""
    if config.secret is not None:
        return _keyed(config.secret, window_seed, config.levels)
    if config.levels <= _XXH3_LEVELS:
        return lambda client: xxhash.xxh3_128_digest(client, window_seed)
    seeds = [(window_seed + block) & SEED_MAX for block in range(-(-config.levels // _XXH3_LEVELS))]
    return lambda client: b"".join([xxhash.xxh3_128_digest(client, seed) for seed in seeds])


def _keyed(secret: bytes, window_seed: int, levels: int) -> Callable[[bytes], bytes]:
    key = secret if len(secret) <= blake2b.MAX_KEY_SIZE else blake2b(secret).digest()
    # A copy of a keyed state is half as dear as keying a new one.
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

    def doubled(client: bytes) -> tuple[int, ...]:
        half = digest(client, murmur_seed)
        a, b = half & _LOW32, half >> 32 & _LOW32
        return tuple([((a + i * b) & _LOW32) % buckets for i in range(levels)])

    return doubled


def _murmur_seed(secret: bytes | None, window_seed: int) -> int:
    """Murmur's seed has 32 bits and the window's 64, whose lower ones are round numbers: so they are mixed."""
    packed = window_seed.to_bytes(8, "little")
    if secret is not None:
        packed = _keyed(secret, window_seed, 2)(packed)
    return hash64(packed) & _LOW32
