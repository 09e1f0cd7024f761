"""Line numbers and columns for the matches of many documents, in one pass over the text between them.

Line numbers are counted from the nearest block start, whose number is stored: a table of all line starts would take an
eighth of the text in memory. Each line is read once, however many matches it has, because a file can be a single line
of megabytes.
"""

import numba
import numpy as np

from argosy.search.arrays import I64, U8, U32
from argosy.search.kernels.compiler import BYTES, WORDS, helper, kernel

_U = np.uintp
_NEWLINE = 10
_FIRSTS = numba.types.Array(numba.int64, 1, "C", readonly=True)

# Columns of the result of `places`.
LINE, LINE_START, LAST_LINE, LAST_START, END, TOP, BOTTOM, IS_LONG, COLUMN, LAST_COLUMN = range(10)
COLUMNS = 10

LEAP_BYTES = 1024  # a block lookup costs as much as counting the newlines of so many bytes
NEAR_BYTES = 512  # only so close to the line start are the bytes before a match checked for ASCII


@helper
def _line_end(data: U8, at: int, end: int) -> int:
    """The position after the newline of the line at `at`, or the end of the document."""
    while at < end and data[_U(at)] != _NEWLINE:
        at += 1
    return min(at + 1, end)


@helper
def _line_start(data: U8, at: int, start: int) -> int:
    while at > start and data[_U(at - 1)] != _NEWLINE:
        at -= 1
    return at


@helper
def _newlines(data: U8, at: int, end: int) -> int:
    count = 0
    while at + 128 <= end:
        few = np.uint8(0)  # uint8, so that LLVM vectorizes the loop; 128 bytes cannot overflow it
        for i in range(128):
            few += np.uint8(data[_U(at) + _U(i)] == _NEWLINE)
        count += np.int64(few)
        at += 128
    while at < end:
        count += np.int64(data[_U(at)] == _NEWLINE)
        at += 1
    return count


@helper
def _is_long(data: U8, start: int, end: int, bytes_max: int) -> bool:
    """Whether a line without its newline is longer than the bound; 0 means no bound."""
    size = end - start
    if size > 0 and data[_U(end - 1)] == _NEWLINE:
        size -= 1
    return 0 < bytes_max < size


@helper
def _block_of(block_starts: U32, at: int) -> int:
    low, high = 0, block_starts.size - 1
    while low + 1 < high:
        middle = (low + high) >> 1
        if np.int64(block_starts[_U(middle)]) <= at:
            low = middle
        else:
            high = middle
    return low


@helper
def _above(data: U8, start: int, document: int, lines: int, bytes_max: int) -> int:
    """The start of up to so many lines above, but not beyond a line that is too long to show."""
    for _ in range(lines):
        if start == document:
            break
        above = _line_start(data, start - 1, document)
        # A minified line as context would hide the match.
        if _is_long(data, above, start, bytes_max):
            break
        start = above
    return start


@helper
def _below(data: U8, at: int, end: int, lines: int, bytes_max: int) -> int:
    for _ in range(lines):
        if at == end:
            break
        below = _line_end(data, at, end)
        if _is_long(data, at, below, bytes_max):
            break
        at = below
    return at


@helper
def _is_plain(data: U8, at: int, end: int) -> bool:
    """Whether these bytes are few and all ASCII."""
    if end - at > NEAR_BYTES:
        return False
    bits = np.uint8(0)
    while at < end:
        bits |= data[_U(at)]
        at += 1
    return bits < 128


