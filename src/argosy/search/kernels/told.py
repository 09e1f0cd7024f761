"""Matches told in bytes: the chunks of many documents, written as msgpack would spell their structs.

To make an object of every range and place takes longer than to find them, and most of them are only sent on. What is
written is, byte for byte, what `msgspec.msgpack.encode` says of the same `Chunk`s of `model.py`, so that whoever reads
it gets those. Documents that need more care than plain ones are left out; `match/telling.py` tells them.
"""

from typing import TypeAlias

import numba
import numpy as np

from argosy.search.index.segment import I32, I64, U8, U16, U32
from argosy.search.kernels.compiling import BYTES, INTS, SHORTS, WORDS, helper, kernel

_U = np.uintp
_NEWLINE = 10
_FIRSTS = numba.types.Array(numba.int64, 1, "C", readonly=True)
_ROWS = numba.types.Array(numba.int64, 2, "C")
_NUMBERS = numba.types.Array(numba.int32, 1, "C")

# As in places.py and Trait: a kernel's cache does not notice constants of other files.
_LINE, _LINE_START, _LAST_LINE, _LAST_START, _, _TOP, _BOTTOM, _IS_LONG, _COLUMN, _LAST_COLUMN = range(10)
_INVALID_UTF8 = 1

_Defined: TypeAlias = tuple[U32, U16, U8, I32]          # the arrays of symbols: starts, lengths, kinds, parents
_Kinds: TypeAlias = tuple[U8, I64]                      # the names of kinds joined, and where each begins

_NIL = 0xC0
_NUMBER_ROOM = 5                        # of a number or a length, at most


def _spelled(*pieces: bytes | str) -> U8:
    """Bytes as they are, names as msgpack has short text."""
    joined = b"".join(each if isinstance(each, bytes) else bytes([0xA0 | len(each)]) + each.encode() for each in pieces)
    return np.frombuffer(joined, np.uint8)


# A chunk, between its values.
_CONTENT = _spelled(b"\x89", "content")
_START = _spelled("start", b"\x83", "offset")
_LINE_IS = _spelled("line")
_COLUMN_IS = _spelled("column")
_RANGES = _spelled("ranges")
_SYMBOLS = _spelled("symbols")
_BEST_LINE = _spelled("is_file_name", b"\xc2", "is_clipped", b"\xc2", "best_line")
_SCORE = _spelled("score")
_EXPLANATION = _spelled("explanation", b"\xa0")
_PLACE_ROOM = _LINE_IS.size + _COLUMN_IS.size + 3 * _NUMBER_ROOM
_CHUNK_ROOM = sum(
    each.size + _NUMBER_ROOM for each in (_CONTENT, _START, _RANGES, _SYMBOLS, _BEST_LINE, _SCORE, _EXPLANATION)
) + _PLACE_ROOM  # fmt: skip

# A range.
_RANGE_START = _spelled(b"\x82", "start", b"\x83", "offset")
_RANGE_END = _spelled("end", b"\x83", "offset")
_RANGE_ROOM = _RANGE_START.size + _RANGE_END.size + 2 * _PLACE_ROOM + 1        # and a byte for having no symbol

# A symbol.
_NAME = _spelled(b"\x84", "name")
_KIND = _spelled("kind")
_PARENT = _spelled("parent")
_PARENT_KIND = _spelled("parent_kind")
_NO_PARENT = _spelled("parent", b"\xa0", "parent_kind", b"\xa0")
_SYMBOL_ROOM = _NAME.size + _KIND.size + _PARENT.size + _PARENT_KIND.size + 4 * _NUMBER_ROOM


@helper
def _is_inside_character(data: U8, at: int) -> bool:
    """Every document is followed by a NUL, so there is a byte at its end."""
    return data[_U(at)] & np.uint8(0xC0) == np.uint8(0x80)


@helper
def _name_of(defined: _Defined, symbol: int) -> tuple[int, int]:
    start = np.int64(defined[0][_U(symbol)])
    return start, start + np.int64(defined[1][_U(symbol)])


@helper
def _run(rows: I64, at: int, last: int) -> tuple[int, int]:
    """The excerpt that begins with a match: past its last match, and where its lines end."""
    bottom = rows[at, _BOTTOM]
    at += 1
    while at < last and rows[at, _TOP] <= bottom:
        bottom = max(bottom, rows[at, _BOTTOM])
        at += 1
    return at, bottom


@helper
def _symbol_room(data: U8, symbol: int, defined: _Defined, kind_room: int) -> int:
    """0 if its name, or that of what it lies in, ends inside a character: a very long one is known by its beginning."""
    room = _SYMBOL_ROOM + 2 * kind_room
    for each in (symbol, np.int64(defined[3][_U(symbol)])):
        if each >= 0:
            start, end = _name_of(defined, each)
            if _is_inside_character(data, start) or _is_inside_character(data, end):
                return 0
            room += end - start
    return room


