"""Matches told in bytes, line by line: what `told_chunks.py` does of chunks, of the `Line`s of many documents."""

import numba
import numpy as np

from argosy.search.index.segment import I32, I64, U8, U16, U32
from argosy.search.kernels.compiling import BYTES, INTS, SHORTS, WORDS, helper, kernel
from argosy.search.kernels.spelling import (
    BOTTOM,
    END,
    EXPLANATION,
    FIRSTS,
    INVALID_UTF8,
    LAST_LINE,
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
def _room(
    data: U8, first: int, last: int, rows: I64, symbols: I32, defined: Defined, kind_room: int, bytes_max: int
) -> int:
    """How many bytes the lines of these matches take at most; 0 if they need more care."""
    room = NUMBER_ROOM + (last - first) * _FRAGMENT_ROOM
    for i in range(first, last):
        if rows[i, LAST_LINE] > rows[i, LINE]:
            return 0
        if symbols[i] >= 0:
            more = room_of_symbol(data, np.int64(symbols[i]), defined, kind_room)
            if more == 0:
                return 0
            room += more
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
def _put_fragment(
    out: U8, at: int, data: U8, start: int, end: int, line: int, base: int, symbol: int, defined: Defined, kinds: Kinds
) -> int:
    at = put(out, at, _LINE_OFFSET)
    at = put_number(out, at, start - line)
    at = put(out, at, _OFFSET)
    at = put_number(out, at, start - base)
    at = put(out, at, _LENGTH)
    at = put_number(out, at, end - start)
    at = put(out, at, _SYMBOL)
    if symbol >= 0:
        return put_symbol(out, at, data, symbol, defined, kinds)
    out[_U(at)] = np.uint8(NIL)
    return at + 1


@helper
def _put_beginning(out: U8, at: int, data: U8, base: int, rows: I64, i: int) -> int:
    """A line up to its matches, of which the row is the first one's."""
    start, end = rows[_U(i), LINE_START], rows[_U(i), END]
    at = put(out, at, _CONTENT)
    at = _put_line(out, at, data, start, end)
    at = put(out, at, _START)
    at = put_number(out, at, start - base)
    at = put(out, at, _END_IS)
    at = put_number(out, at, end - base)
    at = put(out, at, _NUMBER)
    at = put_number(out, at, rows[_U(i), LINE])
    return put(out, at, _FRAGMENTS)


@helper
def _put_rest(out: U8, at: int, data: U8, rows: I64, points: I32, first: int, past: int) -> int:
    """A line from its context on."""
    at = put(out, at, _BEFORE)
    at = _put_context(out, at, data, rows[_U(first), TOP], rows[_U(first), LINE_START])
    at = put(out, at, _AFTER)
    at = _put_context(out, at, data, rows[_U(first), END], rows[_U(first), BOTTOM])
    at = put(out, at, _FLAGS)
    at = put(out, at, SCORE)
    at = put_number(out, at, np.int64(points[best_of_run(points, first, past)]))
    return put(out, at, EXPLANATION)


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


@kernel(
    (
        BYTES, WORDS, BYTES, WORDS, FIRSTS, WORDS, WORDS, ROWS, NUMBERS, NUMBERS,
        WORDS, SHORTS, BYTES, INTS, BYTES, FIRSTS, numba.int64,
    )
)  # fmt: skip
def tell_lines(
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
    bytes_max: int,
) -> tuple[U8, I64]:
    """Like `tell_chunks`, the lines of each document.

    Nothing is written of a document that is no UTF-8, or has a match over several lines, or shows a line that is longer
    than `bytes_max` (0: none is too long), or where the name of a match's symbol begins or ends inside a character.
    """
    defined, kinds = (symbol_starts, symbol_lengths, symbol_kinds, symbol_parents), (kind_text, kind_edges)
    kind_room = room_of_kind(kind_edges)
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not traits[_U(documents[i])] & np.uint8(INVALID_UTF8):
            rooms[i] = _room(data, firsts[i], firsts[i + 1], rows, symbols, defined, kind_room, bytes_max)
    out = np.empty(rooms.sum(), np.uint8)
    edges = np.zeros(documents.size + 1, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last, base = firsts[i], firsts[i + 1], np.int64(document_starts[_U(documents[i])])
            at = put_list(out, at, _lines(rows, first, last))
            while first < last:
                past, line = _past_run(rows, first, last), rows[first, LINE_START]
                at = _put_beginning(out, at, data, base, rows, first)
                at = put_list(out, at, past - first)
                for j in range(first, past):
                    start, end, symbol = np.int64(starts[j]), np.int64(ends[j]), np.int64(symbols[j])
                    at = _put_fragment(out, at, data, start, end, line, base, symbol, defined, kinds)
                at = _put_rest(out, at, data, rows, points, first, past)
                first = past
        edges[i + 1] = at
    return out[:at], edges
