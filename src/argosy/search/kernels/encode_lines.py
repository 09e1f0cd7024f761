"""Encodes matches as msgpack line by line: the `Line` structs of many documents, as `encode_chunks.py` does chunks."""

import numba
import numpy as np

from argosy.search.arrays import I64, U8
from argosy.search.kernels.compiler import helper, kernel
from argosy.search.kernels.msgpack_writer import (
    BOTTOM,
    END,
    EXPLANATION,
    INVALID_UTF8,
    LAST_LINE,
    LINE,
    LINE_START,
    MATCH_BATCH,
    NUMBER_BYTES_MAX,
    SCORE,
    SYMBOL_TABLE,
    TOP,
    MatchBatch,
    SymbolTable,
    best_of_run,
    longest_kind_bytes,
    msgpack_bytes,
    put,
    put_list,
    put_number,
    put_part,
    put_sized,
    put_symbol,
    symbol_bytes_max,
)

_U = np.uintp
_NEWLINE = np.uint8(10)

# The keys of a line, between its values.
_CONTENT = msgpack_bytes(b"\x8b", "content")
_START = msgpack_bytes("start")
_END_IS = msgpack_bytes("end")
_NUMBER = msgpack_bytes("number")
_FRAGMENTS = msgpack_bytes("fragments")
_BEFORE = msgpack_bytes("before")
_AFTER = msgpack_bytes("after")
_FLAGS = msgpack_bytes("is_file_name", b"\xc2", "is_clipped", b"\xc2")
_LINE_BYTES_MAX = sum(
    each.size + NUMBER_BYTES_MAX
    for each in (_CONTENT, _START, _END_IS, _NUMBER, _FRAGMENTS, _BEFORE, _AFTER, _FLAGS, SCORE, EXPLANATION)
)

# The keys of a fragment.
_LINE_OFFSET = msgpack_bytes(b"\x84", "line_offset")
_OFFSET = msgpack_bytes("offset")
_LENGTH = msgpack_bytes("length")
_SYMBOL = msgpack_bytes("symbol")
_FRAGMENT_BYTES_MAX = sum(each.size + NUMBER_BYTES_MAX for each in (_LINE_OFFSET, _OFFSET, _LENGTH, _SYMBOL))


@helper
def _past_line(data: U8, at: int, end: int) -> int:
    """The position after the newline of the line at `at`, or the end."""
    while at < end and data[_U(at)] != _NEWLINE:
        at += 1
    return min(at + 1, end)


@helper
def _text_bytes_max(data: U8, start: int, end: int, bytes_max: int) -> int:
    """The maximal encoded size of whole lines; 0 if one is too long to be shown whole."""
    size_max = 1
    while start < end:
        past = _past_line(data, start, end)
        if 0 < bytes_max < past - start - np.int64(data[_U(past - 1)] == _NEWLINE):
            return 0
        size_max += past - start + NUMBER_BYTES_MAX
        start = past
    return size_max


@helper
def _past_run(rows: I64, first: int, last: int) -> int:
    """The index after the last match in the same line as the first."""
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
def _size_max(batch: MatchBatch, table: SymbolTable, kind_bytes_max: int, first: int, last: int, bytes_max: int) -> int:
    """The maximal encoded size of the lines of these matches; 0 if they need more care."""
    data, rows = batch.data, batch.rows
    size_max = NUMBER_BYTES_MAX
    for i in range(first, last):
        more = symbol_bytes_max(data, np.int64(batch.symbols[i]), table, kind_bytes_max)
        # A match over several lines becomes several fragments, which `match/file_matches.py` splits.
        if more == 0 or rows[i, LAST_LINE] > rows[i, LINE]:
            return 0
        size_max += more + _FRAGMENT_BYTES_MAX
        if i == first or rows[i, LINE_START] != rows[i - 1, LINE_START]:
            more = _text_bytes_max(data, rows[i, TOP], rows[i, BOTTOM], bytes_max)
            if more == 0:
                return 0
            size_max += more + _LINE_BYTES_MAX
    return size_max


