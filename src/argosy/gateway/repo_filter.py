"""Repositories that a query excludes by name alone, and the query without the sets that this resolves.

A repository is excluded only when that is certain: conditions that a name does not decide (flags, aliases, text) count
as unknown, and unknown stays in.
"""

from collections.abc import Iterable

from argosy.search.catalog.addresses import repository_id
from argosy.search.query.simplify import conjunction
from argosy.search.query.tree import (
    TRUE,
    And,
    Boost,
    Const,
    Not,
    Or,
    Query,
    Repo,
    RepoIds,
    RepoSet,
    Type,
)
from argosy.search.regex import Pattern

PATTERNS_MAX = 256  # cached pattern results; the catalog's names are fixed for the life of the index


class RepoNameIndex:
    """The repository names of a catalog as bitmaps: bit i of an integer stands for the i-th name.

    Boolean queries over thousands of names become a few integer operations.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        self.everything = (1 << len(self.names)) - 1
        self._bit_of = {name: i for i, name in enumerate(self.names)}
        self._matches: dict[str, int] = {}

    def bitmap(self, names: Iterable[str]) -> int:
        """The bitmap of the names; unknown names are ignored."""
        found = 0
        for name in names:
            if (place := self._bit_of.get(name)) is not None:
                found |= 1 << place
        return found

    def names_of(self, numbers: int) -> list[str]:
        if numbers == self.everything:
            return list(self.names)
        bits = reversed(f"{numbers:0{len(self.names)}b}")
        return [name for name, bit in zip(self.names, bits, strict=False) if bit == "1"]

    def excluded_by(self, query: Query) -> int:
        """The bitmap of the repositories in which no file can match the query."""
        return self._verdict(query)[1]

    def _verdict(self, query: Query) -> tuple[int, int]:
        """The repositories in which every file matches, and those in which none does, as far as names decide."""
        match query:
            case Repo(pattern):
                return self._decide(self._matching(pattern))
            case RepoSet(names):
                return self._decide(self.bitmap(names))
            case RepoIds(ids):
                return self._decide(self.bitmap(name for name in self.names if repository_id(name) in ids))
            case Const(value):
                return self._decide(self.everything if value else 0)
            case And(children):
                return self._all(map(self._verdict, children))
            case Or(children):
                no, yes = self._all((no, yes) for yes, no in map(self._verdict, children))
                return yes, no
            case Not(child):
                yes, no = self._verdict(child)
                return no, yes
            case Boost(child, _):
                return self._verdict(child)
            case Type(_, child):
                return 0, self._verdict(child)[1]  # a repository without files does not even match `type:repo`
            case _:
                return 0, 0

    def _decide(self, yes: int) -> tuple[int, int]:
        return yes, self.everything & ~yes

    def _all(self, verdicts: Iterable[tuple[int, int]]) -> tuple[int, int]:
        every, none = self.everything, 0
        for yes, no in verdicts:
            every &= yes
            none |= no
        return every, none

    def _matching(self, pattern: str) -> int:
        found = self._matches.get(pattern)
        if found is None:
            compiled = Pattern.compile(pattern)
            matching = (name for name in self.names if compiled.matches(name.encode(errors="surrogateescape")))
            if len(self._matches) >= PATTERNS_MAX:
                self._matches.clear()
            found = self._matches[pattern] = self.bitmap(matching)
        return found


def drop_resolved_sets(query: Query) -> Query:
    """The query without the sets of repositories at its top: routing has resolved them, and a request names the
    repositories that it is about. A set of a thousand names would otherwise travel to every node."""
    if isinstance(query, RepoSet | RepoIds):
        return TRUE
    if isinstance(query, And) and any(isinstance(child, RepoSet | RepoIds) for child in query.children):
        return conjunction(child for child in query.children if not isinstance(child, RepoSet | RepoIds))
    return query
