"""Writes msgpack from kernels: numbers, strings, lists, and the definitions in which matches lie.

The output is byte for byte what `msgspec.msgpack.encode` writes for the same structs of `model.py`, so a reader decodes
it to those structs. A change of a field or its order there is a change here; tests compare both encodings.
"""

from typing import NamedTuple

import numba
import numpy as np

from argosy.search.arrays import I32, I64, U8, U16, U32
from argosy.search.kernels.compiler import BYTES, INTS, SHORTS, WORDS, helper

_U = np.uintp

# Copies of constants in line_numbers.py and Trait: a kernel's cache does not notice a change in another file.
LINE, LINE_START, LAST_LINE, LAST_START, END, TOP, BOTTOM, IS_LONG, COLUMN, LAST_COLUMN = range(10)
INVALID_UTF8 = 1

NIL = 0xC0
# Numbers here are positions and lengths, which have 32 bits, after a type byte.
NUMBER_BYTES_MAX = 5  # of a number or a length, at most


class MatchBatch(NamedTuple):
    """Matches in some documents of a segment, ascending, with their line numbers, points and symbols."""

    data: U8
    document_starts: U32
    traits: U8  # of all documents
    documents: U32  # with matches
    firsts: I64  # index of each document's first match, and the total
    starts: U32
    ends: U32
    rows: I64  # of `places_in_documents`
    points: I32  # of `score_matches`
    symbols: I32  # of `score_matches`


class SymbolTable(NamedTuple):
    """The symbols of a segment, and the names of their kinds: concatenated, with the start of each and the end."""

    starts: U32
    lengths: U16
    kinds: U8
    parents: I32
    kind_text: U8
    kind_edges: I64


_FIRSTS = numba.types.Array(numba.int64, 1, "C", readonly=True)
_ROWS = numba.types.Array(numba.int64, 2, "C")
_NUMBERS = numba.types.Array(numba.int32, 1, "C")
MATCH_BATCH = numba.types.NamedTuple(
    (BYTES, WORDS, BYTES, WORDS, _FIRSTS, WORDS, WORDS, _ROWS, _NUMBERS, _NUMBERS), MatchBatch
)
SYMBOL_TABLE = numba.types.NamedTuple((WORDS, SHORTS, BYTES, INTS, BYTES, _FIRSTS), SymbolTable)


def msgpack_bytes(*pieces: bytes | str) -> U8:
    """Concatenates msgpack: bytes as they are, names as short strings."""
    # Names shorter than 32 bytes have a length of five bits in the type byte; all field names are.
    joined = b"".join(each if isinstance(each, bytes) else bytes([0xA0 | len(each)]) + each.encode() for each in pieces)
    return np.frombuffer(joined, np.uint8)


# The last fields of a chunk and a line: the points of the best match, and an empty explanation.
SCORE = msgpack_bytes("score")
EXPLANATION = msgpack_bytes("explanation", b"\xa0")

# Fields of a symbol.
_NAME = msgpack_bytes(b"\x84", "name")
_KIND = msgpack_bytes("kind")
_PARENT = msgpack_bytes("parent")
_PARENT_KIND = msgpack_bytes("parent_kind")
_NO_PARENT = msgpack_bytes("parent", b"\xa0", "parent_kind", b"\xa0")
_SYMBOL_BYTES_MAX = _NAME.size + _KIND.size + _PARENT.size + _PARENT_KIND.size + 4 * NUMBER_BYTES_MAX


@helper
def is_inside_character(data: U8, at: int) -> bool:
    """Whether `at` is inside a UTF-8 sequence. A document is followed by a NUL, so there is a byte at its end."""
    return data[_U(at)] & np.uint8(0xC0) == np.uint8(0x80)


@helper
def _name_of(table: SymbolTable, symbol: int) -> tuple[int, int]:
    start = np.int64(table.starts[_U(symbol)])
    return start, start + np.int64(table.lengths[_U(symbol)])


