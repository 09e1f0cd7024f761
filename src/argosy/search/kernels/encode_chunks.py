"""Encodes matches as msgpack: the chunks of many documents, as msgspec would encode their structs.

Creating a Python object per range and location takes longer than finding the matches, 3.6 µs per match, and most are
only forwarded by a gateway (decision 0033). The size is bounded first, so that one array is allocated and writing needs
no bounds checks.
Documents that need more care are left out; `match/chunk_matches.py` builds objects for them.
"""

import numpy as np

from argosy.search.arrays import I64, U8
from argosy.search.kernels.compiler import helper, kernel
from argosy.search.kernels.msgpack_writer import (
    BOTTOM,
    COLUMN,
    EXPLANATION,
    INVALID_UTF8,
    IS_LONG,
    LAST_COLUMN,
    LAST_LINE,
    LAST_START,
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
    is_inside_character,
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
_NEWLINE = 10

# The keys of a chunk, between its values.
_CONTENT = msgpack_bytes(b"\x89", "content")
_START = msgpack_bytes("start", b"\x83", "offset")
_LINE_IS = msgpack_bytes("line")
_COLUMN_IS = msgpack_bytes("column")
_RANGES = msgpack_bytes("ranges")
_SYMBOLS = msgpack_bytes("symbols")
_BEST_LINE = msgpack_bytes("is_file_name", b"\xc2", "is_clipped", b"\xc2", "best_line")
_PLACE_BYTES_MAX = _LINE_IS.size + _COLUMN_IS.size + 3 * NUMBER_BYTES_MAX
_CHUNK_BYTES_MAX = (
    sum(each.size + NUMBER_BYTES_MAX for each in (_CONTENT, _START, _RANGES, _SYMBOLS, _BEST_LINE, SCORE, EXPLANATION))
    + _PLACE_BYTES_MAX
)

# The keys of a range.
_RANGE_START = msgpack_bytes(b"\x82", "start", b"\x83", "offset")
_RANGE_END = msgpack_bytes("end", b"\x83", "offset")
_RANGE_BYTES_MAX = _RANGE_START.size + _RANGE_END.size + 2 * _PLACE_BYTES_MAX


@helper
def _run(rows: I64, first: int, last: int) -> tuple[int, int]:
    """The chunk that begins with a match: the index after its last match, and the end of its lines."""
    past, bottom = first + 1, rows[first, BOTTOM]
    # Merged even if they only touch, or overlapping context lines would be shown twice.
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
def _size_max(batch: MatchBatch, table: SymbolTable, kind_bytes_max: int, first: int, last: int) -> int:
    """The maximal encoded size of the chunks of these matches; 0 if they need more care."""
    data, rows = batch.data, batch.rows
    size_max = NUMBER_BYTES_MAX
    for i in range(first, last):
        # A long line is clipped, and a match inside a character has no column: `match/chunk_matches.py` handles both.
        if rows[i, IS_LONG] or is_inside_character(data, np.int64(batch.starts[i])):
            return 0
        if is_inside_character(data, np.int64(batch.ends[i])):
            return 0
        more = symbol_bytes_max(data, np.int64(batch.symbols[i]), table, kind_bytes_max)
        if more == 0:
            return 0
        size_max += more + _RANGE_BYTES_MAX
    while first < last:
        top = rows[first, TOP]
        first, bottom = _run(rows, first, last)
        size_max += _CHUNK_BYTES_MAX + bottom - top
    return size_max


@helper
def _put_place(out: U8, at: int, offset: int, line: int, column: int) -> int:
    at = put_number(out, at, offset)
    at = put(out, at, _LINE_IS)
    at = put_number(out, at, line)
    at = put(out, at, _COLUMN_IS)
    return put_number(out, at, column)


@helper
def _column(data: U8, line_start: int, position: int, counted: I64) -> int:
    """The column of an ascending position. `counted` has the line, position and column of the previous one, so that no
    part of a long line is counted twice."""
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
def _put_range(out: U8, at: int, batch: MatchBatch, base: int, i: int, counted: I64) -> int:
    row, start, end = batch.rows[i], np.int64(batch.starts[i]), np.int64(batch.ends[i])
    column, last_column = row[COLUMN], row[LAST_COLUMN]
    # 0 means that the text before the match is long or not ASCII, so characters are counted here.
    if column == 0:
        column = _column(batch.data, row[LINE_START], start, counted)
        last_column = _column(batch.data, row[LAST_START], end, counted)
    at = put(out, at, _RANGE_START)
    at = _put_place(out, at, start - base, row[LINE], column)
    at = put(out, at, _RANGE_END)
    return _put_place(out, at, end - base, row[LAST_LINE], last_column)


@helper
def _put_symbols(out: U8, at: int, batch: MatchBatch, table: SymbolTable, first: int, past: int) -> int:
    """Writes a symbol for each match, or an empty list if none has one."""
    most = -1
    for i in range(first, past):
        most = max(most, np.int64(batch.symbols[i]))
    if most < 0:
        return put_list(out, at, 0)
    at = put_list(out, at, past - first)
    for i in range(first, past):
        at = put_symbol(out, at, batch.data, np.int64(batch.symbols[i]), table)
    return at


@helper
def _put_lines(out: U8, at: int, batch: MatchBatch, base: int, first: int, bottom: int) -> int:
    """Writes the text of a chunk and its start."""
    data, row = batch.data, batch.rows[first]
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
    out: U8, at: int, batch: MatchBatch, table: SymbolTable, base: int, first: int, past: int, bottom: int, counted: I64
) -> int:
    """Writes the chunk of matches `first` to `past` - 1."""
    at = _put_lines(out, at, batch, base, first, bottom)
    at = put(out, at, _RANGES)
    at = put_list(out, at, past - first)
    for i in range(first, past):
        at = _put_range(out, at, batch, base, i, counted)
    at = put(out, at, _SYMBOLS)
    at = _put_symbols(out, at, batch, table, first, past)
    best = best_of_run(batch, first, past)
    at = put(out, at, _BEST_LINE)
    at = put_number(out, at, batch.rows[best, LINE])
    at = put(out, at, SCORE)
    at = put_number(out, at, np.int64(batch.points[best]))
    return put(out, at, EXPLANATION)


