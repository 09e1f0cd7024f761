"""Globs over paths, translated once into one linear-time pattern: no glob can make matching slow.

`?` and `*` do not match a slash, `**` does, `**/` is any number of directories or none, `[a-z]` and `[!a-z]` are sets
of bytes without the slash, `{a,b}` is a choice, a backslash makes the next byte literal.
"""

import re
from collections.abc import Iterable, Sequence

from argosy.base.errors import Invalid
from argosy.search.regex.engine import Scanner

GLOB_BYTES_MAX = 1024  # the longest path git can check out is 4,096
GLOBS_MAX = 4096  # in one list
_GLOBS_PER_PATTERN = 256  # a larger automaton costs more memory than it saves time
_CHOICES_MAX = 64  # braces in one glob
_SLASH = ord("/")
# The ASCII members of POSIX classes: a glob is over bytes and knows no locale.
_POSIX_SETS = {
    b"alpha": b"A-Za-z", b"digit": b"0-9", b"alnum": b"A-Za-z0-9", b"upper": b"A-Z", b"lower": b"a-z",
    b"space": b" \t\n\r\f\v", b"xdigit": b"0-9A-Fa-f", b"punct": b"!-/:-@[-`{-~", b"blank": b" \t",
}  # fmt: skip


def to_regex(glob: bytes, *, with_braces: bool = True) -> bytes:
    """The regular expression of a glob, without anchors."""
    if len(glob) > GLOB_BYTES_MAX:
        raise Invalid(f"glob too long: {len(glob)} bytes, limit {GLOB_BYTES_MAX}")
    pieces: list[bytes] = []
    braces, position = 0, 0
    while position < len(glob):
        byte = glob[position : position + 1]
        if byte == b"*":
            piece, position = _stars(glob, position)
        elif byte == b"[":
            piece, position = _set(glob, position)
        elif byte == b"\\" and position + 1 < len(glob):
            piece, position = re.escape(glob[position + 1 : position + 2]), position + 2
        elif byte == b"?":
            piece, position = b"[^/]", position + 1
        elif with_braces and byte in b"{,}" and (byte == b"{" or braces):
            piece, position = {b"{": b"(?:", b",": b"|", b"}": b")"}[byte], position + 1
            braces += {b"{": 1, b",": 0, b"}": -1}[byte]
            # Nested choices multiply the size of the automaton.
            if glob.count(b"{") > _CHOICES_MAX:
                raise Invalid(f"more than {_CHOICES_MAX} braces in a glob; split it")
        else:
            piece, position = _literal(byte), position + 1
        pieces.append(piece)
    # Unlike a shell, which would match the brace itself: a list of globs is configuration, where a typing error must
    # show.
    if braces:
        raise Invalid(f"unclosed brace in glob {glob!r}; add }} or write \\{{")
    return b"".join(pieces)


def _literal(byte: bytes) -> bytes:
    # Escaped by number, so that no byte, punctuation or not UTF-8, can have a meaning in RE2.
    return byte if byte.isalnum() or byte in b"_/" else b"\\x%02x" % ord(byte)


def _stars(glob: bytes, position: int) -> tuple[bytes, int]:
    end = position
    # Three stars and more mean the same as two.
    while glob[end : end + 1] == b"*":
        end += 1
    if end - position == 1:
        return b"[^/]*", end
    # Only as a whole path component: in `a**/b` the stars are part of a name, and the slash stays mandatory.
    if glob[end : end + 1] == b"/" and (position == 0 or glob[position - 1] == _SLASH):
        return b"(?:.*/)?", end + 1
    return b".*", end


def _set(glob: bytes, position: int) -> tuple[bytes, int]:
    """A set as a list of its bytes, without the slash. As a list it cannot be misread as regex syntax."""
    start = position + 1
    is_negated = glob[start : start + 1] in (b"!", b"^")
    start += is_negated
    members: set[int] = set()
    here = start
    # As in POSIX, a bracket that comes first is a member and does not close the set.
    while here < len(glob) and (glob[here : here + 1] != b"]" or here == start):
        if glob[here : here + 2] == b"[:" and b":]" in glob[here + 2 :]:
            name, _, _ = glob[here + 2 :].partition(b":]")
            members |= _ranges(_POSIX_SETS.get(name, b""))
            here += len(name) + 4
            continue
        first, here = _member(glob, here)
        last = first
        if glob[here : here + 1] == b"-" and glob[here + 1 : here + 2] not in (b"]", b""):
            last, here = _member(glob, here + 1)
        members.update(range(first, last + 1))
    if here >= len(glob):
        raise Invalid(f"unclosed bracket in glob {glob!r}; add ] or write \\[")
    # Neither a set nor its complement matches a slash: a glob without `**` stays within one directory.
    chosen = (set(range(256)) - members if is_negated else members) - {_SLASH}
    spelled = b"".join(b"\\x%02x" % member for member in sorted(chosen))
    # A set without members, such as `[/]`, matches nothing; RE2 has no empty set, but a set that excludes every byte.
    return (b"[" + spelled + b"]" if chosen else rb"[^\x00-\xff]"), here + 1


def _member(glob: bytes, position: int) -> tuple[int, int]:
    if glob[position : position + 1] == b"\\" and position + 1 < len(glob):
        position += 1
    return glob[position], position + 1


def _ranges(spelled: bytes) -> set[int]:
    if spelled[1:2] != b"-":
        return set(spelled)
    found: set[int] = set()
    for start in range(0, len(spelled), 3):
        found.update(range(spelled[start], spelled[start + 2] + 1))
    return found


class AnyOf:
    """Whether a path matches one of many regular expressions, in one pass (or few) over the path."""

    __slots__ = ("_scanners",)

    def __init__(self, patterns: Iterable[bytes]) -> None:
        each = [b"(?:" + pattern + b")" for pattern in patterns]
        if len(each) > GLOBS_MAX:
            raise Invalid(f"{len(each)} globs, limit {GLOBS_MAX}; use fewer, wider ones")
        self._scanners = [
            # With (?s), because a path may contain a newline.
            Scanner(rb"(?s)\A(?:" + b"|".join(each[start : start + _GLOBS_PER_PATTERN]) + rb")\z")
            for start in range(0, len(each), _GLOBS_PER_PATTERN)
        ]

    def __call__(self, path: bytes) -> bool:
        return any(scanner.is_in(path) for scanner in self._scanners)


class GlobList:
    """A list of globs in which later ones win and `!` excludes again: `("**/*.json", "!test/**")`."""

    __slots__ = ("_rules",)

    def __init__(self, globs: Sequence[str]) -> None:
        if len(globs) > GLOBS_MAX:
            raise Invalid(f"{len(globs)} globs, limit {GLOBS_MAX}; use fewer, wider ones")
        # One pattern for each glob, unlike `AnyOf`: which glob matched last decides.
        rules = [(glob.removeprefix("!"), not glob.startswith("!")) for glob in globs]
        self._rules = [(AnyOf([to_regex(glob.encode("utf-8", "surrogateescape"))]), yes) for glob, yes in rules]

    def __call__(self, path: bytes) -> bool:
        return next((yes for matches, yes in reversed(self._rules) if matches(path)), False)
