"""Matches as an answer tells them: chunks of lines, or line by line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from argosy.search.match.excerpts import Columns, Excerpt, Match, characters, excerpts, window
from argosy.search.model import Chunk, Fragment, Line, Location, Options, Range, SymbolInfo

SymbolOf = Callable[[int], SymbolInfo]
Explain = Callable[[Match], str]

NEAR_BYTES = 512                # so close to the line's beginning, to look at all before the match is the quickest

_NEWLINE = b"\n"
_line_start = attrgetter("line_start")
_points = attrgetter("points")


@dataclass(frozen=True, slots=True)
class Told:
    """A document as it is told: where in the text it lies, what a symbol's number means, why a match is worth it."""

    text: memoryview
    start: int                          # of the document, from which offsets count
    symbol_of: SymbolOf
    explain: Explain


def chunks(told: Told, matches: Sequence[Match], options: Options) -> tuple[Chunk, ...]:
    """The matches of a document as runs of whole lines. An overlong line is a run of its own and clipped."""
    columns = Columns(told.text)
    return tuple(_chunk(told, excerpt, columns, options) for excerpt in excerpts(matches))


def _chunk(told: Told, excerpt: Excerpt, columns: Columns, options: Options) -> Chunk:
    start, end, first = excerpt.start, excerpt.end, excerpt.matches[0]
    if excerpt.is_long:
        start, end = window(told.text, start, end, first.start, options.line_bytes_max)
    if start == first.line_start:
        begin = Location(start - told.start, first.line, 1)
    elif start < first.line_start:
        begin = Location(start - told.start, first.line - bytes(told.text[start : first.line_start]).count(_NEWLINE), 1)
    else:
        begin = Location(start - told.start, first.line, columns.column(first.line_start, start))
    matches = excerpt.matches
    ranges = tuple([_range(told, match, columns) for match in matches])
    symbols = tuple([_symbol(told, match) for match in matches])
    best = first if len(matches) == 1 else max(matches, key=_points)
    return Chunk(
        content=bytes(told.text[start:end]),
        start=begin,
        ranges=ranges,
        symbols=symbols if any(symbols) else (),
        is_clipped=(start, end) != (excerpt.start, excerpt.end),
        best_line=best.line,
        score=best.points,
        explanation=told.explain(best),
    )


def _range(told: Told, match: Match, columns: Columns) -> Range:
    line_start, base = match.line_start, told.start
    is_near = match.last_start == line_start and match.end - line_start <= NEAR_BYTES
    if is_near and told.text[line_start : match.end].tobytes().isascii():
        return Range(
            Location(match.start - base, match.line, match.start - line_start + 1),
            Location(match.end - base, match.line, match.end - line_start + 1),
        )
    start = Location(match.start - told.start, match.line, columns.column(match.line_start, match.start))
    return Range(start, Location(match.end - told.start, match.last_line, columns.column(match.last_start, match.end)))


def lines(told: Told, matches: Sequence[Match], options: Options) -> tuple[Line, ...]:
    """The matches of a document line by line. None runs over the end of its line."""
    return tuple(_line(told, start, list(group), options) for start, group in groupby(matches, _line_start))


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
