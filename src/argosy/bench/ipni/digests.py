"""Which multihashes there are. A chunk is named by (seed, number), and whoever knows the name can say what is in it."""

from collections.abc import Iterator

import numpy as np

SHA2_256 = b"\x12\x20"
DIGEST_BYTES = 32
_PUBLISHED, _ABSENT = 1, 2  # the last word of a seed: none is taken for another with zeros behind it


def chunk(seed: int, number: int, size: int) -> list[bytes]:
    """So many multihashes, as good as random."""
    return _drawn([seed, number, _PUBLISHED], size)


def absent(seed: int, size: int) -> list[bytes]:
    """Multihashes that nobody publishes."""
    return _drawn([seed, 0, _ABSENT], size)


def mixed(present: list[bytes], missing: list[bytes]) -> Iterator[bytes]:
    """One after the other in turn."""
    for hit, miss in zip(present, missing, strict=True):
        yield hit
        yield miss


def _drawn(seeds: list[int], size: int) -> list[bytes]:
    raw = np.random.Generator(np.random.PCG64(seeds)).bytes(size * DIGEST_BYTES)
    return [SHA2_256 + raw[at : at + DIGEST_BYTES] for at in range(0, len(raw), DIGEST_BYTES)]
