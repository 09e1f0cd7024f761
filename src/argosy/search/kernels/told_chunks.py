"""Matches told in bytes: the chunks of many documents, written as msgpack would spell their structs.

To make an object of every range and place takes longer than to find them, and most of them are only sent on. Documents
that need more care than plain ones are left out; `match/telling.py` tells them.
"""

import numpy as np

from argosy.search.index.segment import I64, U8
from argosy.search.kernels.compiling import helper, kernel
from argosy.search.kernels.spelling import (
    BOTTOM,
    COLUMN,
    DEFINED,
    EXPLANATION,
    INVALID_UTF8,
    IS_LONG,
    LAST_COLUMN,
    LAST_LINE,
    LAST_START,
    LINE,
    LINE_START,
    NUMBER_ROOM,
    SCORE,
    SHOWN,
    TOP,
    Defined,
    Shown,
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
_CHUNK_ROOM = (
    sum(each.size + NUMBER_ROOM for each in (_CONTENT, _START, _RANGES, _SYMBOLS, _BEST_LINE, SCORE, EXPLANATION))
    + _PLACE_ROOM
)

# A range.
_RANGE_START = spelled(b"\x82", "start", b"\x83", "offset")
_RANGE_END = spelled("end", b"\x83", "offset")
_RANGE_ROOM = _RANGE_START.size + _RANGE_END.size + 2 * _PLACE_ROOM


@helper
def _run(rows: I64, first: int, last: int) -> tuple[int, int]:
    """The excerpt that begins with a match: past its last match, and where its lines end."""
    past, bottom = first + 1, rows[first, BOTTOM]
    while past < last and rows[past, TOP] <= bottom:
        bottom = max(bottom, rows[past, BOTTOM])
        past += 1
    return past, bottom


@helper
def _chunks(rows: I64, first: int, last: int) -> int:
    count = 0
    while first < last:
        first, _ = _run(rows, first, last)
        count += 1
    return count


@helper
def _room(shown: Shown, defined: Defined, kind_room: int, first: int, last: int) -> int:
    """How many bytes the chunks of these matches take at most; 0 if they need more care."""
    data, rows = shown.data, shown.rows
    room = NUMBER_ROOM
    for i in range(first, last):
        if rows[i, IS_LONG] or is_inside_character(data, np.int64(shown.starts[i])):
            return 0
        if is_inside_character(data, np.int64(shown.ends[i])):
            return 0
        more = room_of_symbol(data, np.int64(shown.symbols[i]), defined, kind_room)
        if more == 0:
            return 0
        room += more + _RANGE_ROOM
    while first < last:
        top = rows[first, TOP]
        first, bottom = _run(rows, first, last)
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
def _put_range(out: U8, at: int, shown: Shown, base: int, i: int, counted: I64) -> int:
    row, start, end = shown.rows[i], np.int64(shown.starts[i]), np.int64(shown.ends[i])
    column, last_column = row[COLUMN], row[LAST_COLUMN]
    if column == 0:
        column = _column(shown.data, row[LINE_START], start, counted)
        last_column = _column(shown.data, row[LAST_START], end, counted)
    at = put(out, at, _RANGE_START)
    at = _put_place(out, at, start - base, row[LINE], column)
    at = put(out, at, _RANGE_END)
    return _put_place(out, at, end - base, row[LAST_LINE], last_column)


@helper
def _put_symbols(out: U8, at: int, shown: Shown, defined: Defined, first: int, past: int) -> int:
    """One for each match, or none at all."""
    most = -1
    for i in range(first, past):
        most = max(most, np.int64(shown.symbols[i]))
    if most < 0:
        return put_list(out, at, 0)
    at = put_list(out, at, past - first)
    for i in range(first, past):
        at = put_symbol(out, at, shown.data, np.int64(shown.symbols[i]), defined)
    return at


@helper
def _put_lines(out: U8, at: int, shown: Shown, base: int, first: int, bottom: int) -> int:
    """A chunk's text and where it begins."""
    data, row = shown.data, shown.rows[first]
    top, line = row[TOP], row[LINE]
    for above in range(top, row[LINE_START]):
        line -= np.int64(data[_U(above)] == _NEWLINE)
    at = put(out, at, _CONTENT)
    at = put_sized(out, at, bottom - top, 0xC4, 0xC5, 0xC6)
    at = put_part(out, at, data, top, bottom)
    at = put(out, at, _START)
    return _put_place(out, at, top - base, line, 1)


@helper
def _put_chunk(
    out: U8, at: int, shown: Shown, defined: Defined, base: int, first: int, past: int, bottom: int, counted: I64
) -> int:
    """The matches from the first on, up to the past one, and the lines that they are in."""
    at = _put_lines(out, at, shown, base, first, bottom)
    at = put(out, at, _RANGES)
    at = put_list(out, at, past - first)
    for i in range(first, past):
        at = _put_range(out, at, shown, base, i, counted)
    at = put(out, at, _SYMBOLS)
    at = _put_symbols(out, at, shown, defined, first, past)
    best = best_of_run(shown, first, past)
    at = put(out, at, _BEST_LINE)
    at = put_number(out, at, shown.rows[best, LINE])
    at = put(out, at, SCORE)
    at = put_number(out, at, np.int64(shown.points[best]))
    return put(out, at, EXPLANATION)


@kernel((SHOWN, DEFINED))
def tell_chunks(shown: Shown, defined: Defined) -> tuple[U8, I64]:
    """The chunks of each document as msgpack, one after the other, and where each one's begin, and where the last end.

    Nothing is written of a document that is no UTF-8, or has a match in an overlong line, or where a match or the name
    of its symbol begins or ends inside a character.
    """
    documents, kind_room = shown.documents, room_of_kind(defined)
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not shown.traits[_U(documents[i])] & np.uint8(INVALID_UTF8):
            rooms[i] = _room(shown, defined, kind_room, shown.firsts[i], shown.firsts[i + 1])
    out, edges = np.empty(rooms.sum(), np.uint8), np.zeros(documents.size + 1, np.int64)
    counted = np.empty(3, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last = shown.firsts[i], shown.firsts[i + 1]
            base = np.int64(shown.document_starts[_U(documents[i])])
            counted[0] = -1
            at = put_list(out, at, _chunks(shown.rows, first, last))
            while first < last:
                past, bottom = _run(shown.rows, first, last)
                at = _put_chunk(out, at, shown, defined, base, first, past, bottom, counted)
                first = past
        edges[i + 1] = at
    return out[:at], edges
