"""What the symbol kernels must know of a language: the syntax of comments and strings, and the words that open scopes.

Both are tables of plain integers, because kernels read them. A plain quote ends with its line, unless strings of the
language can span lines and nothing else in it looks like a quote. So a stray apostrophe costs one line, not the rest of
the file.
"""

from dataclasses import dataclass

import numpy as np

from argosy.search.arrays import U8, U64, freeze

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


# Contexts.
TOP = 0
CLASS = 1
STRUCT = 2
UNION = 3
ENUM = 4
INTERFACE = 5
NAMESPACE = 6
TRAIT = 7
IMPLEMENTATION = 8
OBJECT = 9
RECORD = 10
CONSTANTS = 12  # Go's `const (`
VARIABLES = 13
TYPES = 14
SERVICE = 15
BLOCK = 16  # any other brace, in languages where every brace is a scope
EXTERN = 17  # `extern "C" {`

OPAQUE = 32  # a body of statements follows
ATTRIBUTE = 33  # a call-like decoration: blanked with its brackets
TYPEDEF = 34
OPERATOR = 35

# The kernels take the slot from the low 8 bits of the hash.
_TABLE_SIZE = 256
HASH_START = 0xCBF29CE484222325
HASH_FACTOR = 0x100000001B3
_MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Words:
    """Words by hash; an empty slot is zero."""

    hashes: U64
    codes: U8


def word_hash(word: bytes) -> int:
    """FNV-1a, 64 bits, as the kernel computes it while reading a word."""
    found = HASH_START
    for byte in word:
        found = ((found ^ byte) * HASH_FACTOR) & _MASK
    return found


def words(table: dict[int, str]) -> Words:
    """Builds the table from words by code, each a string of words separated by spaces."""
    hashes, codes = np.zeros(_TABLE_SIZE, np.uint64), np.zeros(_TABLE_SIZE, np.uint8)
    for code, listed in table.items():
        for word in listed.split():
            # Words are compared by hash alone: 64 bits do not collide by chance, and a false match would cost one
            # symbol at most.
            hashed = word_hash(word.encode())
            slot = hashed % _TABLE_SIZE
            while hashes[slot]:
                slot = (slot + 1) % _TABLE_SIZE
            hashes[slot], codes[slot] = hashed, code
    return Words(freeze(hashes), freeze(codes))
