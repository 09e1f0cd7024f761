"""Folds bytes to 64 classes, so that a trigram is an 18-bit number and one index serves both case modes.

Upper and lower case share a class; digits, `_` and the punctuation common in code have classes of their own. CR, LF and
NUL are one class, so that a line end is the same at the end of a document. All other bytes are spread over the classes:
a shared class costs an extra candidate block, never a wrong result.
"""

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import OVERLAP_BYTES, U8, freeze
from argosy.search.kernels.compiler import BYTES, kernel

CLASS_BITS = 6
KEYS = 1 << 3 * CLASS_BITS  # number of trigrams
LINE_END = 0  # the class of a line end, and of the position before the first byte

_ALONE = b"\n \tabcdefghijklmnopqrstuvwxyz0123456789_,.()=-;:/*\\{}#>'[<]&\""  # in the order of their classes
_SHARED = b"|+`!%$@?~^"  # too rare for classes of their own; they share the last three
_LINE_ENDS = b"\0\r\n"


def _classes() -> U8:
    table = np.array([(byte * 29 + 7) % 64 for byte in range(256)], np.uint8)
    for number, byte in enumerate(_ALONE):
        table[byte] = table[ord(chr(byte).upper())] = number
    for number, byte in enumerate(_SHARED):
        table[byte] = len(_ALONE) + number % (64 - len(_ALONE))
    table[list(_LINE_ENDS)] = LINE_END
    return freeze(table)


CLASSES = _classes()


def key_of(a: int, b: int, c: int) -> int:
    """The key of three bytes in a row."""
    return int(CLASSES[a]) << 2 * CLASS_BITS | int(CLASSES[b]) << CLASS_BITS | int(CLASSES[c])


def keys_of(literal: bytes) -> npt.NDArray[np.int64]:
    """The distinct keys, ascending, of any block in which `literal` begins; none if it is shorter than three bytes.

    Only the first OVERLAP_BYTES count, because a block that ends inside a line indexes no more of what follows.
    """
    return freeze(_keys_of(np.frombuffer(literal, np.uint8)[:OVERLAP_BYTES], CLASSES))


@kernel((BYTES, BYTES))
def _keys_of(text: U8, classes: U8) -> npt.NDArray[np.int64]:
    keys = np.empty(max(text.size - 2, 0), np.int64)
    count = 0
    for i in range(keys.size):
        key = np.int64(0)
        for j in range(i, i + 3):
            key = key << 6 | np.int64(classes[np.uintp(text[np.uintp(j)])])
        at = count
        while at > 0 and keys[np.uintp(at - 1)] > key:
            at -= 1
        if at > 0 and keys[np.uintp(at - 1)] == key:
            continue
        for j in range(count, at, -1):
            keys[np.uintp(j)] = keys[np.uintp(j - 1)]
        keys[np.uintp(at)] = key
        count += 1
    return keys[:count]
