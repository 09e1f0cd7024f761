r"""Parses RE2 syntax to a tree.

The dialect is Go's with ClassNL, PerlX and UnicodeGroups: `^` and `$` are line anchors, `.` does not match a newline,
negated classes do. A pattern that RE2 accepts is either parsed with RE2's meaning or becomes `Opaque`; for one that RE2
rejects the tree is arbitrary, because the engine rejects it anyway.
"""

import re
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from argosy.search.regex.tree import (
    ANY_CHAR,
    ANY_CHAR_OF_LINE,
    CODE_POINT_MAX,
    EMPTY,
    Assertion,
    AssertionKind,
    CaseMode,
    Chars,
    Choice,
    Class,
    CodePoints,
    Named,
    Node,
    Opaque,
    Repeat,
    Sequence,
)

_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "a": 0x07, "f": 0x0C, "v": 0x0B}
_HEX = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")  # a single digit from 1 to 9 is a back-reference
_UNICODE_GROUP = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|([^{]))")
_PERL = frozenset("dsw")
_POSIX = frozenset(
    f"[:{name}:]"
    for name in (
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "word", "xdigit",
    )
)  # fmt: skip

ClassParts: TypeAlias = tuple[CodePoints | Named, ...]


class Unknown(Exception):
    """The pattern is not RE2 syntax, or not a part of it that this parser understands.

    The two are not distinguished: the engine decides what is valid, this is only an analysis.
    """


def read_escape(pattern: str, at: int) -> tuple[int, int]:
    """The code point of the escape whose backslash is at `at`, and its end."""
    following = pattern[at + 1 : at + 2]
    if following in _CONTROLS and following:
        return _CONTROLS[following], at + 2
    if found := _HEX.match(pattern, at + 1):
        digits = (found[1] or found[2]).lstrip("0")
        # No code point has more than six digits.
        code = int(digits or "0", 16) if len(digits) <= 6 else CODE_POINT_MAX + 1
        if code > CODE_POINT_MAX:
            raise Unknown(found[0])
        return code, found.end()
    if found := _OCTAL.match(pattern, at + 1):
        return int(found[0], 8), found.end()
    if following.isascii() and following and not following.isalnum():
        return ord(following), at + 2
    raise Unknown(pattern[at : at + 2])


def read_named(pattern: str, at: int) -> tuple[Named, int] | None:
    r"""The set at `at` if it is one of `\d \pL [:alpha:]` and their negations."""
    two = pattern[at : at + 2]
    if two == "[:":
        return _read_posix(pattern, at)
    if two in (r"\p", r"\P"):
        return _read_unicode_group(pattern, at)
    if len(two) == 2 and two[0] == "\\" and two[1].lower() in _PERL:
        return Named(two.lower(), is_negated=two[1].isupper()), at + 2
    return None


def _read_posix(pattern: str, at: int) -> tuple[Named, int] | None:
    end = pattern.find(":]", at + 2)
    if end < 0:
        return None  # then the bracket is literal
    written = pattern[at : end + 2]
    name = written.replace("[:^", "[:", 1)
    if name not in _POSIX:
        raise Unknown(written)
    return Named(name, is_negated=name != written), end + 2


def _read_unicode_group(pattern: str, at: int) -> tuple[Named, int]:
    found = _UNICODE_GROUP.match(pattern, at)
    name = (found[3] or found[4]) if found else None
    if not found or not name:
        raise Unknown(pattern[at : at + 2])
    return Named(name, is_negated=(found[1] == "P") != bool(found[2])), found.end()


def read_class(pattern: str, at: int) -> tuple[ClassParts, bool, int]:
    """The parts of the class whose bracket is at `at`, whether it is negated, and its end."""
    at += 1
    is_negated = pattern.startswith("^", at)
    at += is_negated
    parts: list[CodePoints | Named] = []
    while not pattern.startswith("]", at) or not parts:  # a bracket in first position is literal
        named = read_named(pattern, at)
        part, at = named if named else _read_range(pattern, at)
        parts.append(part)
    return tuple(parts), is_negated, at + 1