@helper
def _room(
    data: U8, first: int, last: int, starts: U32, ends: U32, rows: I64, symbols: I32, defined: _Defined, kind_room: int
) -> int:
    """How many bytes the chunks of these matches take at most; 0 if they need more care."""
    room = _NUMBER_ROOM + (last - first) * _RANGE_ROOM
    for i in range(first, last):
        if rows[i, _IS_LONG] or _is_inside_character(data, np.int64(starts[i])):
            return 0
        if _is_inside_character(data, np.int64(ends[i])):
            return 0
        if symbols[i] >= 0:
            more = _symbol_room(data, np.int64(symbols[i]), defined, kind_room)
            if more == 0:
                return 0
            room += more
    at = first
    while at < last:
        top = rows[at, _TOP]
        at, bottom = _run(rows, at, last)
        room += _CHUNK_ROOM + bottom - top
    return room


@helper
def _put(out: U8, at: int, piece: U8) -> int:
    for i in range(piece.size):
        out[_U(at) + _U(i)] = piece[_U(i)]
    return at + piece.size


@helper
def _put_part(out: U8, at: int, data: U8, start: int, end: int) -> int:
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
def _put_sized(out: U8, at: int, value: int, byte: int, short: int, word: int) -> int:
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
def _put_number(out: U8, at: int, value: int) -> int:
    if value < 1 << 7:
        out[_U(at)] = np.uint8(value)
        return at + 1
    return _put_sized(out, at, value, 0xCC, 0xCD, 0xCE)


@helper
def _put_list(out: U8, at: int, length: int) -> int:
    if length < 16:
        out[_U(at)] = np.uint8(0x90 | length)
        return at + 1
    return _put_sized(out, at, length, 0, 0xDC, 0xDD)


@helper
def _put_text(out: U8, at: int, data: U8, start: int, end: int) -> int:
    length = end - start
    if length < 32:
        out[_U(at)] = np.uint8(0xA0 | length)
        at += 1
    else:
        at = _put_sized(out, at, length, 0xD9, 0xDA, 0xDB)
    return _put_part(out, at, data, start, end)


@helper
def _put_place(out: U8, at: int, offset: int, line: int, column: int) -> int:
    at = _put_number(out, at, offset)
    at = _put(out, at, _LINE_IS)
    at = _put_number(out, at, line)
    at = _put(out, at, _COLUMN_IS)
    return _put_number(out, at, column)


@helper
def _column(data: U8, line_start: int, position: int, counted: I64) -> int:
    """Of positions that only ascend: `counted` is the last one's line, itself and its column, so that no part of a
    long line is counted twice."""
    if line_start != counted[0]:
        counted[0] = counted[1] = line_start
        counted[2] = 1
    characters = 0
    for i in range(counted[1], position):
        characters += np.int64(data[_U(i)] & np.uint8(0xC0) != np.uint8(0x80))
    counted[1] = position
    counted[2] += characters
    return counted[2]


@helper
def _put_range(out: U8, at: int, data: U8, base: int, start: int, end: int, rows: I64, i: int, counted: I64) -> int:
    column, last_column = rows[_U(i), _COLUMN], rows[_U(i), _LAST_COLUMN]
    if column == 0:
        column = _column(data, rows[_U(i), _LINE_START], start, counted)
        last_column = _column(data, rows[_U(i), _LAST_START], end, counted)
    at = _put(out, at, _RANGE_START)
    at = _put_place(out, at, start - base, rows[_U(i), _LINE], column)
    at = _put(out, at, _RANGE_END)
    return _put_place(out, at, end - base, rows[_U(i), _LAST_LINE], last_column)


@helper
def _put_kind(out: U8, at: int, symbol: int, defined: _Defined, kinds: _Kinds) -> int:
    kind = _U(defined[2][_U(symbol)])
    return _put_text(out, at, kinds[0], kinds[1][kind], kinds[1][kind + _U(1)])


@helper
def _put_symbol(out: U8, at: int, data: U8, symbol: int, defined: _Defined, kinds: _Kinds) -> int:
    start, end = _name_of(defined, symbol)
    at = _put(out, at, _NAME)
    at = _put_text(out, at, data, start, end)
    at = _put(out, at, _KIND)
    at = _put_kind(out, at, symbol, defined, kinds)
    parent = np.int64(defined[3][_U(symbol)])
    if parent < 0:
        return _put(out, at, _NO_PARENT)
    start, end = _name_of(defined, parent)
    at = _put(out, at, _PARENT)
    at = _put_text(out, at, data, start, end)
    at = _put(out, at, _PARENT_KIND)
    return _put_kind(out, at, parent, defined, kinds)


