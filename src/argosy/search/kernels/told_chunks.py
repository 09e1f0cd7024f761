"""Matches told in bytes: the chunks of many documents, written as msgpack would spell their structs.

To make an object of every range and place takes longer than to find them, and most of them are only sent on. Documents
that need more care than plain ones are left out; `match/telling.py` tells them.
"""

import numpy as np

from argosy.search.index.segment import I32, I64, U8, U16, U32
from argosy.search.kernels.compiling import BYTES, INTS, SHORTS, WORDS, helper, kernel
from argosy.search.kernels.spelling import (
    BOTTOM,
    COLUMN,
    EXPLANATION,
    FIRSTS,
    INVALID_UTF8,
    IS_LONG,
    LAST_COLUMN,
    LAST_LINE,
    LAST_START,
    LINE,
    LINE_START,
    NIL,
    NUMBER_ROOM,
    NUMBERS,
    ROWS,
    SCORE,
    TOP,
    Defined,
    Kinds,
    best_of_run,
    is_inside_character,
    put,
    put_list,
    put_number,
    put_part,
    put_sized,
    put_symbol,
    room_of_kind,
    room_of_symbol,
    spelled,
)

_U = np.uintp
_NEWLINE = 10

# A chunk, between its values.
_CONTENT = spelled(b"\x89", "content")
_START = spelled("start", b"\x83", "offset")
_LINE_IS = spelled("line")
_COLUMN_IS = spelled("column")
_RANGES = spelled("ranges")
_SYMBOLS = spelled("symbols")
_BEST_LINE = spelled("is_file_name", b"\xc2", "is_clipped", b"\xc2", "best_line")
_PLACE_ROOM = _LINE_IS.size + _COLUMN_IS.size + 3 * NUMBER_ROOM
_CHUNK_ROOM = sum(
    each.size + NUMBER_ROOM for each in (_CONTENT, _START, _RANGES, _SYMBOLS, _BEST_LINE, SCORE, EXPLANATION)
) + _PLACE_ROOM  # fmt: skip

# A range.
_RANGE_START = spelled(b"\x82", "start", b"\x83", "offset")
_RANGE_END = spelled("end", b"\x83", "offset")
_RANGE_ROOM = _RANGE_START.size + _RANGE_END.size + 2 * _PLACE_ROOM + 1        # and a byte for having no symbol

@helper
def _run(rows: I64, at: int, last: int) -> tuple[int, int]:
    """The excerpt that begins with a match: past its last match, and where its lines end."""
    bottom = rows[at, BOTTOM]
    at += 1
    while at < last and rows[at, TOP] <= bottom:
        bottom = max(bottom, rows[at, BOTTOM])
        at += 1
    return at, bottom


@helper
def _room(
    data: U8, first: int, last: int, starts: U32, ends: U32, rows: I64, symbols: I32, defined: Defined, kind_room: int
) -> int:
    """How many bytes the chunks of these matches take at most; 0 if they need more care."""
    room = NUMBER_ROOM + (last - first) * _RANGE_ROOM
    for i in range(first, last):
        if rows[i, IS_LONG] or is_inside_character(data, np.int64(starts[i])):
            return 0
        if is_inside_character(data, np.int64(ends[i])):
            return 0
        if symbols[i] >= 0:
            more = room_of_symbol(data, np.int64(symbols[i]), defined, kind_room)
            if more == 0:
                return 0
            room += more
    at = first
    while at < last:
        top = rows[at, TOP]
        at, bottom = _run(rows, at, last)
        room += _CHUNK_ROOM + bottom - top
    return room


