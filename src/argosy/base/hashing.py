"""The one hash: XXH64, for placing names on rings and in buckets.

Every node, in any process and any release, must place the same name in the same spot, so Python's own `hash` (salted
per process) is never used for placement. XXH64 is fast and well spread; it is no defence against somebody who picks
names in order to collide.
"""

import xxhash


def hash64(data: str | bytes, seed: int = 0) -> int:
    """XXH64 of `data` as an unsigned 64-bit number; text is hashed as its UTF-8 bytes."""
    return xxhash.xxh64_intdigest(data.encode() if isinstance(data, str) else data, seed)
