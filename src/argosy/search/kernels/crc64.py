"""CRC-64/ISO, the checksum of file content in zoekt's API, computed eight bytes at a time."""

import numba
import numpy as np

from argosy.search.arrays import U8, U64, freeze
from argosy.search.kernels.compiler import BYTES, kernel

_POLYNOMIAL = 0xD800000000000000  # x^64 + x^4 + x^3 + x + 1, lowest power first
_TABLES = numba.types.Array(numba.uint64, 2, "C", readonly=True)


def _tables() -> U64:
    """Table k holds the effect of a byte on the remainder when k more bytes follow it."""
    tables = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = rest >> 1 ^ (_POLYNOMIAL if rest & 1 else 0)
        tables[0, byte] = rest
    for k in range(1, 8):
        tables[k] = tables[0][tables[k - 1] & np.uint64(255)] ^ tables[k - 1] >> np.uint64(8)
    return freeze(tables)


TABLES = _tables()


@kernel((BYTES, numba.int64, numba.int64, _TABLES))
def crc64(data: U8, start: int, end: int, tables: U64) -> int:
    """The checksum of data[start:end]."""
    rest = ~np.uint64(0)
    at = start
    # Eight tables, one lookup for each byte of a word: the lookups do not depend on each other, unlike those of the
    # bytewise loop below.
    while at + 8 <= end:
        word = np.uint64(0)
        for k in range(8):
            word |= np.uint64(data[np.uintp(at + k)]) << np.uint64(8 * k)
        rest ^= word
        folded = np.uint64(0)
        for k in range(8):
            folded ^= tables[np.uintp(7 - k), np.uintp((rest >> np.uint64(8 * k)) & np.uint64(255))]
        rest = folded
        at += 8
    while at < end:
        rest = tables[0, np.uintp((rest ^ np.uint64(data[np.uintp(at)])) & np.uint64(255))] ^ rest >> np.uint64(8)
        at += 1
    return ~rest