@helper
def _put_symbols(
    out: U8, at: int, data: U8, symbols: I32, first: int, last: int, defined: _Defined, kinds: _Kinds
) -> int:
    """One for each match, or none at all."""
    most = -1
    for i in range(first, last):
        most = max(most, np.int64(symbols[_U(i)]))
    if most < 0:
        return _put_list(out, at, 0)
    at = _put_list(out, at, last - first)
    for i in range(first, last):
        if symbols[i] < 0:
            out[_U(at)] = np.uint8(_NIL)
            at += 1
        else:
            at = _put_symbol(out, at, data, np.int64(symbols[i]), defined, kinds)
    return at


@helper
def _put_lines(out: U8, at: int, data: U8, base: int, bottom: int, rows: I64, i: int) -> int:
    """A chunk's text and where it begins, of which the row is its first match's."""
    top, line = rows[_U(i), _TOP], rows[_U(i), _LINE]
    for above in range(top, rows[_U(i), _LINE_START]):
        line -= np.int64(data[_U(above)] == _NEWLINE)
    at = _put(out, at, _CONTENT)
    at = _put_sized(out, at, bottom - top, 0xC4, 0xC5, 0xC6)
    at = _put_part(out, at, data, top, bottom)
    at = _put(out, at, _START)
    return _put_place(out, at, top - base, line, 1)


@helper
def _put_worth(out: U8, at: int, rows: I64, points: I32, first: int, last: int) -> int:
    """The line and the points of a chunk's best match, the first of equals."""
    best = first
    for i in range(first + 1, last):
        if points[i] > points[best]:
            best = i
    at = _put(out, at, _BEST_LINE)
    at = _put_number(out, at, rows[best, _LINE])
    at = _put(out, at, _SCORE)
    at = _put_number(out, at, np.int64(points[best]))
    return _put(out, at, _EXPLANATION)


@helper
def _chunks(rows: I64, first: int, last: int) -> int:
    count = 0
    while first < last:
        first, _ = _run(rows, first, last)
        count += 1
    return count


@kernel(
    (
        BYTES, WORDS, BYTES, WORDS, _FIRSTS, WORDS, WORDS, _ROWS, _NUMBERS, _NUMBERS,
        WORDS, SHORTS, BYTES, INTS, BYTES, _FIRSTS,
    )
)  # fmt: skip
def tell(
    data: U8,
    document_starts: U32,
    traits: U8,
    documents: U32,
    firsts: I64,
    starts: U32,
    ends: U32,
    rows: I64,
    points: I32,
    symbols: I32,
    symbol_starts: U32,
    symbol_lengths: U16,
    symbol_kinds: U8,
    symbol_parents: I32,
    kind_text: U8,
    kind_edges: I64,
) -> tuple[U8, I64]:
    """The chunks of each document as msgpack, one after the other, and where each one's begin, and where the last end.

    `rows` are those of `places_in_documents` and `points` and `symbols` those of `score_matches`, for the same matches.
    Nothing is written of a document that is no UTF-8, or has a match in an overlong line, or where a match or the name
    of its symbol begins or ends inside a character.
    """
    defined, kinds = (symbol_starts, symbol_lengths, symbol_kinds, symbol_parents), (kind_text, kind_edges)
    kind_room = 0
    for i in range(kind_edges.size - 1):
        kind_room = max(kind_room, kind_edges[i + 1] - kind_edges[i])
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not traits[_U(documents[i])] & np.uint8(_INVALID_UTF8):
            rooms[i] = _room(data, firsts[i], firsts[i + 1], starts, ends, rows, symbols, defined, kind_room)
    out = np.empty(rooms.sum(), np.uint8)
    edges = np.zeros(documents.size + 1, np.int64)
    counted = np.empty(3, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last, base = firsts[i], firsts[i + 1], np.int64(document_starts[_U(documents[i])])
            counted[0] = -1
            at = _put_list(out, at, _chunks(rows, first, last))
            while first < last:
                end, bottom = _run(rows, first, last)
                at = _put_lines(out, at, data, base, bottom, rows, first)
                at = _put(out, at, _RANGES)
                at = _put_list(out, at, end - first)
                for j in range(first, end):
                    at = _put_range(out, at, data, base, np.int64(starts[j]), np.int64(ends[j]), rows, j, counted)
                at = _put(out, at, _SYMBOLS)
                at = _put_symbols(out, at, data, symbols, first, end, defined, kinds)
                at = _put_worth(out, at, rows, points, first, end)
                first = end
        edges[i + 1] = at
    return out[:at], edges
