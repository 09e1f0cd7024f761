"""The syntax tree of a regular expression, as far as the analysis needs it.

It has no groups, because nothing here needs captures; `^ $ . \\d` are resolved, and each leaf has the case mode that a
flag in the pattern set for it. A part that the parser does not understand is `Opaque`: it can match anything, so
nothing is required of its matches.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

CODE_POINT_MAX = 0x10FFFF


class CaseMode(Enum):
    """Whether a leaf distinguishes upper and lower case."""

    DEFAULT = "default"  # as the whole search does
    FOLDED = "folded"  # `(?i)`
    EXACT = "exact"  # `(?-i)`

    def is_folded(self, *, is_case_sensitive: bool) -> bool:
        return self is CaseMode.FOLDED or (self is CaseMode.DEFAULT and not is_case_sensitive)


class AssertionKind(Enum):
    """Where an assertion holds. An assertion consumes no text."""

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
    case: CaseMode = CaseMode.DEFAULT


@dataclass(frozen=True, slots=True)
class CodePoints:
    """Code points from `low` to `high`, inclusive."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Named:
    r"""A named set: `\d \s \w`, a POSIX class such as `[:alpha:]`, or a Unicode category or script such as `Lu`."""

    name: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Class:
    """One character that is in one of the parts, or in none of them."""

    parts: tuple[CodePoints | Named, ...]
    is_negated: bool = False
    case: CaseMode = CaseMode.DEFAULT


@dataclass(frozen=True, slots=True)
class Assertion:
    place: AssertionKind


@dataclass(frozen=True, slots=True)
class Sequence:
    """The children in order; without children, the empty text."""

    children: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the children, the first that matches."""

    children: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The child `least` to `most` times; None is unbounded."""

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
