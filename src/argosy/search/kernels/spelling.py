"""Msgpack as kernels write it: numbers, texts, lists, and the definitions that matches lie in.

What is written is, byte for byte, what `msgspec.msgpack.encode` says of the same structs of `model.py`, so that whoever
reads it gets those.
"""

from typing import NamedTuple

import numba
import numpy as np

from argosy.search.index.segment import I32, I64, U8, U16, U32
from argosy.search.kernels.compiling import BYTES, INTS, SHORTS, WORDS, helper

_U = np.uintp

# As in places.py and Trait: a kernel's cache does not notice constants of other files.
LINE, LINE_START, LAST_LINE, LAST_START, END, TOP, BOTTOM, IS_LONG, COLUMN, LAST_COLUMN = range(10)
INVALID_UTF8 = 1

NIL = 0xC0
NUMBER_ROOM = 5  # of a number or a length, at most


class Shown(NamedTuple):
    """Matches in some documents of a segment, ascending, and what kernels tell of them."""

    data: U8
    document_starts: U32
    traits: U8  # of all documents
    documents: U32  # those with matches
    firsts: I64  # where each one's matches begin, and where the last one's end
    starts: U32
    ends: U32
    rows: I64  # of `places_in_documents`
    points: I32  # of `score_matches`
    symbols: I32  # of `score_matches`


class Defined(NamedTuple):
    """The symbols of a segment, and the names of kinds: joined, and where each begins, and where the last ends."""

    starts: U32
    lengths: U16
    kinds: U8
    parents: I32
    kind_text: U8
    kind_edges: I64


_FIRSTS = numba.types.Array(numba.int64, 1, "C", readonly=True)
_ROWS = numba.types.Array(numba.int64, 2, "C")
_NUMBERS = numba.types.Array(numba.int32, 1, "C")
SHOWN = numba.types.NamedTuple((BYTES, WORDS, BYTES, WORDS, _FIRSTS, WORDS, WORDS, _ROWS, _NUMBERS, _NUMBERS), Shown)
DEFINED = numba.types.NamedTuple((WORDS, SHORTS, BYTES, INTS, BYTES, _FIRSTS), Defined)


def spelled(*pieces: bytes | str) -> U8:
    """Bytes as they are, names as msgpack has short text."""
    joined = b"".join(each if isinstance(each, bytes) else bytes([0xA0 | len(each)]) + each.encode() for each in pieces)
    return np.frombuffer(joined, np.uint8)


# What a chunk and a line end with: the points of the best match, and no explanation.
SCORE = spelled("score")
EXPLANATION = spelled("explanation", b"\xa0")

# A symbol.
_NAME = spelled(b"\x84", "name")
_KIND = spelled("kind")
_PARENT = spelled("parent")
_PARENT_KIND = spelled("parent_kind")
_NO_PARENT = spelled("parent", b"\xa0", "parent_kind", b"\xa0")
_SYMBOL_ROOM = _NAME.size + _KIND.size + _PARENT.size + _PARENT_KIND.size + 4 * NUMBER_ROOM


@helper
def is_inside_character(data: U8, at: int) -> bool:
    """Every document is followed by a NUL, so there is a byte at its end."""
    return data[_U(at)] & np.uint8(0xC0) == np.uint8(0x80)


@helper
def _name_of(defined: Defined, symbol: int) -> tuple[int, int]:
    start = np.int64(defined.starts[_U(symbol)])
    return start, start + np.int64(defined.lengths[_U(symbol)])


@helper
def room_of_symbol(data: U8, symbol: int, defined: Defined, kind_room: int) -> int:
    """0 if its name, or that of what it lies in, ends inside a character: a very long one is known by its beginning."""
    if symbol < 0:
        return 1
    room = _SYMBOL_ROOM + 2 * kind_room
    for each in (symbol, np.int64(defined.parents[_U(symbol)])):
        if each >= 0:
            start, end = _name_of(defined, each)
            if is_inside_character(data, start) or is_inside_character(data, end):
                return 0
            room += end - start
    return room


@helper
def room_of_kind(defined: Defined) -> int:
    """Of the longest name of a kind."""
    room = 0
    for i in range(defined.kind_edges.size - 1):
        room = max(room, defined.kind_edges[i + 1] - defined.kind_edges[i])
    return room


@helper
def best_of_run(shown: Shown, first: int, past: int) -> int:
    """The match with the most points, the first of equals."""
    best = first
    for i in range(first + 1, past):
        if shown.points[i] > shown.points[best]:
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
    """The lowest bytes of a number, the highest of them first."""
    for i in range(width):
        out[_U(at) + _U(i)] = np.uint8((value >> (8 * (width - 1 - i))) & 0xFF)
    return at + width


@helper
def put_sized(out: U8, at: int, value: int, byte: int, short: int, word: int) -> int:
    """A number after the mark of the least width it fits into; a mark that is 0 there is none of."""
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
def _put_kind(out: U8, at: int, symbol: int, defined: Defined) -> int:
    kind = _U(defined.kinds[_U(symbol)])
    return put_text(out, at, defined.kind_text, defined.kind_edges[kind], defined.kind_edges[kind + _U(1)])


@helper
def put_symbol(out: U8, at: int, data: U8, symbol: int, defined: Defined) -> int:
    """Nothing at all, if there is none."""
    if symbol < 0:
        out[_U(at)] = np.uint8(NIL)
        return at + 1
    start, end = _name_of(defined, symbol)
    at = put(out, at, _NAME)
    at = put_text(out, at, data, start, end)
    at = put(out, at, _KIND)
    at = _put_kind(out, at, symbol, defined)
    parent = np.int64(defined.parents[_U(symbol)])
    if parent < 0:
        return put(out, at, _NO_PARENT)
    start, end = _name_of(defined, parent)
    at = put(out, at, _PARENT)
    at = put_text(out, at, data, start, end)
    at = put(out, at, _PARENT_KIND)
    return _put_kind(out, at, parent, defined)
