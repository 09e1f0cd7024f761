"""A file match with fewer of its matches: what is left of it when the bound on matches shown falls within the file."""

from msgspec import structs

from argosy.search.model import Chunk, FileMatch, Line, Range


def trim_file(file: FileMatch, matches: int, *, of: int, context_lines: int) -> FileMatch:
    """The file with its first so many matches, at least one, of those that its node may have shown."""
    # Only if there are more fragments than matches are some matches told in pieces.
    has_pieces = sum(len(line.fragments) for line in file.lines) > of
    return structs.replace(
        file,
        chunks=_chunks(file.chunks, matches, context_lines),
        lines=_lines(file.lines, matches, has_pieces=has_pieces),
    )


def _chunks(chunks: tuple[Chunk, ...], left: int, context_lines: int) -> tuple[Chunk, ...]:
    kept = []
    for chunk in chunks:
        if left <= 0:
            break
        kept.append(chunk if len(chunk.ranges) <= left else _trim_chunk(chunk, left, context_lines))
        left -= len(chunk.ranges)
    return tuple(kept)


def _trim_chunk(chunk: Chunk, matches: int, context_lines: int) -> Chunk:
    """The chunk up to the lines of its last match. Which of the matches left is the best is not known: if the best one
    is gone, the first stands for it."""
    ranges = chunk.ranges[:matches]
    symbols = chunk.symbols[:matches]
    content = chunk.content
    if not (chunk.is_clipped or chunk.is_file_name):
        lines = max(_last_line(each) for each in ranges) + context_lines - chunk.start.line + 1
        content = _first(content, lines)
    is_best_left = any(each.start.line == chunk.best_line for each in ranges)
    return structs.replace(
        chunk,
        content=content,
        ranges=ranges,
        symbols=symbols if any(symbols) else (),
        best_line=chunk.best_line if is_best_left else ranges[0].start.line,
    )


def _first(content: bytes, lines: int) -> bytes:
    """The first lines, where only a newline ends a line."""
    return b"\n".join(content.split(b"\n", lines)[:lines]) + (b"\n" if content.count(b"\n") >= lines else b"")


def _last_line(found: Range) -> int:
    """The last line that the match has a byte in."""
    has_nothing_there = found.end.column == 1 and found.end.line > found.start.line
    return found.end.line - has_nothing_there


def _lines(lines: tuple[Line, ...], left: int, *, has_pieces: bool) -> tuple[Line, ...]:
    """A match over several lines is a fragment in each: one that goes on counts once. Two matches that meet at the end
    of a line look the same, and count once where others are in pieces."""
    kept: list[Line] = []
    goes_on = False
    for line in lines:
        room = left + (has_pieces and goes_on and _is_next(kept[-1], line))
        if room <= 0:
            break
        fragments = line.fragments[:room]
        kept.append(line if len(fragments) == len(line.fragments) else structs.replace(line, fragments=fragments))
        left = room - len(fragments)
        last = line.fragments[-1]
        goes_on = last.offset + last.length >= line.end - 1 and len(fragments) == len(line.fragments)
    return tuple(kept)


def _is_next(above: Line, line: Line) -> bool:
    """Whether nothing but newlines is between the end of one line and the first fragment of another; a match has no
    fragment in an empty line."""
    return line.fragments[0].offset - above.end == line.number - above.number - 1
