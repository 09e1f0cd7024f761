"""The syntax tree of a regular expression, as far as the analysis needs it.

Groups are gone (nothing here needs captures), `^ $ . \\d` are spelled out, and each leaf says whether letter case was
settled by a flag in the pattern. What the parser does not understand is `Opaque`: it may match anything, so nothing can
be required of its matches.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

CODE_POINT_MAX = 0x10FFFF


class CaseMode(Enum):
    """Whether a leaf tells upper from lower case."""

    ASKED = "asked"  # as the whole search does
    IGNORED = "ignored"  # `(?i)`
    KEPT = "kept"  # `(?-i)`

    def is_folded(self, *, is_case_sensitive: bool) -> bool:
        return self is CaseMode.IGNORED or (self is CaseMode.ASKED and not is_case_sensitive)


class AssertionKind(Enum):
    """Where an assertion holds; it takes no text."""

    LINE_START = "^"
    LINE_END = "$"
    TEXT_START = r"\A"
    TEXT_END = r"\z"
    WORD_BOUNDARY = r"\b"
    NO_WORD_BOUNDARY = r"\B"


@dataclass(frozen=True, slots=True)
class Chars:
    """These characters."""

    chars: str
    case: CaseMode = CaseMode.ASKED


@dataclass(frozen=True, slots=True)
class CodePoints:
    """Code points from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Named:
    r"""A set with a name: `\d \s \w`, `[:alpha:]` and its kin, or a Unicode category or script such as `Lu`."""

    name: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Class:
    """One character that is in one of the parts, or in none of them."""

    parts: tuple[CodePoints | Named, ...]
    is_negated: bool = False
    case: CaseMode = CaseMode.ASKED


@dataclass(frozen=True, slots=True)
class Assertion:
    place: AssertionKind


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; without children, the empty text."""

    children: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of them, the first that can be."""

    children: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The child `least` to `most` times; None is any number of times."""

    child: "Node"
    least: int
    most: int | None
    is_greedy: bool = True


@dataclass(frozen=True, slots=True)
class Opaque:
    """An unknown part: it can match anything."""


Node: TypeAlias = Chars | Class | Assertion | Sequence | Choice | Repeat | Opaque

EMPTY = Sequence(())
ANY_CHAR = Class((), is_negated=True)
ANY_CHAR_OF_LINE = Class((CodePoints(0x0A, 0x0A),), is_negated=True)
