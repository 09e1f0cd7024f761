"""Lines of code as HTML, with syntax colors and highlighted matches.

All code is escaped here and nowhere else. Characters that change the text direction are shown as code points, because
they can make code read differently from what it does ("Trojan Source").
"""

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from markupsafe import Markup, escape

from argosy.gateway.ui.syntax_colors import PLAIN, Piece
from argosy.search.model import Range

Span: TypeAlias = tuple[int, int]  # from and to, in characters

_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text_of(content: bytes) -> str:
    """Decode content; invalid bytes become surrogates, which pages show as replacement characters."""
    return content.decode("utf-8", "surrogateescape")


def spans_of(content: bytes, ranges: Iterable[Range], *, start: int = 0) -> list[Span]:
    """The character spans of the ranges within `content`; `start` is the offset of the content in its file."""
    spans: list[Span] = []
    at = characters = 0
    for first, last in sorted((each.start.offset - start, each.end.offset - start) for each in ranges):
        first, last = max(first, at), min(last, len(content))
        if first < last:
            begin = characters + len(text_of(content[at:first]))
            at, characters = last, begin + len(text_of(content[first:last]))
            spans.append((begin, characters))
    return spans


def lines_of(pieces: Sequence[Piece], spans: Sequence[Span] = ()) -> list[Markup]:
    """The lines of a text as HTML, without line ends; the spans are ascending and do not overlap."""
    if len(pieces) == 1 and not pieces[0][0] and not spans:
        return _plain_lines(pieces[0][1])
    lines: list[Markup] = []
    line: list[str] = []
    position = passed = 0
    for name, text in pieces:
        at = 0
        while at < len(text):
            while passed < len(spans) and spans[passed][1] <= position:
                passed += 1
            is_marked = passed < len(spans) and spans[passed][0] <= position
            end = len(text)
            if passed < len(spans):
                end = min(end, at + spans[passed][1 if is_marked else 0] - position)
            newline = text.find("\n", at, end)
            if newline >= 0:
                end = newline
            if end > at:
                line.append(_shown(text[at:end], name, is_marked=is_marked))
            position += end - at
            at = end
            if newline >= 0:
                lines.append(Markup("".join(line)))  # every part of it is escaped
                line = []
                position, at = position + 1, at + 1
    return [*lines, Markup("".join(line))] if line else lines


def _plain_lines(text: str) -> list[Markup]:
    """Fast path for long texts without syntax colors and highlights."""
    shown = _shown(text.replace("\r\n", "\n"), PLAIN, is_marked=False)
    lines = [Markup(line) for line in shown.split("\n")]  # escaped as a whole
    return lines if lines[-1] else lines[:-1]


def marked(text: str, spans: Sequence[Span]) -> Markup:
    """One line, such as a file name, with highlighted spans."""
    return Markup(" ").join(lines_of([(PLAIN, text)], spans))


def _shown(text: str, name: str, *, is_marked: bool) -> str:
    shown = str(escape(text.rstrip("\r") if text.endswith("\r") else text))
    if not shown.isascii():
        shown = _DIRECTIONS.sub(_sign, shown)
    if name:
        shown = f'<span class="{name}">{shown}</span>'
    return f"<mark>{shown}</mark>" if is_marked else shown


def _sign(found: re.Match[str]) -> str:
    return f'<span class="sign" title="this sign changes the direction of text">U+{ord(found[0]):04X}</span>'
