"""Excerpts of one document: where a byte is in lines and columns, and the lines around matches."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from argosy.search.model import Location

_NEWLINE = b"\n"


class Match(NamedTuple):
    """A match in a document; `symbol` is the place of the symbol it overlaps among the segment's, or -1."""

    start: int
    end: int
    points: float = 0.0
    symbol: int = -1


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Whole lines of a document and the matches in them."""

    start: int
    end: int
    matches: tuple[Match, ...]


class Cursor:
    """Tells line and column of positions that only ascend.

    Marks are positions with a known number of newlines before them, so that what lies between need not be counted.
    """

    def __init__(self, text: bytes, marks: Sequence[int] = (), newlines: Sequence[int] = ()) -> None:
        self._text = text
        self._marks = marks
        self._newlines = newlines
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._column = 1

    def locate(self, position: int) -> Location:
        self._leap(position)
        text, at = self._text, self._at
        newlines = text.count(_NEWLINE, at, position)
        if newlines:
            self._line += newlines
            self._line_start = text.rfind(_NEWLINE, at, position) + 1
        if newlines or _is_inside_character(text, at):
            self._column = 1 + characters(text[self._line_start : position])
        else:
            self._column += characters(text[at:position])
        self._at = position
        return Location(position, self._line, self._column)

    def _leap(self, position: int) -> None:
        """Goes to the last mark before the position, if that is ahead."""
        place = bisect_right(self._marks, position) - 1
        mark = self._marks[place] if place >= 0 else 0
        if mark > self._at and self._text.startswith(_NEWLINE, mark - 1):      # a block may begin inside a long line
            self._at = self._line_start = mark
            self._line = self._newlines[place] + 1
            self._column = 1


def characters(text: bytes) -> int:
    """How many characters these are; a byte that is part of none counts as one."""
    return len(text) if text.isascii() else len(text.decode("utf-8", "surrogateescape"))


def _is_inside_character(text: bytes, at: int) -> bool:
    return at < len(text) and text[at] & 0xC0 == 0x80


def line_start(text: bytes, position: int) -> int:
    return text.rfind(_NEWLINE, 0, position) + 1


def line_end(text: bytes, position: int) -> int:
    """Past the newline that ends the line, or the end of the text."""
    end = text.find(_NEWLINE, position)
    return len(text) if end < 0 else end + 1


def excerpts(text: bytes, matches: Sequence[Match], *, context_lines: int) -> Iterator[Excerpt]:
    """The lines of the matches with their context; excerpts that meet are one."""
    start = end = -1
    inside: list[Match] = []
    for match in matches:
        first = _up(text, line_start(text, match.start), context_lines)
        last = _down(text, line_end(text, max(match.end - 1, match.start)), context_lines)
        if inside and first <= end:
            end = max(end, last)
        else:
            if inside:
                yield Excerpt(start, end, tuple(inside))
            start, end, inside = first, last, []
        inside.append(match)
    if inside:
        yield Excerpt(start, end, tuple(inside))


def _up(text: bytes, start: int, lines: int) -> int:
    for _ in range(lines):
        if start == 0:
            break
        start = line_start(text, start - 1)
    return start


def _down(text: bytes, end: int, lines: int) -> int:
    for _ in range(lines):
        if end >= len(text):
            break
        end = line_end(text, end)
    return end


def clipped(text: bytes, excerpt: Excerpt, bytes_max: int) -> tuple[int, int]:
    """The part of the excerpt that is shown: all of it, or if a line is too long, some of it around the first match."""
    start, end = excerpt.start, excerpt.end
    if bytes_max == 0 or end - start <= bytes_max or _longest_line(text, start, end) <= bytes_max:
        return start, end
    return window(text, start, end, excerpt.matches[0], bytes_max)


def window(text: bytes, start: int, end: int, match: Match, bytes_max: int) -> tuple[int, int]:
    """At most so many bytes of text[start:end], whole characters, with the match in the second quarter."""
    start = max(start, match.start - bytes_max // 4)
    while start < match.start and _is_inside_character(text, start):
        start += 1
    end = min(end, start + bytes_max)
    while end > match.start and _is_inside_character(text, end):
        end -= 1
    return start, end


def _longest_line(text: bytes, start: int, end: int) -> int:
    longest = 0
    while start < end:
        following = line_end(text, start)
        longest = max(longest, following - start)
        start = following
    return longest
