"""The words that say what a brace opens, as a hash table that compiled code reads.

A word's number is its context: what the definitions inside lie in. Words from `OPAQUE` on open nothing themselves.
"""

from dataclasses import dataclass

import numpy as np

from argosy.search.index.segment import U8, U64, frozen

# Contexts.
TOP = 0
CLASS = 1
STRUCT = 2
UNION = 3
ENUM = 4
INTERFACE = 5
NAMESPACE = 6
TRAIT = 7
IMPLEMENTATION = 8
OBJECT = 9
RECORD = 10
CONSTANTS = 12  # Go's `const (`
VARIABLES = 13
TYPES = 14
SERVICE = 15
BLOCK = 16  # any other brace, where braces are all kept
EXTERN = 17  # `extern "C" {`

OPAQUE = 32  # what follows is a body of statements
ATTRIBUTE = 33  # a call-like decoration: blanked with its brackets
TYPEDEF = 34
OPERATOR = 35

_TABLE_SIZE = 256
HASH_START = 0xCBF29CE484222325
HASH_FACTOR = 0x100000001B3
_MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Words:
    """Words by their hash; an empty slot is zero."""

    hashes: U64
    codes: U8


def word_hash(word: bytes) -> int:
    """FNV-1a, 64 bits: what the kernel computes while it reads a word."""
    found = HASH_START
    for byte in word:
        found = ((found ^ byte) * HASH_FACTOR) & _MASK
    return found


def words(table: dict[int, str]) -> Words:
    """Words by their code, as a string of words each."""
    hashes, codes = np.zeros(_TABLE_SIZE, np.uint64), np.zeros(_TABLE_SIZE, np.uint8)
    for code, listed in table.items():
        for word in listed.split():
            hashed = word_hash(word.encode())
            slot = hashed % _TABLE_SIZE
            while hashes[slot]:
                slot = (slot + 1) % _TABLE_SIZE
            hashes[slot], codes[slot] = hashed, code
    return Words(frozen(hashes), frozen(codes))
