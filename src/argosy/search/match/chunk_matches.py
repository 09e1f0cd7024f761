"""Matches as an answer tells them: chunks of lines, or line by line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from argosy.search.match.excerpts import Columns, Excerpt, Match, characters, excerpts, window
from argosy.search.model import Chunk, Fragment, Line, Location, Options, Range, SymbolInfo

SymbolOf = Callable[[int], SymbolInfo]
Explain = Callable[[Match], str]

_NEWLINE = b"\n"
_NO_SYMBOLS: tuple[SymbolInfo | None, ...] = ()
_line_start = attrgetter("line_start")
_points = attrgetter("points")
_symbol_number = attrgetter("symbol")


@dataclass(frozen=True, slots=True)
class Told:
    """A document as it is told: where in the text it lies, what a symbol's number means, why a match is worth it."""

    text: memoryview
    start: int  # of the document, from which offsets count
    symbol_of: SymbolOf
    explain: Explain


def chunks(told: Told, matches: Sequence[Match], options: Options) -> tuple[Chunk, ...]:
    """The matches of a document as runs of whole lines. An overlong line is a run of its own and clipped."""
    columns = Columns(told.text)
    return tuple([_chunk(told, excerpt, columns, options) for excerpt in excerpts(matches)])


def _chunk(told: Told, excerpt: Excerpt, columns: Columns, options: Options) -> Chunk:
    start, end, matches, is_long = excerpt
    text, best, symbols = told.text, matches[0], _NO_SYMBOLS
    line, line_start, column = best.line, best.line_start, 1
    if is_long:
        start, end = window(text, start, end, best.start, options.line_bytes_max)
    if start < line_start:
        line -= text[start:line_start].tobytes().count(_NEWLINE)
    elif start > line_start:
        column = columns.column(line_start, start)
    if len(matches) > 1:
        best = max(matches, key=_points)
    if max(map(_symbol_number, matches)) >= 0:
        symbols = tuple([_symbol(told, match) for match in matches])
    return Chunk(
        text[start:end].tobytes(),
        Location(start - told.start, line, column),
        tuple([_range(told, match, columns) for match in matches]),
        symbols,
        is_clipped=is_long and (start, end) != (excerpt.start, excerpt.end),
        best_line=best.line,
        score=best.points,
        explanation=told.explain(best),
    )


def _range(told: Told, match: Match, columns: Columns) -> Range:
    base = told.start
    if match.column:
        return Range(
            Location(match.start - base, match.line, match.column),
            Location(match.end - base, match.line, match.last_column),
        )
    start = Location(match.start - base, match.line, columns.column(match.line_start, match.start))
    return Range(start, Location(match.end - base, match.last_line, columns.column(match.last_start, match.end)))


def lines(told: Told, matches: Sequence[Match], options: Options) -> tuple[Line, ...]:
    """The matches of a document line by line. None runs over the end of its line."""
    return tuple([_line(told, start, list(group), options) for start, group in groupby(matches, _line_start)])


def _line(told: Told, start: int, matches: list[Match], options: Options) -> Line:
    first, base = matches[0], told.start
    best = first if len(matches) == 1 else max(matches, key=_points)
    end, bytes_max = first.lines_end, options.line_bytes_max
    text = told.text[first.top : first.bottom].tobytes()
    content = text[start - first.top : end - first.top].removesuffix(_NEWLINE)
    before, after = _context(text[: start - first.top]), _context(text[end - first.top :])
    shown, is_clipped = start, False
    if 0 < bytes_max < len(text):
        before, after = _shortened(before, bytes_max), _shortened(after, bytes_max)
        is_clipped = len(content) > bytes_max
        if is_clipped:
            low, high = window(content, 0, len(content), first.start - start, bytes_max)
            content, shown = content[low:high], start + low
    return Line(
        content,
        shown - base,
        end - base,
        first.line,
        tuple([Fragment(m.start - shown, m.start - base, m.end - m.start, _symbol(told, m)) for m in matches]),
        before,
        after,
        is_clipped=is_clipped,
        score=best.points,
        explanation=told.explain(best),
    )


def _symbol(told: Told, match: Match) -> SymbolInfo | None:
    return None if match.symbol < 0 else told.symbol_of(match.symbol)


def _context(text: bytes) -> tuple[bytes, ...]:
    return tuple(text.removesuffix(_NEWLINE).split(_NEWLINE)) if text else ()


def _shortened(context: tuple[bytes, ...], bytes_max: int) -> tuple[bytes, ...]:
    """There is nothing in these lines to show, so of a long one the first part will do."""
    return tuple(line[slice(*window(line, 0, len(line), 0, bytes_max))] for line in context)


def name_chunk(name: bytes, matches: Sequence[Match], explain: Explain) -> Chunk:
    """A file's name as the one chunk of its answer; without matches, all of it. It is one line, whatever is in it."""
    matches = matches or [Match(0, len(name))]
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


def name_line(name: bytes, matches: Sequence[Match], explain: Explain) -> Line:
    matches = matches or [Match(0, len(name))]
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