def _read_range(pattern: str, at: int) -> tuple[CodePoints, int]:
    low, at = _read_member(pattern, at)
    if not pattern.startswith("-", at) or pattern.startswith("]", at + 1) or at + 1 >= len(pattern):
        return CodePoints(low, low), at
    high, at = _read_member(pattern, at + 1)
    if high < low:
        raise Unknown(f"{chr(low)}-{chr(high)}")
    return CodePoints(low, high), at


def _read_member(pattern: str, at: int) -> tuple[int, int]:
    if at >= len(pattern):
        raise Unknown("unclosed class")
    if pattern[at] == "\\":
        return read_escape(pattern, at)
    return ord(pattern[at]), at + 1


# The analysis recurses over the tree. A pattern nested deeper is valid, and matched without analysis.
DEPTH_MAX = 50
REPEATS_MAX = 1000  # RE2's bound on `{n,m}`

_COUNT = r"(?:0|[1-9][0-9]{0,8})"  # for RE2, braces around a number with leading zeros are literal text
_REPEAT = re.compile(rf"([*+?]|\{{({_COUNT})(,({_COUNT})?)?\}})(\??)")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED_GROUP = re.compile(r"\(\?P?<[^>]+>")
_PLAIN = re.compile(r"[^\\\[\](){}*+?.^$|]+")
_SIMPLE_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ESCAPED_PLACES = {
    "A": AssertionKind.TEXT_START,
    "z": AssertionKind.TEXT_END,
    "b": AssertionKind.WORD_BOUNDARY,
    "B": AssertionKind.NO_WORD_BOUNDARY,
}


@dataclass(frozen=True, slots=True)
class _Flags:
    case: CaseMode = CaseMode.DEFAULT
    is_per_line: bool = True
    dot_takes_newline: bool = False
    is_lazy: bool = False  # `(?U)`: repetitions are lazy by default

    def with_letters(self, letters: str, *, to: bool) -> "_Flags":
        case = (CaseMode.FOLDED if to else CaseMode.EXACT) if "i" in letters else self.case
        return replace(
            self,
            case=case,
            is_per_line=to if "m" in letters else self.is_per_line,
            dot_takes_newline=to if "s" in letters else self.dot_takes_newline,
            is_lazy=to if "U" in letters else self.is_lazy,
        )