@helper
def symbol_bytes_max(data: U8, symbol: int, table: SymbolTable, kind_bytes_max: int) -> int:
    """The maximal size of an encoded symbol, or 0 if its name or its parent's ends inside a character: names are stored
    truncated."""
    if symbol < 0:
        return 1
    size_max = _SYMBOL_BYTES_MAX + 2 * kind_bytes_max
    for each in (symbol, np.int64(table.parents[_U(symbol)])):
        if each >= 0:
            start, end = _name_of(table, each)
            if is_inside_character(data, start) or is_inside_character(data, end):
                return 0
            size_max += end - start
    return size_max


@helper
def longest_kind_bytes(table: SymbolTable) -> int:
    """The length of the longest kind name."""
    size_max = 0
    for i in range(table.kind_edges.size - 1):
        size_max = max(size_max, table.kind_edges[i + 1] - table.kind_edges[i])
    return size_max


@helper
def best_of_run(batch: MatchBatch, first: int, past: int) -> int:
    """The match with the most points, the first one if equal."""
    best = first
    for i in range(first + 1, past):
        if batch.points[i] > batch.points[best]:
            best = i
    return best


@helper
def put(out: U8, at: int, piece: U8) -> int:
    for i in range(piece.size):
        out[_U(at) + _U(i)] = piece[_U(i)]
    return at + piece.size


@helper
def put_part(out: U8, at: int, data: U8, start: int, end: int) -> int:
    for i in range(end - start):
        out[_U(at) + _U(i)] = data[_U(start) + _U(i)]
    return at + end - start


@helper
def _put_tail(out: U8, at: int, value: int, width: int) -> int:
    """Writes the lowest bytes of a number, big-endian."""
    for i in range(width):
        out[_U(at) + _U(i)] = np.uint8((value >> (8 * (width - 1 - i))) & 0xFF)
    return at + width


@helper
def put_sized(out: U8, at: int, value: int, byte: int, short: int, word: int) -> int:
    """Writes a number after the type byte of the smallest width that fits; a type byte of 0 does not exist."""
    # msgpack has no 8-bit length for lists.
    if byte and value < 1 << 8:
        out[_U(at)] = np.uint8(byte)
        return _put_tail(out, at + 1, value, 1)
    if value < 1 << 16:
        out[_U(at)] = np.uint8(short)
        return _put_tail(out, at + 1, value, 2)
    out[_U(at)] = np.uint8(word)
    return _put_tail(out, at + 1, value, 4)


@helper
def put_number(out: U8, at: int, value: int) -> int:
    # A positive number below 128 is its own type byte.
    if value < 1 << 7:
        out[_U(at)] = np.uint8(value)
        return at + 1
    return put_sized(out, at, value, 0xCC, 0xCD, 0xCE)


@helper
def put_list(out: U8, at: int, length: int) -> int:
    if length < 16:
        out[_U(at)] = np.uint8(0x90 | length)
        return at + 1
    return put_sized(out, at, length, 0, 0xDC, 0xDD)


@helper
def put_text(out: U8, at: int, data: U8, start: int, end: int) -> int:
    length = end - start
    if length < 32:
        out[_U(at)] = np.uint8(0xA0 | length)
        at += 1
    else:
        at = put_sized(out, at, length, 0xD9, 0xDA, 0xDB)
    return put_part(out, at, data, start, end)


@helper
def _put_kind(out: U8, at: int, symbol: int, table: SymbolTable) -> int:
    kind = _U(table.kinds[_U(symbol)])
    return put_text(out, at, table.kind_text, table.kind_edges[kind], table.kind_edges[kind + _U(1)])


@helper
def put_symbol(out: U8, at: int, data: U8, symbol: int, table: SymbolTable) -> int:
    """Writes a symbol, or nil for none."""
    if symbol < 0:
        out[_U(at)] = np.uint8(NIL)
        return at + 1
    start, end = _name_of(table, symbol)
    at = put(out, at, _NAME)
    at = put_text(out, at, data, start, end)
    at = put(out, at, _KIND)
    at = _put_kind(out, at, symbol, table)
    parent = np.int64(table.parents[_U(symbol)])
    if parent < 0:
        return put(out, at, _NO_PARENT)
    start, end = _name_of(table, parent)
    at = put(out, at, _PARENT)
    at = put_text(out, at, data, start, end)
    at = put(out, at, _PARENT_KIND)
    return _put_kind(out, at, parent, table)