@helper
def _put_line(out: U8, at: int, data: U8, start: int, past: int) -> int:
    """Writes a line without its newline."""
    end = past - np.int64(past > start and data[_U(past - 1)] == _NEWLINE)
    at = put_sized(out, at, end - start, 0xC4, 0xC5, 0xC6)
    return put_part(out, at, data, start, end)


@helper
def _put_context(out: U8, at: int, data: U8, start: int, end: int) -> int:
    """Writes a list of whole lines."""
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
def _put_fragment(out: U8, at: int, batch: MatchBatch, table: SymbolTable, base: int, i: int) -> int:
    start, end = np.int64(batch.starts[i]), np.int64(batch.ends[i])
    at = put(out, at, _LINE_OFFSET)
    at = put_number(out, at, start - batch.rows[i, LINE_START])
    at = put(out, at, _OFFSET)
    at = put_number(out, at, start - base)
    at = put(out, at, _LENGTH)
    at = put_number(out, at, end - start)
    at = put(out, at, _SYMBOL)
    return put_symbol(out, at, batch.data, np.int64(batch.symbols[i]), table)


@helper
def _put_numbers(out: U8, at: int, base: int, row: I64) -> int:
    """Writes the number, start and end of a line."""
    at = put(out, at, _START)
    at = put_number(out, at, row[LINE_START] - base)
    at = put(out, at, _END_IS)
    at = put_number(out, at, row[END] - base)
    at = put(out, at, _NUMBER)
    return put_number(out, at, row[LINE])


@helper
def _put_matched_line(out: U8, at: int, batch: MatchBatch, table: SymbolTable, base: int, first: int, past: int) -> int:
    """Writes the line of matches `first` to `past` - 1."""
    data, row = batch.data, batch.rows[first]
    at = put(out, at, _CONTENT)
    at = _put_line(out, at, data, row[LINE_START], row[END])
    at = _put_numbers(out, at, base, row)
    at = put(out, at, _FRAGMENTS)
    at = put_list(out, at, past - first)
    for i in range(first, past):
        at = _put_fragment(out, at, batch, table, base, i)
    at = put(out, at, _BEFORE)
    at = _put_context(out, at, data, row[TOP], row[LINE_START])
    at = put(out, at, _AFTER)
    at = _put_context(out, at, data, row[END], row[BOTTOM])
    at = put(out, at, _FLAGS)
    at = put(out, at, SCORE)
    at = put_number(out, at, np.int64(batch.points[best_of_run(batch, first, past)]))
    return put(out, at, EXPLANATION)


@kernel((MATCH_BATCH, SYMBOL_TABLE, numba.int64))
def encode_lines(batch: MatchBatch, table: SymbolTable, bytes_max: int) -> tuple[U8, I64]:
    """Encodes the lines of each document, as `encode_chunks` does chunks.

    Writes nothing for a document that is not UTF-8, has a match that spans lines, shows a line longer than `bytes_max`
    (0: no bound), or has a symbol name that begins or ends inside a character.
    """
    documents, kind_bytes_max = batch.documents, longest_kind_bytes(table)
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not batch.traits[_U(documents[i])] & np.uint8(INVALID_UTF8):
            rooms[i] = _size_max(batch, table, kind_bytes_max, batch.firsts[i], batch.firsts[i + 1], bytes_max)
    out, edges = np.empty(rooms.sum(), np.uint8), np.zeros(documents.size + 1, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last = batch.firsts[i], batch.firsts[i + 1]
            base = np.int64(batch.document_starts[_U(documents[i])])
            at = put_list(out, at, _lines(batch.rows, first, last))
            while first < last:
                past = _past_run(batch.rows, first, last)
                at = _put_matched_line(out, at, batch, table, base, first, past)
                first = past
        edges[i + 1] = at
    return out[:at], edges