@dataclass(slots=True)
class _Group:
    """An open group: the flags to restore at its end, its complete branches, and the branch being read."""

    outer: _Flags
    branches: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def close_branch(self) -> None:
        self.branches.append(_sequence(self.items))
        self.items = []

    def close(self) -> Node:
        self.close_branch()
        return self.branches[0] if len(self.branches) == 1 else Choice(tuple(self.branches))


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = _Flags()
        self.groups = [_Group(self.flags)]

    def read(self) -> Node:
        while self.at < len(self.pattern):
            self._read_one()
        if len(self.groups) != 1:
            raise Unknown("unclosed group")
        return self.groups[0].close()

    def _read_one(self) -> None:
        if found := _PLAIN.match(self.pattern, self.at):
            self.at = found.end()
            return self._push_text(found[0])
        match self.pattern[self.at]:
            case "(":
                self._open_group()
            case ")":
                self._close_group()
            case "|":
                self.at += 1
                self.groups[-1].close_branch()
            case "*" | "+" | "?" | "{":
                self._read_repeat()
            case "\\":
                self._read_backslash()
            case "[":
                parts, is_negated, self.at = read_class(self.pattern, self.at)
                self._push(Class(parts, is_negated, self.flags.case))
            case sign:
                self.at += 1
                self._push(self._sign(sign))
        return None

    def _sign(self, sign: str) -> Node:
        match sign:
            case "^":
                return Assertion(AssertionKind.LINE_START if self.flags.is_per_line else AssertionKind.TEXT_START)
            case "$":
                return Assertion(AssertionKind.LINE_END if self.flags.is_per_line else AssertionKind.TEXT_END)
            case ".":
                return ANY_CHAR if self.flags.dot_takes_newline else ANY_CHAR_OF_LINE
            case _:
                return Chars(sign, self.flags.case)  # an unmatched bracket or brace

    def _push(self, node: Node) -> None:
        self.groups[-1].items.append(node)

    def _push_text(self, chars: str) -> None:
        # One by one, because a repetition applies to the last of them only; `_sequence` joins the others again.
        self.groups[-1].items.extend(Chars(char, self.flags.case) for char in chars)

    def _open_group(self) -> None:
        outer = self.flags
        if found := _NAMED_GROUP.match(self.pattern, self.at):
            self.at = found.end()
        elif found := _FLAGS.match(self.pattern, self.at):
            self.at = found.end()
            self.flags = outer.with_letters(found[1], to=True).with_letters(found[2] or "", to=False)
            if found[3] == ")":
                return  # the flags hold from here to the end of the enclosing group
        elif self.pattern.startswith("(?", self.at):
            raise Unknown(self.pattern[self.at : self.at + 3])
        else:
            self.at += 1
        if len(self.groups) > DEPTH_MAX:
            raise Unknown(f"nested deeper than {DEPTH_MAX}")
        # Flags set inside a group hold to its end, so the outer ones are kept with it.
        self.groups.append(_Group(outer))

    def _close_group(self) -> None:
        if len(self.groups) == 1:
            raise Unknown("unmatched parenthesis")
        group = self.groups.pop()
        self.flags = group.outer
        self.at += 1
        self._push(group.close())

    def _read_repeat(self) -> None:
        found = _REPEAT.match(self.pattern, self.at)
        # RE2 takes a brace that begins no repetition as text.
        if not found:
            self.at += 1
            return self._push_text("{")
        self.at = found.end()
        if found[1] in _SIMPLE_REPEATS:
            least, most = _SIMPLE_REPEATS[found[1]]
        else:
            least = int(found[2])
            most = least if found[3] is None else int(found[4]) if found[4] else None
        if max(least, most or 0) > REPEATS_MAX or (most is not None and most < least) or not self.groups[-1].items:
            raise Unknown(found[0])
        child = self.groups[-1].items.pop()
        self._push(Repeat(child, least, most, is_greedy=bool(found[5]) == self.flags.is_lazy))
        return None

    def _read_backslash(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        if following in _ESCAPED_PLACES:
            self.at += 2
            self._push(Assertion(_ESCAPED_PLACES[following]))
        elif following == "C":
            self.at += 2
            self._push(ANY_CHAR)  # any byte, even inside a character: approximated by any character
        elif following == "Q":
            # RE2 ends `\Q` at the end of the pattern if there is no `\E`.
            quoted, _, _ = self.pattern[self.at + 2 :].partition(r"\E")
            self.at = min(self.at + len(quoted) + 4, len(self.pattern))
            self._push_text(quoted)
        elif named := read_named(self.pattern, self.at):
            part, self.at = named
            self._push(Class((part,), case=self.flags.case))
        else:
            code, self.at = read_escape(self.pattern, self.at)
            self._push_text(chr(code))


def _sequence(items: list[Node]) -> Node:
    """The items in order; adjacent text is joined, nested sequences are flattened."""
    joined: list[Node] = []
    texts: list[str] = []  # to be joined
    case = CaseMode.DEFAULT

    def flush() -> None:
        if texts:
            joined.append(Chars("".join(texts), case))
            texts.clear()

    for item in items:
        for node in item.children if isinstance(item, Sequence) else (item,):
            if isinstance(node, Chars):
                if node.case is not case:
                    flush()
                    case = node.case
                texts.append(node.chars)
            else:
                flush()
                joined.append(node)
    flush()
    return EMPTY if not joined else joined[0] if len(joined) == 1 else Sequence(tuple(joined))


def parse_regex(pattern: str) -> Node:
    """The tree of the pattern; `Opaque` if it is invalid, or valid but not understood here."""
    try:
        return _Reader(pattern).read()
    except Unknown:
        return Opaque()