@helper
def _put_place(out: U8, at: int, offset: int, line: int, column: int) -> int:
    at = put_number(out, at, offset)
    at = put(out, at, _LINE_IS)
    at = put_number(out, at, line)
    at = put(out, at, _COLUMN_IS)
    return put_number(out, at, column)


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
    column, last_column = rows[_U(i), COLUMN], rows[_U(i), LAST_COLUMN]
    if column == 0:
        column = _column(data, rows[_U(i), LINE_START], start, counted)
        last_column = _column(data, rows[_U(i), LAST_START], end, counted)
    at = put(out, at, _RANGE_START)
    at = _put_place(out, at, start - base, rows[_U(i), LINE], column)
    at = put(out, at, _RANGE_END)
    return _put_place(out, at, end - base, rows[_U(i), LAST_LINE], last_column)


@helper
def _put_symbols(
    out: U8, at: int, data: U8, symbols: I32, first: int, last: int, defined: Defined, kinds: Kinds
) -> int:
    """One for each match, or none at all."""
    most = -1
    for i in range(first, last):
        most = max(most, np.int64(symbols[_U(i)]))
    if most < 0:
        return put_list(out, at, 0)
    at = put_list(out, at, last - first)
    for i in range(first, last):
        if symbols[i] < 0:
            out[_U(at)] = np.uint8(NIL)
            at += 1
        else:
            at = put_symbol(out, at, data, np.int64(symbols[i]), defined, kinds)
    return at


@helper
def _put_lines(out: U8, at: int, data: U8, base: int, bottom: int, rows: I64, i: int) -> int:
    """A chunk's text and where it begins, of which the row is its first match's."""
    top, line = rows[_U(i), TOP], rows[_U(i), LINE]
    for above in range(top, rows[_U(i), LINE_START]):
        line -= np.int64(data[_U(above)] == _NEWLINE)
    at = put(out, at, _CONTENT)
    at = put_sized(out, at, bottom - top, 0xC4, 0xC5, 0xC6)
    at = put_part(out, at, data, top, bottom)
    at = put(out, at, _START)
    return _put_place(out, at, top - base, line, 1)


@helper
def _put_worth(out: U8, at: int, rows: I64, points: I32, first: int, last: int) -> int:
    """The line and the points of a chunk's best match, the first of equals."""
    best = best_of_run(points, first, last)
    at = put(out, at, _BEST_LINE)
    at = put_number(out, at, rows[best, LINE])
    at = put(out, at, SCORE)
    at = put_number(out, at, np.int64(points[best]))
    return put(out, at, EXPLANATION)


@helper
def _chunks(rows: I64, first: int, last: int) -> int:
    count = 0
    while first < last:
        first, _ = _run(rows, first, last)
        count += 1
    return count


@kernel(
    (
        BYTES, WORDS, BYTES, WORDS, FIRSTS, WORDS, WORDS, ROWS, NUMBERS, NUMBERS,
        WORDS, SHORTS, BYTES, INTS, BYTES, FIRSTS,
    )
)  # fmt: skip
def tell_chunks(
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
    kind_room = room_of_kind(kind_edges)
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not traits[_U(documents[i])] & np.uint8(INVALID_UTF8):
            rooms[i] = _room(data, firsts[i], firsts[i + 1], starts, ends, rows, symbols, defined, kind_room)
    out = np.empty(rooms.sum(), np.uint8)
    edges = np.zeros(documents.size + 1, np.int64)
    counted = np.empty(3, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last, base = firsts[i], firsts[i + 1], np.int64(document_starts[_U(documents[i])])
            counted[0] = -1
            at = put_list(out, at, _chunks(rows, first, last))
            while first < last:
                end, bottom = _run(rows, first, last)
                at = _put_lines(out, at, data, base, bottom, rows, first)
                at = put(out, at, _RANGES)
                at = put_list(out, at, end - first)
                for j in range(first, end):
                    at = _put_range(out, at, data, base, np.int64(starts[j]), np.int64(ends[j]), rows, j, counted)
                at = put(out, at, _SYMBOLS)
                at = _put_symbols(out, at, data, symbols, first, end, defined, kinds)
                at = _put_worth(out, at, rows, points, first, end)
                first = end
        edges[i + 1] = at
    return out[:at], edges
