"""The form of matches, recomputed from the whole text: locations, chunks of whole lines, and single lines."""

from collections.abc import Sequence

from argosy.search.model import Chunk, Fragment, Line, Location, Range
from tests.search.oracle.naive import Span


def location(text: bytes, offset: int) -> Location:
    """Line and column count from one; a byte that is no part of a character is a character of its own."""
    line_start = text.rfind(b"\n", 0, offset) + 1
    before = text[line_start:offset].decode("utf-8", "surrogateescape")
    return Location(offset, text.count(b"\n", 0, offset) + 1, len(before) + 1)


def lines_of(text: bytes) -> list[tuple[int, int]]:
    """Where each line begins and ends, its newline included; what follows the last newline is a line unless empty."""
    starts = [0] + [position + 1 for position, byte in enumerate(text) if byte == 10]
    ends = [*starts[1:], len(text)]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def line_number(text: bytes, offset: int) -> int:
    """From zero: the line the byte at this offset is in; a newline belongs to the line it ends."""
    return text.count(b"\n", 0, offset)


def chunks(text: bytes, spans: Sequence[Span], context_lines: int) -> list[Chunk]:
    """Matches with their lines and the context around them; what would share a line or leave none between is one."""
    lines = lines_of(text)
    groups: list[tuple[int, int, list[Span]]] = []
    for span in spans:
        first = max(0, line_number(text, span.start) - context_lines)
        last = min(len(lines) - 1, line_number(text, span.end - 1) + context_lines)
        if groups and groups[-1][1] + 1 >= first:
            known_first, known_last, known = groups[-1]
            groups[-1] = known_first, max(known_last, last), [*known, span]
        else:
            groups.append((first, last, [span]))
    return [chunk(text, lines[first][0], lines[last][1], inside) for first, last, inside in groups]


def chunk(text: bytes, start: int, end: int, spans: Sequence[Span]) -> Chunk:
    ranges = tuple(Range(location(text, span.start), location(text, span.end)) for span in spans)
    return Chunk(text[start:end], location(text, start), ranges)


def name_chunk(path: bytes, spans: Sequence[Span]) -> Chunk:
    """The path as one line, whatever characters are in it."""
    ranges = tuple(Range(name_location(path, span.start), name_location(path, span.end)) for span in spans)
    return Chunk(path, Location(0, 1, 1), ranges, is_file_name=True)


def name_location(path: bytes, offset: int) -> Location:
    return Location(offset, 1, len(path[:offset].decode("utf-8", "surrogateescape")) + 1)


def lines(text: bytes, spans: Sequence[Span], context_lines: int) -> list[Line]:
    """One record per line that has some of a match in it, besides its newline."""
    places = lines_of(text)
    bare = [text[start:end].removesuffix(b"\n") for start, end in places]
    records = []
    for position, (start, end) in enumerate(places):
        pieces = [(max(start, span.start), min(start + len(bare[position]), span.end)) for span in spans]
        fragments = tuple(Fragment(low - start, low, high - low) for low, high in pieces if low < high)
        if fragments:
            before = tuple(bare[max(0, position - context_lines) : position])
            after = tuple(bare[position + 1 : position + 1 + context_lines])
            records.append(Line(bare[position], start, end, position + 1, fragments, before, after))
    return records


def name_line(path: bytes, spans: Sequence[Span]) -> Line:
    """The path as the line before the first, whatever characters are in it."""
    fragments = tuple(Fragment(span.start, span.start, span.end - span.start) for span in spans)
    return Line(path, 0, len(path), 0, fragments, is_file_name=True)
