"""Paths that are not indexed at all: by a repository's own ignore file, and for plain directories by .gitignore.

`IgnoreFile` is `.argosyignore` or `.sourcegraph/ignore` of a repository: one glob per line from its root, `#` for
comments; a line without a glob character excludes every path with this prefix. `GitIgnore` follows git: files nested in
directories, later lines win, `!` includes again, a trailing slash means directories only. Both are written by the
authors of the repository, so an invalid line is ignored (as in git) and never fails a build.
"""

from collections.abc import Sequence

from argosy.base.errors import Invalid
from argosy.search.globs import GLOBS_MAX, AnyOf, to_regex

# The second is Sourcegraph's, which zoekt reads too, so that a repository prepared for those needs no change.
IGNORE_FILES = (b".argosyignore", b".sourcegraph/ignore")
IGNORE_BYTES_MAX = 1 << 20  # of an ignore file; the rest is not read
# The set is zoekt's. The dot is in it, so that a line such as `README.md` is one file and not a prefix.
_GLOB_CHARACTERS = frozenset(b".][*?")


def _lines(text: bytes) -> list[bytes]:
    # Editors on Windows write a byte order mark and CRLF.
    lines = text[:IGNORE_BYTES_MAX].removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r") for line in lines]


class IgnoreFile:
    """A predicate over paths: whether any of several ignore files excludes them."""

    __slots__ = ("_matches", "is_empty")

    def __init__(self, *texts: bytes) -> None:
        patterns = [pattern for text in texts for line in _lines(text) if (pattern := _of_line(line)) is not None]
        self.is_empty = not patterns
        # Truncated, where `AnyOf` would raise: the authors of a repository must not be able to fail its build.
        self._matches = AnyOf(patterns[:GLOBS_MAX])

    def __call__(self, path: bytes) -> bool:
        """Whether the file at this path, relative to the root, is ignored."""
        return not self.is_empty and self._matches(path)


def _of_line(line: bytes) -> bytes | None:
    line = line.strip()
    if not line or line.startswith(b"#"):
        return None
    line = line.removeprefix(b"/")
    if _GLOB_CHARACTERS.isdisjoint(line):
        line += b"**"
    try:
        return to_regex(line)
    except Invalid:
        return None


class _Rule:
    __slots__ = ("_alone", "for_folders_only", "is_negated", "pattern")

    def __init__(self, pattern: bytes, *, is_negated: bool, for_folders_only: bool) -> None:
        self.pattern = pattern
        self.is_negated = is_negated
        self.for_folders_only = for_folders_only
        self._alone: AnyOf | None = None

    def matches(self, path: bytes) -> bool:
        """Whether this rule matches. Compiled at the first call: most paths match no rule at all, in one pass."""
        if self._alone is None:
            self._alone = AnyOf([self.pattern])
        return self._alone(path)


class GitIgnore:
    """The .gitignore files from the root to a directory, the deepest first.

    For a traversal from the root that checks each path before it descends: an ignored directory excludes everything in
    it, as in git. Immutable; `inside` returns the rules for a directory with a .gitignore of its own.
    """

    __slots__ = ("_any", "_folder", "_outer", "_rules")

    def __init__(self, text: bytes = b"", folder: bytes = b"", outer: "GitIgnore | None" = None) -> None:
        self._folder = folder + b"/" if folder else b""
        self._outer = outer
        rules = [rule for line in _lines(text) if (rule := _git_rule(line)) is not None]
        self._rules: Sequence[_Rule] = rules[:GLOBS_MAX]
        # All rules as one pattern first: nearly every path matches none, and the rules are tried one by one only
        # otherwise.
        self._any = AnyOf(rule.pattern for rule in self._rules)

    def inside(self, folder: bytes, text: bytes) -> "GitIgnore":
        """The rules for a directory (its path from the root) with this .gitignore."""
        return GitIgnore(text, folder, self)

    def is_ignored(self, path: bytes, *, is_folder: bool = False) -> bool:
        """Whether this path is ignored, given that its directory is not."""
        # The deepest file with a matching rule decides, as in git; those above it are consulted only if it has none.
        level: GitIgnore | None = self
        while level is not None:
            is_ignored = level._last_rule(path, is_folder)
            if is_ignored is not None:
                return is_ignored
            level = level._outer
        return False

    def _last_rule(self, path: bytes, is_folder: bool) -> bool | None:
        if not self._rules or not path.startswith(self._folder):
            return None
        # Rules are relative to the directory of their file.
        rest = path[len(self._folder) :]
        if not self._any(rest):
            return None
        for rule in reversed(self._rules):
            if (is_folder or not rule.for_folders_only) and rule.matches(rest):
                return not rule.is_negated
        return None


def _git_rule(line: bytes) -> _Rule | None:
    if line.startswith(b"#"):
        return None
    line = _without_trailing_blanks(line)
    is_negated = line.startswith(b"!")
    line = line[is_negated:]
    for_folders_only = line.endswith(b"/")
    line = line[:-1] if for_folders_only else line
    if not line:
        return None
    # A slash anywhere but at the end anchors the rule at its directory; without one it matches at any depth.
    is_anchored = b"/" in line
    parts = line.removeprefix(b"/").split(b"/")
    # In git, `**` has its meaning only as a whole component; elsewhere it is a star.
    plain = b"/".join(part if part == b"**" else _one_star(part) for part in parts)
    if not is_anchored:
        plain = b"**/" + plain
    elif plain.endswith(b"/**"):
        plain += b"/*"  # everything inside, but not the directory itself
    try:
        pattern = to_regex(plain, with_braces=False)
    except Invalid:
        return None
    return _Rule(pattern, is_negated=is_negated, for_folders_only=for_folders_only)


def _without_trailing_blanks(line: bytes) -> bytes:
    """Trailing blanks do not count unless a backslash precedes them."""
    stripped = line.rstrip(b" ")
    if stripped.endswith(b"\\") and (len(stripped) - len(stripped.rstrip(b"\\"))) % 2 and len(stripped) < len(line):
        return stripped + b" "
    return stripped


def _one_star(part: bytes) -> bytes:
    """Several stars inside a name mean the same as one."""
    while b"**" in part:
        part = part.replace(b"**", b"*")
    return part
