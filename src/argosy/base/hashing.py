"""XXH64, the hash that places names on rings and in buckets.

Every process of every release must place a name at the same position, so Python's `hash`, which is salted per process,
is never used for placement. XXH64 is fast and uniform; it does not resist names chosen to collide.
"""

import xxhash


def hash64(data: str | bytes, seed: int = 0) -> int:
    """XXH64 of `data` as an unsigned 64-bit number; text is hashed as its UTF-8 bytes."""
    return xxhash.xxh64_intdigest(data.encode() if isinstance(data, str) else data, seed)
