"""Converts matches of a document to result structs: chunks of lines, or single lines.

Kernels encode most documents (`kernels/encode_chunks.py`); this is the way for those that need more care: overlong
lines, text that is not UTF-8, boosted or explained scores.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from argosy.search.model import Chunk, Fragment, Line, Location, Options, Range, SymbolInfo


class LocatedMatch(NamedTuple):
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
match_of: Callable[[Iterable[int]], LocatedMatch] = partial(tuple.__new__, LocatedMatch)


class Excerpt(NamedTuple):
    """Whole lines of a document and their matches; an overlong line is an excerpt of its own."""

    start: int
    end: int
    matches: Sequence[LocatedMatch]
    is_long: bool = False


def excerpts(matches: Sequence[LocatedMatch]) -> Iterator[Excerpt]:
    """The excerpts of the matches; adjacent ones are merged, except with an overlong line."""
    start = end = is_long = 0
    inside: list[LocatedMatch] = []
    for match in matches:
        top, bottom, is_own_long = match.top, match.bottom, match.is_long
        # A long line is not merged with a neighbour that only touches it: clipping it would clip the neighbour.
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
    # What follows a match usually explains more than what precedes it.
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
        # A position inside a character has no column to continue from, so the line is counted from its start again.
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


SymbolOf = Callable[[int], SymbolInfo]
Explain = Callable[[LocatedMatch], str]

_NEWLINE = b"\n"
_NO_SYMBOLS: tuple[SymbolInfo | None, ...] = ()
_line_start = attrgetter("line_start")
_points = attrgetter("points")
_symbol_number = attrgetter("symbol")


@dataclass(frozen=True, slots=True)
class DocumentView:
    """The document of the matches: its text, and functions that return a symbol and explain a score."""

    text: memoryview
    start: int  # of the document; result offsets are relative to it
    symbol_of: SymbolOf
    explain: Explain


def chunks(view: DocumentView, matches: Sequence[LocatedMatch], options: Options) -> tuple[Chunk, ...]:
    """The matches as chunks of whole lines. An overlong line is a chunk of its own, clipped."""
    columns = Columns(view.text)
    return tuple([_chunk(view, excerpt, columns, options) for excerpt in excerpts(matches)])


def _chunk(view: DocumentView, excerpt: Excerpt, columns: Columns, options: Options) -> Chunk:
    start, end, matches, is_long = excerpt
    text, best, symbols = view.text, matches[0], _NO_SYMBOLS
    line, line_start, column = best.line, best.line_start, 1
    if is_long:
        start, end = window(text, start, end, best.start, options.line_bytes_max)
    # `start` is above by the context lines, or within the line if it was clipped.
    if start < line_start:
        line -= text[start:line_start].tobytes().count(_NEWLINE)
    elif start > line_start:
        column = columns.column(line_start, start)
    if len(matches) > 1:
        best = max(matches, key=_points)
    # An empty tuple stands for no symbols at all, which is the common case and smaller to send.
    if max(map(_symbol_number, matches)) >= 0:
        symbols = tuple([_symbol(view, match) for match in matches])
    return Chunk(
        text[start:end].tobytes(),
        Location(start - view.start, line, column),
        tuple([_range(view, match, columns) for match in matches]),
        symbols,
        is_clipped=is_long and (start, end) != (excerpt.start, excerpt.end),
        best_line=best.line,
        score=best.points,
        explanation=view.explain(best),
    )


def _range(view: DocumentView, match: LocatedMatch, columns: Columns) -> Range:
    base = view.start
    # Computed by the kernel, for short ASCII lines.
    if match.column:
        return Range(
            Location(match.start - base, match.line, match.column),
            Location(match.end - base, match.line, match.last_column),
        )
    start = Location(match.start - base, match.line, columns.column(match.line_start, match.start))
    return Range(start, Location(match.end - base, match.last_line, columns.column(match.last_start, match.end)))


def lines(view: DocumentView, matches: Sequence[LocatedMatch], options: Options) -> tuple[Line, ...]:
    """The matches line by line. No match spans lines."""
    return tuple([_line(view, start, list(group), options) for start, group in groupby(matches, _line_start)])


def _line(view: DocumentView, start: int, matches: list[LocatedMatch], options: Options) -> Line:
    first, base = matches[0], view.start
    best = first if len(matches) == 1 else max(matches, key=_points)
    end, bytes_max = first.lines_end, options.line_bytes_max
    text = view.text[first.top : first.bottom].tobytes()
    content = text[start - first.top : end - first.top].removesuffix(_NEWLINE)
    before, after = _context(text[: start - first.top]), _context(text[end - first.top :])
    shown, is_clipped = start, False
    # No line can exceed the bound unless all of them together do.
    if 0 < bytes_max < len(text):
        before, after = _clip_lines(before, bytes_max), _clip_lines(after, bytes_max)
        is_clipped = len(content) > bytes_max
        if is_clipped:
            low, high = window(content, 0, len(content), first.start - start, bytes_max)
            content, shown = content[low:high], start + low
    return Line(
        content,
        shown - base,
        end - base,
        first.line,
        tuple([Fragment(m.start - shown, m.start - base, m.end - m.start, _symbol(view, m)) for m in matches]),
        before,
        after,
        is_clipped=is_clipped,
        score=best.points,
        explanation=view.explain(best),
    )


def _symbol(view: DocumentView, match: LocatedMatch) -> SymbolInfo | None:
    return None if match.symbol < 0 else view.symbol_of(match.symbol)


def _context(text: bytes) -> tuple[bytes, ...]:
    return tuple(text.removesuffix(_NEWLINE).split(_NEWLINE)) if text else ()


def _clip_lines(context: tuple[bytes, ...], bytes_max: int) -> tuple[bytes, ...]:
    """Clips long context lines to their beginning, because they have no match."""
    return tuple(line[slice(*window(line, 0, len(line), 0, bytes_max))] for line in context)


def name_chunk(name: bytes, matches: Sequence[LocatedMatch], explain: Explain) -> Chunk:
    """A file name as the only chunk of a file. Without matches, all of it is the match. A name is always one line."""
    matches = matches or [LocatedMatch(0, len(name))]
    best = max(matches, key=_points)
    return Chunk(
        content=name,
        start=Location(0, 1, 1),
        ranges=tuple(Range(_in_name(name, match.start), _in_name(name, match.end)) for match in matches),
        is_file_name=True,
        best_line=1,
        score=best.points,
        explanation=explain(best),
    )


def _in_name(name: bytes, offset: int) -> Location:
    return Location(offset, 1, 1 + characters(name[:offset]))


def name_line(name: bytes, matches: Sequence[LocatedMatch], explain: Explain) -> Line:
    matches = matches or [LocatedMatch(0, len(name))]
    best = max(matches, key=_points)
    return Line(
        content=name,
        start=0,
        end=len(name),
        number=0,
        fragments=tuple(Fragment(match.start, match.start, match.end - match.start) for match in matches),
        is_file_name=True,
        score=best.points,
        explanation=explain(best),
    )
