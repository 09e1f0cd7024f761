"""The syntax of comments and strings per language, as a table of bytes and flags for `comment_mask.py`.

A plain quote ends with its line, unless strings of the language can span lines and nothing else in it looks like a
quote. So a stray apostrophe costs one line, not the rest of the file. The constants are plain integers because kernels
read them.
"""

from dataclasses import dataclass

import numpy as np

from argosy.search.arrays import U8, freeze

# What a byte can begin.
SLASH = 1  # `//`, `/* */`, a regular expression in JavaScript
HASH = 2  # a comment, a directive of the C preprocessor, an attribute
DASH = 3  # `--`
QUOTE = 4  # a string that ends with the same byte
CHARACTER = 5  # one character between quotes; or a lifetime, or an apostrophe in a number
BACKTICK = 6  # a raw string, or a template
BRACE = 7  # `{- -}`
POD = 8  # `=begin` to `=end`, `=head1` to `=cut`, at the start of a line
LONG = 9  # `[[ ]]`, `[==[ ]==]`

# Flags of a language.
SLASH_LINE = 1
SLASH_BLOCK = 2
NESTED = 4  # block comments nest
TRIPLE = 8  # three quotes begin a string of several lines
RUNS_ON = 16  # a plain string can contain newlines
DIRECTIVES = 32  # lines of the C preprocessor
ATTRIBUTES = 64  # `#[…]` and `#![…]` are attributes
BLANK_BEFORE = 128  # `#` begins a comment only after whitespace or a bracket
REGEX = 256  # `/…/` where a value can begin
TEMPLATE = 512  # `${…}` inside backticks, with backticks inside that
RAW_C = 1024  # R"x(…)x"
RAW_RUST = 2048  # r#"…"#
VERBATIM = 4096  # @"…" in which a quote is doubled
DOLLAR_BRACE = 8192  # "…${…}…"
SLASH_PAREN = 16384  # "…\(…)…"
DOUBLED = 32768  # a quote inside is doubled; a backslash is an ordinary character


@dataclass(frozen=True, eq=False)
class LexicalRules:
    """The syntax of comments and strings of one language."""

    acts: U8  # for each byte, what it can begin
    flags: int


def _rules(acts: dict[str, int], flags: int = 0) -> LexicalRules:
    table = np.zeros(256, np.uint8)
    for character, act in acts.items():
        table[ord(character)] = act
    return LexicalRules(freeze(table), flags)


_SLASHES = SLASH_LINE | SLASH_BLOCK
_BRACED = {"/": SLASH, '"': QUOTE, "'": CHARACTER}
_HASHED = {**_BRACED, "#": HASH}
_QUOTED = {"#": HASH, '"': QUOTE, "'": QUOTE}

C = _rules(_HASHED, _SLASHES | DIRECTIVES)
CPP = _rules(_HASHED, _SLASHES | DIRECTIVES | RAW_C)
JAVA = _rules(_BRACED, _SLASHES | TRIPLE)
CSHARP = _rules(_HASHED, _SLASHES | TRIPLE | VERBATIM | DIRECTIVES)
KOTLIN = _rules(_BRACED, _SLASHES | TRIPLE | NESTED | DOLLAR_BRACE)
SWIFT = _rules(_HASHED, _SLASHES | TRIPLE | NESTED | SLASH_PAREN | DIRECTIVES)
RUST = _rules(_HASHED, _SLASHES | NESTED | RUNS_ON | RAW_RUST | ATTRIBUTES)
GO = _rules({**_BRACED, "`": BACKTICK}, _SLASHES)
JAVASCRIPT = _rules({"/": SLASH, '"': QUOTE, "'": QUOTE, "`": BACKTICK}, _SLASHES | REGEX | TEMPLATE)
PHP = _rules({**_QUOTED, "/": SLASH}, _SLASHES | ATTRIBUTES)
DART = _rules({"/": SLASH, '"': QUOTE, "'": QUOTE}, _SLASHES | TRIPLE | DOLLAR_BRACE)
SLASHES = _rules({"/": SLASH, '"': QUOTE}, _SLASHES)
PYTHON = _rules(_QUOTED, TRIPLE)
RUBY = _rules({**_QUOTED, "=": POD}, BLANK_BEFORE)
SHELL = _rules(_QUOTED, BLANK_BEFORE)
ELIXIR = _rules({"#": HASH, '"': QUOTE}, TRIPLE | BLANK_BEFORE)
TERRAFORM = _rules({"#": HASH, "/": SLASH}, _SLASHES | BLANK_BEFORE)
LUA = _rules({"-": DASH, '"': QUOTE, "'": QUOTE, "[": LONG})
HASKELL = _rules({"-": DASH, '"': QUOTE, "'": CHARACTER, "{": BRACE})
SQL = _rules({"-": DASH, "/": SLASH, "'": QUOTE}, SLASH_BLOCK | DOUBLED | RUNS_ON)