@kernel((MATCH_BATCH, SYMBOL_TABLE))
def encode_chunks(batch: MatchBatch, table: SymbolTable) -> tuple[U8, I64]:
    """Encodes the chunks of each document; returns the bytes, and the start of each document's with the end.

    Writes nothing for a document that is not UTF-8, has a match in an overlong line, or has a match or symbol name that
    begins or ends inside a character.
    """
    documents, kind_bytes_max = batch.documents, longest_kind_bytes(table)
    rooms = np.zeros(documents.size, np.int64)
    for i in range(documents.size):
        if not batch.traits[_U(documents[i])] & np.uint8(INVALID_UTF8):
            rooms[i] = _size_max(batch, table, kind_bytes_max, batch.firsts[i], batch.firsts[i + 1])
    # One allocation for all documents; what is not used stays untouched memory.
    out, edges = np.empty(rooms.sum(), np.uint8), np.zeros(documents.size + 1, np.int64)
    counted = np.empty(3, np.int64)
    at = 0
    for i in range(documents.size):
        if rooms[i]:
            first, last = batch.firsts[i], batch.firsts[i + 1]
            base = np.int64(batch.document_starts[_U(documents[i])])
            # Positions ascend only within a document.
            counted[0] = -1
            at = put_list(out, at, _chunks(batch.rows, first, last))
            while first < last:
                past, bottom = _run(batch.rows, first, last)
                at = _put_chunk(out, at, batch, table, base, first, past, bottom, counted)
                first = past
        edges[i + 1] = at
    return out[:at], edges
