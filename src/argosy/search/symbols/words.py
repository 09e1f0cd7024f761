"""The words that determine what a brace opens, as a hash table for kernels.

The number of a word is the context of the definitions inside the brace. Words from `OPAQUE` on open no scope.
"""

from dataclasses import dataclass

import numpy as np

from argosy.search.arrays import U8, U64, freeze

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
BLOCK = 16  # any other brace, in languages where every brace is a scope
EXTERN = 17  # `extern "C" {`

OPAQUE = 32  # a body of statements follows
ATTRIBUTE = 33  # a call-like decoration: blanked with its brackets
TYPEDEF = 34
OPERATOR = 35

_TABLE_SIZE = 256
HASH_START = 0xCBF29CE484222325
HASH_FACTOR = 0x100000001B3
_MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Words:
    """Words by hash; an empty slot is zero."""

    hashes: U64
    codes: U8


def word_hash(word: bytes) -> int:
    """FNV-1a, 64 bits, as the kernel computes it while reading a word."""
    found = HASH_START
    for byte in word:
        found = ((found ^ byte) * HASH_FACTOR) & _MASK
    return found


def words(table: dict[int, str]) -> Words:
    """Builds the table from words by code, each a string of words separated by spaces."""
    hashes, codes = np.zeros(_TABLE_SIZE, np.uint64), np.zeros(_TABLE_SIZE, np.uint8)
    for code, listed in table.items():
        for word in listed.split():
            hashed = word_hash(word.encode())
            slot = hashed % _TABLE_SIZE
            while hashes[slot]:
                slot = (slot + 1) % _TABLE_SIZE
            hashes[slot], codes[slot] = hashed, code
    return Words(freeze(hashes), freeze(codes))