@helper
def _place(
    data: U8,
    start: int,
    end: int,
    block_starts: U32,
    block_lines: U32,
    starts: U32,
    ends: U32,
    first: int,
    last: int,
    context: int,
    bytes_max: int,
    rows: I64,
) -> None:
    """Writes the rows of matches `first` to `last`, all in the document data[start:end]."""
    at, line, begin = start, 1, start  # a position, its line number, the start of that line
    edge = start  # the end of the last line read to its end
    for i in range(first, last):
        for column, position in ((LINE, np.int64(starts[i])), (LAST_LINE, np.int64(ends[i]))):
            block, leap = 0, at
            if position - at > LEAP_BYTES:
                block = _block_of(block_starts, position)
                leap = np.int64(block_starts[_U(block)])
            if leap > at:
                above = _line_start(data, leap, at)
                begin = above if above > at else begin  # a block can begin inside a line already read
                at, line = leap, np.int64(block_lines[_U(block)]) + 1
            newlines = _newlines(data, at, position)
            if newlines:
                line += newlines
                begin = _line_start(data, position, at)
            at = position
            rows[i, column] = line
            rows[i, column + 1] = begin
        top = rows[i, LINE_START]
        final = max(np.int64(ends[i]) - 1, np.int64(starts[i]))
        if edge <= final:
            edge = _line_end(data, final, end)
        rows[i, END] = edge
        is_long = False
        here = top
        while here < edge and not is_long:
            below = edge if here >= begin else _line_end(data, here, end)
            is_long = _is_long(data, here, below, bytes_max)
            here = below
        rows[i, IS_LONG] = is_long
        if i > first and rows[i - 1, LINE_START] == top and rows[i - 1, END] == edge:
            rows[i, TOP], rows[i, BOTTOM] = rows[i - 1, TOP], rows[i - 1, BOTTOM]
        elif is_long:
            rows[i, TOP], rows[i, BOTTOM] = top, edge
        else:
            rows[i, TOP] = _above(data, top, start, context, bytes_max)
            rows[i, BOTTOM] = _below(data, edge, end, context, bytes_max)
        is_plain = rows[i, LAST_START] == top and _is_plain(data, top, np.int64(ends[i]))
        rows[i, COLUMN] = np.int64(starts[i]) - top + 1 if is_plain else 0
        rows[i, LAST_COLUMN] = np.int64(ends[i]) - top + 1 if is_plain else 0


@kernel((BYTES, numba.int64, numba.int64, WORDS, WORDS, WORDS, WORDS, numba.int64, numba.int64))
def places(
    data: U8,
    start: int,
    end: int,
    block_starts: U32,
    block_lines: U32,
    starts: U32,
    ends: U32,
    context: int,
    bytes_max: int,
) -> I64:
    """A row for each of these ascending matches in the document data[start:end].

    LINE and LINE_START describe the line in which the match begins, LAST_LINE and LAST_START the line in which it ends;
    END is the position after the newline of its last line. TOP and BOTTOM bound these lines with their context. IS_LONG
    means that one of its lines is longer than `bytes_max`; it then has no context. COLUMN and LAST_COLUMN are set if
    the match lies in one line and the text before it is short and ASCII, else 0. Positions are offsets in the data;
    lines and columns count from 1.
    """
    rows = np.empty((starts.size, COLUMNS), np.int64)
    _place(data, start, end, block_starts, block_lines, starts, ends, 0, starts.size, context, bytes_max, rows)
    return rows


@kernel((BYTES, WORDS, WORDS, WORDS, WORDS, _FIRSTS, WORDS, WORDS, numba.int64, numba.int64))
def places_in_documents(
    data: U8,
    document_starts: U32,
    block_starts: U32,
    block_lines: U32,
    documents: U32,
    firsts: I64,
    starts: U32,
    ends: U32,
    context: int,
    bytes_max: int,
) -> I64:
    """`places` for several documents; `firsts` has the index of each document's first match, and the total."""
    rows = np.empty((starts.size, COLUMNS), np.int64)
    for i in range(documents.size):
        document = _U(documents[i])
        start, end = np.int64(document_starts[document]), np.int64(document_starts[document + _U(1)]) - 1
        _place(
            data,
            start,
            end,
            block_starts,
            block_lines,
            starts,
            ends,
            firsts[i],
            firsts[i + 1],
            context,
            bytes_max,
            rows,
        )
    return rows
