"""Excerpts of a document: the lines of matches with context, and the shown part of overlong lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple


class Match(NamedTuple):
    """A match and its lines, as computed by `kernels/line_numbers.py`; positions are offsets in the segment's text.

    `symbol` is the number of the symbol it overlaps, or -1.
    """

    start: int
    end: int
    points: float = 0.0
    symbol: int = -1
    line: int = 1  # number of its first line
    line_start: int = 0
    last_line: int = 1  # number of its last line
    last_start: int = 0
    lines_end: int = 0  # end of its last line, after the newline
    top: int = 0  # its lines with context
    bottom: int = 0
    is_long: int = 0  # one of its lines is too long to show whole
    column: int = 0  # of its start and end; 0 if not computed
    last_column: int = 0


# Builds a match from a kernel's row. A result has a thousand matches, and this is the fastest way.
match_of: Callable[[Iterable[int]], Match] = partial(tuple.__new__, Match)


class Excerpt(NamedTuple):
    """Whole lines of a document and their matches; an overlong line is an excerpt of its own."""

    start: int
    end: int
    matches: Sequence[Match]
    is_long: bool = False


def excerpts(matches: Sequence[Match]) -> Iterator[Excerpt]:
    """The excerpts of the matches; adjacent ones are merged, except with an overlong line."""
    start = end = is_long = 0
    inside: list[Match] = []
    for match in matches:
        top, bottom, is_own_long = match.top, match.bottom, match.is_long
        if inside and (top < end or (top == end and not (is_long or is_own_long))):
            inside.append(match)
            end = max(end, bottom)
            is_long = is_long or is_own_long
        else:
            if inside:
                yield Excerpt(start, end, inside, bool(is_long))
            start, end, is_long, inside = top, bottom, is_own_long, [match]
    if inside:
        yield Excerpt(start, end, inside, bool(is_long))


def window(text: memoryview | bytes, start: int, end: int, focus: int, bytes_max: int) -> tuple[int, int]:
    """A range of at most `bytes_max` bytes of text[start:end], whole characters, with the focus in its second
    quarter."""
    start = max(start, focus - bytes_max // 4)
    while start < focus and _is_inside_character(text, start):
        start += 1
    end = min(end, start + bytes_max)
    while end > focus and _is_inside_character(text, end):
        end -= 1
    return start, end


class Columns:
    """Computes the columns of ascending positions, so that no part of a long line is counted twice."""

    def __init__(self, text: memoryview) -> None:
        self._text = text
        self._line_start = self._at = -1
        self._column = 1

    def column(self, line_start: int, position: int) -> int:
        text, at = self._text, self._at
        if line_start != self._line_start or _is_inside_character(text, at):
            self._line_start, at, self._column = line_start, line_start, 1
        if position != at:
            passed = text[at:position].tobytes()
            self._column += len(passed) if passed.isascii() else characters(passed)
            self._at = position
        else:
            self._at = at
        return self._column


def characters(text: bytes) -> int:
    """The number of characters; an invalid byte counts as one."""
    return len(text) if text.isascii() else len(text.decode("utf-8", "surrogateescape"))


def _is_inside_character(text: memoryview | bytes, at: int) -> bool:
    return at < len(text) and text[at] & 0xC0 == 0x80
