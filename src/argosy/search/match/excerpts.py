"""Excerpts of one document: the lines of matches with their context, and what of an overlong line is shown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple


class Match(NamedTuple):
    """A match and the lines it lies in, as `kernels/places.py` tells them; positions are those of the text.

    `symbol` is the place of the symbol it overlaps among the segment's, or -1.
    """

    start: int
    end: int
    points: float = 0.0
    symbol: int = -1
    line: int = 1  # the number of the line it begins in
    line_start: int = 0
    last_line: int = 1  # and of the one it ends in
    last_start: int = 0
    lines_end: int = 0  # past the newline of the last line it has a byte in
    top: int = 0  # its lines with their context
    bottom: int = 0
    is_long: int = 0  # one of its lines is longer than is shown
    column: int = 0  # of its beginning and its end; 0 is not known yet
    last_column: int = 0


# From a row of its numbers, as the kernels tell them. There are a thousand to an answer, and this way is the quickest.
match_of: Callable[[Iterable[int]], Match] = partial(tuple.__new__, Match)


class Excerpt(NamedTuple):
    """Whole lines of a document and the matches in them; if one is overlong, it stands alone."""

    start: int
    end: int
    matches: Sequence[Match]
    is_long: bool = False


def excerpts(matches: Sequence[Match]) -> Iterator[Excerpt]:
    """The lines of the matches with their context; excerpts that meet are one, except with an overlong line."""
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
    """At most so many bytes of text[start:end], whole characters, with the focus in the second quarter."""
    start = max(start, focus - bytes_max // 4)
    while start < focus and _is_inside_character(text, start):
        start += 1
    end = min(end, start + bytes_max)
    while end > focus and _is_inside_character(text, end):
        end -= 1
    return start, end


class Columns:
    """Tells the columns of positions that only ascend, so that no part of a long line is counted twice."""

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
    """How many characters these are; a byte that is part of none counts as one."""
    return len(text) if text.isascii() else len(text.decode("utf-8", "surrogateescape"))


def _is_inside_character(text: memoryview | bytes, at: int) -> bool:
    return at < len(text) and text[at] & 0xC0 == 0x80
