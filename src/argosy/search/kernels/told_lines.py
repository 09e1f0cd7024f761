"""Matches told in bytes, line by line: what `told_chunks.py` does of chunks, of the `Line`s of many documents."""

import numba
import numpy as np

from argosy.search.index.segment import I64, U8
from argosy.search.kernels.compiling import helper, kernel
from argosy.search.kernels.spelling import (
    BOTTOM,
    DEFINED,
    END,
    EXPLANATION,
    INVALID_UTF8,
    LAST_LINE,
    LINE,
    LINE_START,
    NUMBER_ROOM,
    SCORE,
    SHOWN,
    TOP,
    Defined,
    Shown,
    best_of_run,
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
_NEWLINE = np.uint8(10)

# A line, between its values.
_CONTENT = spelled(b"\x8b", "content")
_START = spelled("start")
_END_IS = spelled("end")
_NUMBER = spelled("number")
_FRAGMENTS = spelled("fragments")
_BEFORE = spelled("before")
_AFTER = spelled("after")
_FLAGS = spelled("is_file_name", b"\xc2", "is_clipped", b"\xc2")
_LINE_ROOM = sum(
    each.size + NUMBER_ROOM
    for each in (_CONTENT, _START, _END_IS, _NUMBER, _FRAGMENTS, _BEFORE, _AFTER, _FLAGS, SCORE, EXPLANATION)
)

# A match in it.
_LINE_OFFSET = spelled(b"\x84", "line_offset")
_OFFSET = spelled("offset")
_LENGTH = spelled("length")
_SYMBOL = spelled("symbol")
_FRAGMENT_ROOM = sum(each.size + NUMBER_ROOM for each in (_LINE_OFFSET, _OFFSET, _LENGTH, _SYMBOL))


@helper
def _past_line(data: U8, at: int, end: int) -> int:
    """Past the newline of the line at a place, or the end."""
    while at < end and data[_U(at)] != _NEWLINE:
        at += 1
    return min(at + 1, end)


@helper
def _room_of_text(data: U8, start: int, end: int, bytes_max: int) -> int:
    """Of whole lines; 0 if one of them is too long to be shown whole."""
    room = 1
    while start < end:
        past = _past_line(data, start, end)
        if 0 < bytes_max < past - start - np.int64(data[_U(past - 1)] == _NEWLINE):
            return 0
        room += past - start + NUMBER_ROOM
        start = past
    return room


@helper
def _past_run(rows: I64, first: int, last: int) -> int:
    """Past the matches in the same line as the first."""
    past = first + 1
    while past < last and rows[past, LINE_START] == rows[first, LINE_START]:
        past += 1
    return past


@helper
def _lines(rows: I64, first: int, last: int) -> int:
    count = 0
    while first < last:
        first = _past_run(rows, first, last)
        count += 1
    return count


@helper
def _room(shown: Shown, defined: Defined, kind_room: int, first: int, last: int, bytes_max: int) -> int:
    """How many bytes the lines of these matches take at most; 0 if they need more care."""
    data, rows = shown.data, shown.rows
    room = NUMBER_ROOM
    for i in range(first, last):
        more = room_of_symbol(data, np.int64(shown.symbols[i]), defined, kind_room)
        if more == 0 or rows[i, LAST_LINE] > rows[i, LINE]:
            return 0
        room += more + _FRAGMENT_ROOM
        if i == first or rows[i, LINE_START] != rows[i - 1, LINE_START]:
            more = _room_of_text(data, rows[i, TOP], rows[i, BOTTOM], bytes_max)
            if more == 0:
                return 0
            room += more + _LINE_ROOM
    return room


@helper
def _put_line(out: U8, at: int, data: U8, start: int, past: int) -> int:
    """A line without its newline."""
    end = past - np.int64(past > start and data[_U(past - 1)] == _NEWLINE)
    at = put_sized(out, at, end - start, 0xC4, 0xC5, 0xC6)
    return put_part(out, at, data, start, end)


@helper
def _put_context(out: U8, at: int, data: U8, start: int, end: int) -> int:
    """Whole lines, one by one."""
    count, place = 0, start
    while place < end:
        place = _past_line(data, place, end)
        count += 1
    at = put_list(out, at, count)
    while start < end:
        past = _past_line(data, start, end)
        at = _put_line(out, at, data, start, past)
        start = past
    return at


@helper
def _put_fragment(out: U8, at: int, shown: Shown, defined: Defined, base: int, i: int) -> int:
    start, end = np.int64(shown.starts[i]), np.int64(shown.ends[i])
    at = put(out, at, _LINE_OFFSET)
    at = put_number(out, at, start - shown.rows[i, LINE_START])
    at = put(out, at, _OFFSET)
    at = put_number(out, at, start - base)
    at = put(out, at, _LENGTH)
    at = put_number(out, at, end - start)
    at = put(out, at, _SYMBOL)
    return put_symbol(out, at, shown.data, np.int64(shown.symbols[i]), defined)


@helper
def _put_numbers(out: U8, at: int, base: int, row: I64) -> int:
    """Where a line is."""
    at = put(out, at, _START)
    at = put_number(out, at, row[LINE_START] - base)
    at = put(out, at, _END_IS)
    at = put_number(out, at, row[END] - base)
    at = put(out, at, _NUMBER)
    return put_number(out, at, row[LINE])


@helper
def _put_told(out: U8, at: int, shown: Shown, defined: Defined, base: int, first: int, past: int) -> int:
    """The line of the matches from the first on, up to the past one."""
    data, row = shown.data, shown.rows[first]
    at = put(out, at, _CONTENT)
    at = _put_line(out, at, data, row[LINE_START], row[END])
    at = _put_numbers(out, at, base, row)
    at = put(out, at, _FRAGMENTS)
    at = put_list(out, at, past - first)
    for i in range(first, past):
        at = _put_fragment(out, at, shown, defined, base, i)
    at = put(out, at, _BEFORE)
    at = _put_context(out, at, data, row[TOP], row[LINE_START])
    at = put(out, at, _AFTER)
    at = _put_context(out, at, data, row[END], row[BOTTOM])
    at = put(out, at, _FLAGS)
    at = put(out, at, SCORE)
    at = put_number(out, at, np.int64(shown.points[best_of_run(shown, first, past)]))
    return put(out, at, EXPLANATION)


@kernel((SHOWN, DEFINED, numba.int64))
def tell_lines(shown: Shown, defined: Defined, bytes_max: int) -> tuple[U8, I64]:
    """Like `tell_chunks`, the lines of each document.

    Nothing is written of a document that is no UTF-8, or has a match over several lines, or shows a line that is longer
    than `bytes_max` (0: none is too long), or where the name of a match's symbol begins or ends inside a character.
    """
    documents, kind_room = shown.documents, room_of_kind(defined)
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not shown.traits[_U(documents[i])] & np.uint8(INVALID_UTF8):
            rooms[i] = _room(shown, defined, kind_room, shown.firsts[i], shown.firsts[i + 1], bytes_max)
    out, edges = np.empty(rooms.sum(), np.uint8), np.zeros(documents.size + 1, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last = shown.firsts[i], shown.firsts[i + 1]
            base = np.int64(shown.document_starts[_U(documents[i])])
            at = put_list(out, at, _lines(shown.rows, first, last))
            while first < last:
                past = _past_run(shown.rows, first, last)
                at = _put_told(out, at, shown, defined, base, first, past)
                first = past
        edges[i + 1] = at
    return out[:at], edges
