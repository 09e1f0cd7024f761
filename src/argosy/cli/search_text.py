"""Search results as text: with headings for people, one line per match for programs, or only names and counts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from argosy.cli.output import Paint, safe_name, safe_text

if TYPE_CHECKING:
    from argosy.search.model import FileMatch, Fragment, Line, SymbolInfo


VIMGREP_BYTES_MAX = 2_000  # of a line; an editor shows only its start
ELLIPSIS = "…"

# The path of a file relative to the working directory.
NameOf: TypeAlias = "Callable[[FileMatch], str]"


@dataclass(frozen=True, slots=True)
class Row:
    """A line to print: a match or its context."""

    number: int
    content: bytes
    line: "Line | None" = None


GAP = Row(0, b"")  # marks omitted lines


def rows(lines: "Sequence[Line]") -> Iterator[Row]:
    """The lines and their context in order, without duplicates, with GAP between blocks."""
    last = 0
    for at, line in enumerate(lines):
        following = lines[at + 1].number if at + 1 < len(lines) else None
        first = line.number - len(line.before)
        if last and first > last + 1:
            yield GAP
        for number, content in enumerate(line.before, first):
            if number > last:
                yield Row(number, content)
        yield Row(line.number, line.content, line)
        last = line.number
        for number, content in enumerate(line.after, line.number + 1):
            # A line that is context of one match and itself a match is printed once, as the match.
            if following is None or number < following:
                yield Row(number, content)
                last = number


def with_headings(file: "FileMatch", name_of: NameOf, paint: Paint, *, has_context: bool) -> str:
    """The name, then the numbered lines."""
    lines = [line for line in file.lines if not line.is_file_name]
    shown = [_heading(file, name_of, paint)]
    for row in rows(lines):
        if row is not GAP:
            mark = ":" if row.line else "-"
            shown.append(f"{paint.number(str(row.number))}{mark}{_content(row, paint)}{_definitions(row, paint)}")
        elif has_context:
            shown.append(paint.aside("--"))
    return "\n".join(shown) + "\n"


def without_headings(file: "FileMatch", name_of: NameOf, paint: Paint, *, has_context: bool) -> str:
    """The name before every line; only the name if the match is in the name."""
    name = paint.path(safe_name(name_of(file)))
    lines = [line for line in file.lines if not line.is_file_name]
    if not lines:
        return f"{name}\n"
    shown = []
    for row in rows(lines):
        if row is not GAP:
            mark = ":" if row.line else "-"
            shown.append(f"{name}{mark}{paint.number(str(row.number))}{mark}{_content(row, paint)}")
        elif has_context:
            shown.append(paint.aside("--"))
    return "\n".join(shown) + "\n"


def vimgrep(file: "FileMatch", name_of: NameOf, paint: Paint) -> str:
    """One line per match, with the column of its first byte, as editors count."""
    name = paint.path(safe_name(name_of(file)))
    shown = []
    for line in file.lines:
        if line.is_file_name:
            shown.append(f"{name}:1:1:{safe_name(file.path)}")
            continue
        for fragment in line.fragments:
            column = fragment.line_offset + 1
            shown.append(f"{name}:{paint.number(str(line.number))}:{column}:{_around(line, fragment, paint)}")
    return "".join(f"{each}\n" for each in shown)


def count_line(file: "FileMatch", name_of: NameOf, paint: Paint) -> str:
    return f"{paint.path(safe_name(name_of(file)))}:{file.match_count}\n"


def name_line(file: "FileMatch", name_of: NameOf, paint: Paint) -> str:
    return f"{paint.path(safe_name(name_of(file)))}\n"


def _heading(file: "FileMatch", name_of: NameOf, paint: Paint) -> str:
    asides = [f"[{', '.join(file.branches)}]"] if len(file.branches) > 1 else []
    asides += [f"(by name only: {file.skipped})"] if file.skipped else []
    return " ".join([_name(file, name_of, paint), *(paint.aside(safe_name(aside)) for aside in asides)])


def _name(file: "FileMatch", name_of: NameOf, paint: Paint) -> str:
    """The name, with its matches highlighted if the match is in the name."""
    name, path = name_of(file), file.path
    in_name = [line for line in file.lines if line.is_file_name]
    fragments = in_name[0].fragments if in_name else ()
    if not fragments or not name.endswith(path) or _covers(path, fragments):
        return paint.path(safe_name(name))
    before = name[: len(name) - len(path)]
    return paint.path(safe_name(before)) + _paint_matches(in_name[0].content, fragments, paint, paint.path)


def _covers(path: str, fragments: "Sequence[Fragment]") -> bool:
    """Whether the match is the whole path, which means that nothing specific matched."""
    return len(fragments) == 1 and fragments[0].length == len(path.encode("utf-8", "surrogateescape"))


def _content(row: Row, paint: Paint) -> str:
    if row.line is None:
        # Otherwise every line of a file with CRLF would end in an escaped \r.
        return safe_text(row.content.removesuffix(b"\r"))
    line = row.line
    text = _paint_matches(line.content.removesuffix(b"\r"), line.fragments, paint, str)
    return f"{text}{paint.aside(ELLIPSIS)}" if line.is_clipped else text


def _paint_matches(content: bytes, fragments: "Sequence[Fragment]", paint: Paint, other: Callable[[str], str]) -> str:
    """Colors the matches; matches in the clipped part of a line are omitted."""
    shown, at = [], 0
    for fragment in fragments:
        start = max(fragment.line_offset, at)
        end = min(fragment.line_offset + fragment.length, len(content))
        if start < end:
            shown += [other(safe_text(content[at:start])), paint.match(safe_text(content[start:end]))]
            at = end
    return "".join([*shown, other(safe_text(content[at:]))])


def _definitions(row: Row, paint: Paint) -> str:
    """The kinds of symbols that the matches in the line define."""
    symbols = [fragment.symbol for fragment in row.line.fragments] if row.line else []
    kinds = dict.fromkeys(_kind(symbol) for symbol in symbols if symbol)
    return f"  {paint.aside(safe_name('‹' + ', '.join(kinds) + '›'))}" if kinds else ""


def _kind(symbol: "SymbolInfo") -> str:
    return f"{symbol.kind} of {symbol.parent}" if symbol.parent else symbol.kind


def _around(line: "Line", fragment: "Fragment", paint: Paint) -> str:
    """The line, or the part around the match if the line is long."""
    content = line.content.removesuffix(b"\r")
    first = 0
    # The match keeps a quarter of the window before it, as context.
    if len(content) > VIMGREP_BYTES_MAX:
        first = max(0, fragment.line_offset - VIMGREP_BYTES_MAX // 4)
        content = content[first : first + VIMGREP_BYTES_MAX]
    start = fragment.line_offset - first
    end = start + fragment.length
    return safe_text(content[:start]) + paint.match(safe_text(content[start:end])) + safe_text(content[end:])
