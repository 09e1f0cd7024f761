"""What comments and strings look like in a language: the facts `blanking.py` needs, as a table of bytes and some flags.

A plain quote ends with its line unless a language's strings may run on and nothing else there looks like a quote: a
stray apostrophe then costs one line and not the rest of the file. The numbers are plain integers because compiled code
reads them.
"""

from dataclasses import dataclass

import numpy as np

from argosy.search.index.segment import U8, frozen

# What a byte may begin.
SLASH = 1  # `//`, `/* */`, a regular expression in JavaScript
HASH = 2  # a comment, a directive of the C preprocessor, an attribute
DASH = 3  # `--`
QUOTE = 4  # a string that ends with the same byte
CHARACTER = 5  # one character between quotes; or a lifetime, or an apostrophe in a number
BACKTICK = 6  # a raw string, or a template
BRACE = 7  # `{- -}`
POD = 8  # `=begin` to `=end`, `=head1` to `=cut`, at the start of a line
LONG = 9  # `[[ ]]`, `[==[ ]==]`

# What else holds in a language.
SLASH_LINE = 1
SLASH_BLOCK = 2
NESTED = 4  # block comments nest
TRIPLE = 8  # three quotes begin a string of several lines
RUNS_ON = 16  # a plain string may hold newlines
DIRECTIVES = 32  # lines of the C preprocessor
ATTRIBUTES = 64  # `#[…]` and `#![…]` are attributes
BLANK_BEFORE = 128  # `#` begins a comment only after a blank or a bracket
REGEX = 256  # `/…/` where a value may stand
TEMPLATE = 512  # `${…}` inside backticks, with backticks inside that
RAW_C = 1024  # R"x(…)x"
RAW_RUST = 2048  # r#"…"#
VERBATIM = 4096  # @"…" in which a quote is doubled
DOLLAR_BRACE = 8192  # "…${…}…"
SLASH_PAREN = 16384  # "…\(…)…"
DOUBLED = 32768  # a quote inside is doubled, a backslash is nothing special


@dataclass(frozen=True, eq=False)
class Lexis:
    """The comments and strings of a language."""

    acts: U8  # for each byte, what it may begin
    says: int


def _lexis(acts: dict[str, int], says: int = 0) -> Lexis:
    table = np.zeros(256, np.uint8)
    for character, act in acts.items():
        table[ord(character)] = act
    return Lexis(frozen(table), says)


_SLASHES = SLASH_LINE | SLASH_BLOCK
_BRACED = {"/": SLASH, '"': QUOTE, "'": CHARACTER}
_HASHED = {**_BRACED, "#": HASH}
_QUOTED = {"#": HASH, '"': QUOTE, "'": QUOTE}

C = _lexis(_HASHED, _SLASHES | DIRECTIVES)
CPP = _lexis(_HASHED, _SLASHES | DIRECTIVES | RAW_C)
JAVA = _lexis(_BRACED, _SLASHES | TRIPLE)
CSHARP = _lexis(_HASHED, _SLASHES | TRIPLE | VERBATIM | DIRECTIVES)
KOTLIN = _lexis(_BRACED, _SLASHES | TRIPLE | NESTED | DOLLAR_BRACE)
SWIFT = _lexis(_HASHED, _SLASHES | TRIPLE | NESTED | SLASH_PAREN | DIRECTIVES)
RUST = _lexis(_HASHED, _SLASHES | NESTED | RUNS_ON | RAW_RUST | ATTRIBUTES)
GO = _lexis({**_BRACED, "`": BACKTICK}, _SLASHES)
JAVASCRIPT = _lexis({"/": SLASH, '"': QUOTE, "'": QUOTE, "`": BACKTICK}, _SLASHES | REGEX | TEMPLATE)
PHP = _lexis({**_QUOTED, "/": SLASH}, _SLASHES | ATTRIBUTES)
DART = _lexis({"/": SLASH, '"': QUOTE, "'": QUOTE}, _SLASHES | TRIPLE | DOLLAR_BRACE)
SLASHES = _lexis({"/": SLASH, '"': QUOTE}, _SLASHES)
PYTHON = _lexis(_QUOTED, TRIPLE)
RUBY = _lexis({**_QUOTED, "=": POD}, BLANK_BEFORE)
SHELL = _lexis(_QUOTED, BLANK_BEFORE)
ELIXIR = _lexis({"#": HASH, '"': QUOTE}, TRIPLE | BLANK_BEFORE)
TERRAFORM = _lexis({"#": HASH, "/": SLASH}, _SLASHES | BLANK_BEFORE)
LUA = _lexis({"-": DASH, '"': QUOTE, "'": QUOTE, "[": LONG})
HASKELL = _lexis({"-": DASH, '"': QUOTE, "'": CHARACTER, "{": BRACE})
SQL = _lexis({"-": DASH, "/": SLASH, "'": QUOTE}, SLASH_BLOCK | DOUBLED | RUNS_ON)
