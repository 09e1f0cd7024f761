"""Matches as an answer tells them: chunks of lines, or line by line."""

from collections.abc import Callable, Iterator, Sequence

from argosy.search.match.excerpts import Cursor, Match, characters, clipped, excerpts, line_end, line_start, window
from argosy.search.model import Chunk, Fragment, Line, Location, Options, Range, SymbolInfo

SymbolOf = Callable[[int], SymbolInfo | None]


def chunks(
    text: bytes, cursor: Cursor, matches: Sequence[Match], symbol_of: SymbolOf, options: Options
) -> tuple[Chunk, ...]:
    """The matches of a document as runs of whole lines. A run with an overlong line is clipped to a part of it."""
    found = []
    for excerpt in excerpts(text, matches, context_lines=options.context_lines):
        start, end = clipped(text, excerpt, options.line_bytes_max)
        begin = cursor.locate(start)
        ranges = tuple(Range(cursor.locate(match.start), cursor.locate(match.end)) for match in excerpt.matches)
        symbols = tuple(symbol_of(match.symbol) for match in excerpt.matches)
        best = max(range(len(ranges)), key=lambda i: excerpt.matches[i].points)
        found.append(
            Chunk(
                content=text[start:end],
                start=begin,
                ranges=ranges,
                symbols=symbols if any(symbols) else (),
                is_clipped=(start, end) != (excerpt.start, excerpt.end),
                best_line=ranges[best].start.line,
                score=excerpt.matches[best].points,
            )
        )
    return tuple(found)


def lines(
    text: bytes, cursor: Cursor, matches: Sequence[Match], symbol_of: SymbolOf, options: Options
) -> tuple[Line, ...]:
    """The matches of a document line by line; one that runs over several lines is a fragment in each."""
    found = []
    for start, pieces in _by_line(text, matches):
        number = cursor.locate(start).line
        end = line_end(text, start)
        shown, shown_end = start, end - 1 if text.endswith(b"\n", start, end) else end
        is_clipped = 0 < options.line_bytes_max < shown_end - start
        if is_clipped:
            shown, shown_end = window(text, start, shown_end, pieces[0], options.line_bytes_max)
        fragments = tuple(
            Fragment(piece.start - shown, piece.start, piece.end - piece.start, symbol_of(piece.symbol))
            for piece in pieces
        )
        found.append(
            Line(
                content=text[shown:shown_end],
                start=shown,
                end=end,
                number=number,
                fragments=fragments,
                before=tuple(_before(text, start, options)),
                after=tuple(_after(text, end, options)),
                is_clipped=is_clipped,
                score=max(piece.points for piece in pieces),
            )
        )
    return tuple(found)


def name_chunk(name: bytes, matches: Sequence[Match]) -> Chunk:
    """A file's name as the one chunk of its answer; without matches, all of it. It is one line, whatever is in it."""
    matches = matches or [Match(0, len(name))]
    ranges = tuple(Range(_in_name(name, match.start), _in_name(name, match.end)) for match in matches)
    best = max(match.points for match in matches)
    return Chunk(content=name, start=Location(0, 1, 1), ranges=ranges, is_file_name=True, best_line=1, score=best)


def _in_name(name: bytes, offset: int) -> Location:
    return Location(offset, 1, 1 + characters(name[:offset]))


def name_line(name: bytes, matches: Sequence[Match]) -> Line:
    matches = matches or [Match(0, len(name))]
    fragments = tuple(Fragment(match.start, match.start, match.end - match.start) for match in matches)
    best = max(match.points for match in matches)
    return Line(content=name, start=0, end=len(name), number=0, fragments=fragments, is_file_name=True, score=best)


def _by_line(text: bytes, matches: Sequence[Match]) -> Iterator[tuple[int, list[Match]]]:
    """The start of each line with matches, and the pieces of matches in it."""
    at, pieces = -1, list[Match]()
    for match in matches:
        for start, piece in _split(text, match):
            if start != at and pieces:
                yield at, pieces
                pieces = []
            at = start
            pieces.append(piece)
    if pieces:
        yield at, pieces


def _split(text: bytes, match: Match) -> Iterator[tuple[int, Match]]:
    start = match.start
    while True:
        end = line_end(text, start)
        newline = end - 1 if text[end - 1 : end] == b"\n" else end
        if match.start == start and match.end <= newline:
            if match.end > start:
                yield line_start(text, start), match        # nearly always
            return
        piece = Match(start, min(match.end, newline), match.points, match.symbol)
        if piece.end > piece.start:
            yield line_start(text, start), piece
        if match.end <= end:
            return
        start = end


def _before(text: bytes, start: int, options: Options) -> list[bytes]:
    found: list[bytes] = []
    while start > 0 and len(found) < options.context_lines:
        above = line_start(text, start - 1)
        found.insert(0, _beginning(text[above : start - 1], options))
        start = above
    return found


def _after(text: bytes, end: int, options: Options) -> list[bytes]:
    found: list[bytes] = []
    while end < len(text) and len(found) < options.context_lines:
        below = line_end(text, end)
        found.append(_beginning(text[end:below].removesuffix(b"\n"), options))
        end = below
    return found


def _beginning(line: bytes, options: Options) -> bytes:
    """A line of context: there is nothing in it to show, so the first part will do."""
    if not 0 < options.line_bytes_max < len(line):
        return line
    return line[slice(*window(line, 0, len(line), Match(0, 0), options.line_bytes_max))]
