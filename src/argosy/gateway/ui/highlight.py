"""Lines of code as HTML, with syntax colors and highlighted matches.

All code is escaped here and nowhere else. Pygments cuts a text into pieces with a CSS class each; joined, the pieces
are always the text again, and where a lexer loses or moves something the text stays plain. The work is bounded, because
lexers are backtracking patterns and the text may be hostile. Characters that change the text direction are shown as
code points, because they can make code read differently from what it does ("Trojan Source", CVE-2021-42574).
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Literal, Name, Number, Operator, String, Token, _TokenType
from pygments.util import ClassNotFound

from argosy.search.model import Range

COLORED_CHARACTERS_MAX = 100_000  # about half a second; longer texts stay plain
EXCERPT_CHARACTERS_MAX = 2_000
# Pieces take thirty times the memory of their text, in the worst case: 30 MB for excerpts, 24 MB for files.
CACHED_EXCERPTS = 512
CACHED_FILES = 8

Piece: TypeAlias = tuple[str, str]  # class ("" is none) and text

PLAIN = ""
# Languages whose Linguist name Pygments does not know.
_SPELLINGS = {
    "ASP.NET": "aspx-cs",
    "Assembly": "nasm",
    "Astro": "html",
    "Batchfile": "batch",
    "Blade": "html+php",
    "C#": "csharp",
    "Cap'n Proto": "capnp",
    "Dockerfile": "docker",
    "Dotenv": "ini",
    "EJS": "html",
    "EditorConfig": "ini",
    "F#": "fsharp",
    "Fortran Free Form": "fortran",
    "Git Attributes": "ini",
    "Git Config": "ini",
    "Gradle": "groovy",
    "Gradle Kotlin DSL": "kotlin",
    "Graphviz (DOT)": "graphviz",
    "HCL": "terraform",
    "HTML+ERB": "erb",
    "Hack": "php",
    "JSON with Comments": "json",
    "Java Properties": "properties",
    "Java Server Pages": "jsp",
    "Jupyter Notebook": "json",
    "MDX": "markdown",
    "OpenCL": "c",
    "OpenEdge ABL": "openedge",
    "PL/SQL": "sql",
    "PL/pgSQL": "plpgsql",
    "PostCSS": "css",
    "Protocol Buffer": "protobuf",
    "RPM Spec": "spec",
    "Razor": "html",
    "Roff": "groff",
    "SVG": "xml",
    "Shell": "bash",
    "ShellSession": "console",
    "Snakemake": "python",
    "Standard ML": "sml",
    "Svelte": "html",
    "Terraform Template": "terraform",
    "Vim Script": "vim",
    "Visual Basic .NET": "vb.net",
    "Vue": "html",
    "WebAssembly": "wast",
    "WebGPU Shading Language": "wgsl",
    "Wolfram Language": "wolfram",
}
_CLASSES: dict[_TokenType, str] = {
    Token: PLAIN,
    Error: PLAIN,
    Comment: "c",
    Comment.Preproc: "p",
    Keyword: "k",
    Keyword.Constant: "n",
    Keyword.Type: "t",
    Literal: "n",
    Number: "n",
    String: "s",
    String.Doc: "c",
    String.Escape: "e",
    String.Interpol: "e",
    String.Regex: "e",
    Operator.Word: "k",
    Name.Attribute: "a",
    Name.Builtin: "b",
    Name.Builtin.Pseudo: "b",
    Name.Class: "t",
    Name.Constant: "n",
    Name.Decorator: "p",
    Name.Exception: "t",
    Name.Function: "f",
    Name.Label: "p",
    Name.Tag: "k",
    Name.Variable: "a",
    Token.Generic.Heading: "f",
    Token.Generic.Subheading: "f",
    Token.Generic.Strong: "k",
    Token.Generic.Deleted: "e",
    Token.Generic.Inserted: "s",
}


def color_syntax(text: str, language: str) -> Sequence[Piece]:
    """The text in pieces; one plain piece if the language is unknown or the text is too long."""
    if len(text) > COLORED_CHARACTERS_MAX or not language:
        return ((PLAIN, text),)
    # Two caches: pages show the same excerpts again and again, and a few files must not evict hundreds of them.
    return (_excerpt if len(text) <= EXCERPT_CHARACTERS_MAX else _file)(text, language)


@lru_cache(CACHED_EXCERPTS)
def _excerpt(text: str, language: str) -> Sequence[Piece]:
    return _pieces(text, language)


@lru_cache(CACHED_FILES)
def _file(text: str, language: str) -> Sequence[Piece]:
    return _pieces(text, language)


def _pieces(text: str, language: str) -> Sequence[Piece]:
    lexer = _lexer(language)
    if lexer is None:
        return ((PLAIN, text),)
    found: list[Piece] = []
    at = 0
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        if not value:
            continue
        if start != at:  # the lexer has skipped or repeated something, and offsets would be wrong from here on
            return ((PLAIN, text),)
        at += len(value)
        name = _class(kind)
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1] + value)
        else:
            found.append((name, value))
    is_whole = at == len(text) and "".join(value for _, value in found) == text
    return tuple(found) if is_whole else ((PLAIN, text),)


@lru_cache(512)
def _lexer(language: str) -> Lexer | None:
    plain = language.lower()
    for name in (_SPELLINGS.get(language, plain), plain.replace(" ", "-"), plain.replace(" ", "")):
        try:
            return get_lexer_by_name(name)
        except ClassNotFound:
            continue
    return None


@lru_cache(1024)
def _class(kind: _TokenType) -> str:
    """The class of the nearest ancestor that has one."""
    while kind not in _CLASSES and kind.parent is not None:
        kind = kind.parent
    return _CLASSES.get(kind, PLAIN)


Span: TypeAlias = tuple[int, int]  # from and to, in characters

# The bidirectional controls of Unicode: Arabic letter mark, marks, embeddings and overrides, isolates.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text_of(content: bytes) -> str:
    """Decode content; invalid bytes become surrogates, which pages show as replacement characters."""
    return content.decode("utf-8", "surrogateescape")


def spans_of(content: bytes, ranges: Iterable[Range], *, start: int = 0) -> list[Span]:
    """The character spans of the ranges within `content`; `start` is the offset of the content in its file."""
    spans: list[Span] = []
    at = characters = 0
    for first, last in sorted((each.start.offset - start, each.end.offset - start) for each in ranges):
        # Ranges can overlap and can lie beyond a truncated text; spans must be ascending and disjoint.
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
            is_highlighted = passed < len(spans) and spans[passed][0] <= position
            end = len(text)
            if passed < len(spans):
                end = min(end, at + spans[passed][1 if is_highlighted else 0] - position)
            newline = text.find("\n", at, end)
            if newline >= 0:
                end = newline
            if end > at:
                line.append(_render_piece(text[at:end], name, is_highlighted=is_highlighted))
            position += end - at
            at = end
            if newline >= 0:
                lines.append(Markup("".join(line)))  # every part of it is escaped
                line = []
                position, at = position + 1, at + 1
    return [*lines, Markup("".join(line))] if line else lines


def _plain_lines(text: str) -> list[Markup]:
    """Fast path for long texts without syntax colors and highlights."""
    shown = _render_piece(text.replace("\r\n", "\n"), PLAIN, is_highlighted=False)
    lines = [Markup(line) for line in shown.split("\n")]  # escaped as a whole
    return lines if lines[-1] else lines[:-1]


def highlight_line(text: str, spans: Sequence[Span]) -> Markup:
    """One line, such as a file name, with highlighted spans."""
    return Markup(" ").join(lines_of([(PLAIN, text)], spans))


def _render_piece(text: str, name: str, *, is_highlighted: bool) -> str:
    shown = str(escape(text.rstrip("\r") if text.endswith("\r") else text))
    # Most lines are ASCII, which has none of these characters.
    if not shown.isascii():
        shown = _DIRECTIONS.sub(_code_point, shown)
    if name:
        shown = f'<span class="{name}">{shown}</span>'
    return f"<mark>{shown}</mark>" if is_highlighted else shown


def _code_point(found: re.Match[str]) -> str:
    return f'<span class="sign" title="this character changes the text direction">U+{ord(found[0]):04X}</span>'
