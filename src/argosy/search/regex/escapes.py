r"""The smallest parts of RE2 syntax: escapes, named sets and bracketed classes.

Each reader is given the pattern and where to begin, and returns what stands there and where it ends. `Unknown` is
raised for everything else, whether RE2 would take it or not: the engine judges what is valid, this is only a reading.
"""

import re
from typing import TypeAlias

from argosy.search.regex.tree import CODE_POINT_MAX, Named, Range

_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "a": 0x07, "f": 0x0C, "v": 0x0B}
_HEX = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")  # a single digit from 1 up would be a back-reference
_UNICODE_GROUP = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|([^{]))")
_PERL = frozenset("dsw")
_POSIX = frozenset(
    f"[:{name}:]"
    for name in (
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "word", "xdigit",
    )
)  # fmt: skip

ClassParts: TypeAlias = tuple[Range | Named, ...]


class Unknown(Exception):
    """This is not RE2 syntax, or not a part of it that is understood here."""


def read_escape(pattern: str, at: int) -> tuple[int, int]:
    """The code point of the escape that begins with the backslash at `at`, and where it ends."""
    following = pattern[at + 1 : at + 2]
    if following in _CONTROLS and following:
        return _CONTROLS[following], at + 2
    if found := _HEX.match(pattern, at + 1):
        digits = (found[1] or found[2]).lstrip("0")
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
        return None  # then the bracket stands for itself
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
    """The parts of the class that begins with the bracket at `at`, whether it is negated, and where it ends."""
    at += 1
    is_negated = pattern.startswith("^", at)
    at += is_negated
    parts: list[Range | Named] = []
    while not pattern.startswith("]", at) or not parts:  # a bracket that comes first stands for itself
        named = read_named(pattern, at)
        part, at = named if named else _read_range(pattern, at)
        parts.append(part)
    return tuple(parts), is_negated, at + 1


def _read_range(pattern: str, at: int) -> tuple[Range, int]:
    low, at = _read_member(pattern, at)
    if not pattern.startswith("-", at) or pattern.startswith("]", at + 1) or at + 1 >= len(pattern):
        return Range(low, low), at
    high, at = _read_member(pattern, at + 1)
    if high < low:
        raise Unknown(f"{chr(low)}-{chr(high)}")
    return Range(low, high), at


def _read_member(pattern: str, at: int) -> tuple[int, int]:
    if at >= len(pattern):
        raise Unknown("a class without its end")
    if pattern[at] == "\\":
        return read_escape(pattern, at)
    return ord(pattern[at]), at + 1
