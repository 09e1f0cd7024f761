"""Extracts the lines around positions, as input for a regular expression.

A line ends at a newline or at the NUL after its document, so no line extends into the next document.
"""

import numba
import numpy as np

from argosy.search.arrays import I64, U8, U32
from argosy.search.kernels.compiler import BYTES, helper, kernel

_U = np.uintp
_NEWLINE = np.uint8(10)
_POSITIONS = numba.types.Array(numba.uint32, 1, "C", readonly=True)

# The separator between pieces: `.` does not match the newline, and whitespace classes do not match the NUL.
SEPARATOR = b"\n\0\n"


@helper
def _line_start(data: U8, at: int) -> int:
    while at > 0 and data[_U(at - 1)] != 10 and data[_U(at - 1)] != 0:
        at -= 1
    return at


@helper
def _line_end(data: U8, at: int) -> int:
    """The position of the line's newline or NUL."""
    while at < data.size and data[_U(at)] != 10 and data[_U(at)] != 0:
        at += 1
    return at


# Blank lines are free, because `\s*` crosses any number of them between two non-blank lines (decision 0013).
@helper
def _is_blank(data: U8, start: int, end: int) -> bool:
    for i in range(start, end):
        byte = data[_U(i)]
        if byte != 32 and not 9 <= byte <= 13:
            return False
    return True


@helper
def _reach_up(data: U8, start: int, reach: int) -> int:
    """The start of the line `reach` non-blank lines above; blank lines do not count."""
    left = reach
    while start > 0 and data[_U(start - 1)] == 10:
        above = _line_start(data, start - 1)
        if not _is_blank(data, above, start - 1):
            if left == 0:
                break
            left -= 1
        start = above
    return start


@helper
def _reach_down(data: U8, end: int, reach: int) -> int:
    left = reach
    while end < data.size and data[_U(end)] == 10:
        below = _line_end(data, end + 1)
        if not _is_blank(data, end + 1, below):
            if left == 0:
                break
            left -= 1
        end = below
    return end


@kernel((BYTES, _POSITIONS, numba.int64))
def lines_around(data: U8, positions: U32, reach: int) -> tuple[U32, U32]:
    """The lines of these ascending positions, with `reach` more above and below, overlaps merged.

    Returns (starts, ends); the newline that ends a line is not part of it.
    """
    starts = np.empty(positions.size, np.uint32)
    ends = np.empty(positions.size, np.uint32)
    count = 0
    # The end of the last line that contains a position: a line of megabytes with a thousand positions is read once.
    covered = np.int64(-1)
    for i in range(positions.size):
        at = np.int64(positions[i])
        if at <= covered:
            continue
        start = _line_start(data, at)
        end = _line_end(data, at)
        covered = end
        if reach:
            start = _reach_up(data, start, reach)
            end = _reach_down(data, end, reach)
        if count and start <= ends[count - 1]:
            ends[count - 1] = max(np.uint32(end), ends[count - 1])
        else:
            starts[count] = start
            ends[count] = end
            count += 1
    return starts[:count].copy(), ends[:count].copy()


@kernel((BYTES, _POSITIONS, _POSITIONS))
def gather(data: U8, starts: U32, ends: U32) -> tuple[U8, I64]:
    """Concatenates the pieces, each followed by the separator; returns (bytes, start of each piece)."""
    begins = np.empty(starts.size, np.int64)
    total = 0
    for i in range(starts.size):
        begins[i] = total
        total += np.int64(ends[i]) - np.int64(starts[i]) + 3
    out = np.empty(total, np.uint8)
    for i in range(starts.size):
        size = np.int64(ends[i]) - np.int64(starts[i])
        at = begins[i]
        out[at : at + size] = data[np.int64(starts[i]) : np.int64(ends[i])]
        out[at + size] = _NEWLINE
        out[at + size + 1] = np.uint8(0)
        out[at + size + 2] = _NEWLINE
    return out, begins
