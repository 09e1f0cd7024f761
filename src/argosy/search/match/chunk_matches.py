"""Converts matches of a document to result structs: chunks of lines, or single lines."""

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
class DocumentView:
    """The document of the matches: its text, and functions that return a symbol and explain a score."""

    text: memoryview
    start: int  # of the document; result offsets are relative to it
    symbol_of: SymbolOf
    explain: Explain


def chunks(view: DocumentView, matches: Sequence[Match], options: Options) -> tuple[Chunk, ...]:
    """The matches as chunks of whole lines. An overlong line is a chunk of its own, clipped."""
    columns = Columns(view.text)
    return tuple([_chunk(view, excerpt, columns, options) for excerpt in excerpts(matches)])


def _chunk(view: DocumentView, excerpt: Excerpt, columns: Columns, options: Options) -> Chunk:
    start, end, matches, is_long = excerpt
    text, best, symbols = view.text, matches[0], _NO_SYMBOLS
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


def _range(view: DocumentView, match: Match, columns: Columns) -> Range:
    base = view.start
    if match.column:
        return Range(
            Location(match.start - base, match.line, match.column),
            Location(match.end - base, match.line, match.last_column),
        )
    start = Location(match.start - base, match.line, columns.column(match.line_start, match.start))
    return Range(start, Location(match.end - base, match.last_line, columns.column(match.last_start, match.end)))


def lines(view: DocumentView, matches: Sequence[Match], options: Options) -> tuple[Line, ...]:
    """The matches line by line. No match spans lines."""
    return tuple([_line(view, start, list(group), options) for start, group in groupby(matches, _line_start)])


def _line(view: DocumentView, start: int, matches: list[Match], options: Options) -> Line:
    first, base = matches[0], view.start
    best = first if len(matches) == 1 else max(matches, key=_points)
    end, bytes_max = first.lines_end, options.line_bytes_max
    text = view.text[first.top : first.bottom].tobytes()
    content = text[start - first.top : end - first.top].removesuffix(_NEWLINE)
    before, after = _context(text[: start - first.top]), _context(text[end - first.top :])
    shown, is_clipped = start, False
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


def _symbol(view: DocumentView, match: Match) -> SymbolInfo | None:
    return None if match.symbol < 0 else view.symbol_of(match.symbol)


def _context(text: bytes) -> tuple[bytes, ...]:
    return tuple(text.removesuffix(_NEWLINE).split(_NEWLINE)) if text else ()


def _clip_lines(context: tuple[bytes, ...], bytes_max: int) -> tuple[bytes, ...]:
    """Clips long context lines to their beginning, because they have no match."""
    return tuple(line[slice(*window(line, 0, len(line), 0, bytes_max))] for line in context)


def name_chunk(name: bytes, matches: Sequence[Match], explain: Explain) -> Chunk:
    """A file name as the only chunk of a file. Without matches, all of it is the match. A name is always one line."""
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
