"""Counts the distinct trigrams of a document, to detect packed data: text has few, compressed or encoded data many."""

import numba
import numpy as np

from argosy.search.arrays import U8, U64
from argosy.search.kernels.compiler import BYTES, helper, kernel

_WORDS = 1 << 12  # one bit for each of 2^18 keys


@helper
def _ones(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel(numba.int64(BYTES, BYTES))
def distinct_keys(content: U8, classes: U8) -> int:
    """The number of distinct trigram keys (`classes.py`) in the content."""
    if content.size < 3:
        return 0
    seen: U64 = np.zeros(_WORDS, np.uint64)
    key = np.uint32(classes[content[0]]) << np.uint32(6) | np.uint32(classes[content[1]])
    for at in range(2, content.size):
        key = (key << np.uint32(6) | np.uint32(classes[content[np.uintp(at)]])) & np.uint32(0x3FFFF)
        seen[np.uintp(key >> np.uint32(6))] |= np.uint64(1) << np.uint64(key & np.uint32(63))
    count = 0
    for word in seen:
        count += _ones(word)
    return count
