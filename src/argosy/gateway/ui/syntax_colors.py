"""Syntax highlighting with Pygments: cuts a text into pieces with a CSS class each.

The pieces put together are the text again, always: where a lexer loses or moves something the text stays plain. The
work is bounded, because a lexer is a set of backtracking patterns and the text is a stranger's.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Literal, Name, Number, Operator, String, Token, _TokenType
from pygments.util import ClassNotFound

COLOURED_CHARACTERS_MAX = 100_000  # about half a second; longer texts stay plain
EXCERPT_CHARACTERS_MAX = 2_000
# Pieces take thirty times the memory of their text, in the worst case: 30 MB for excerpts, 24 MB for files.
KEPT_EXCERPTS = 512
KEPT_FILES = 8

Piece: TypeAlias = tuple[str, str]  # class ("" is none) and text

PLAIN = ""
# Linguist's names that Pygments spells in another way.
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


def coloured(text: str, language: str) -> Sequence[Piece]:
    """The text in pieces; one plain piece if the language is unknown or the text is too long."""
    if len(text) > COLOURED_CHARACTERS_MAX or not language:
        return ((PLAIN, text),)
    return (_excerpt if len(text) <= EXCERPT_CHARACTERS_MAX else _file)(text, language)


@lru_cache(KEPT_EXCERPTS)
def _excerpt(text: str, language: str) -> Sequence[Piece]:
    return _pieces(text, language)


@lru_cache(KEPT_FILES)
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
        if start != at:
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
