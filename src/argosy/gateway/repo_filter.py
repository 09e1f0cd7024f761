"""Repositories that a query excludes by name alone, and the text of a query as sent to nodes.

A repository is excluded only when that is certain: conditions that a name does not decide (flags, aliases, text) count
as unknown, and unknown stays in.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from argosy.base.errors import Invalid
from argosy.search.catalog.addresses import repository_id
from argosy.search.query.format import format_query
from argosy.search.query.simplify import conjunction
from argosy.search.query.tree import (
    And,
    Boost,
    Branch,
    BranchesRepos,
    Const,
    FileNameSet,
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


def format_for_nodes(query: Query) -> str:
    """The query as text that a node parses to the same query, for repositories that the query does not exclude.

    Sets of names or ids at the top level are resolved by routing already and dropped. Other leaves that only programs
    can build have no text and are rejected.
    """
    if isinstance(query, RepoSet | RepoIds):
        return format_query(Const(True))
    if isinstance(query, And) and any(isinstance(child, RepoSet | RepoIds) for child in query.children):
        query = conjunction(child for child in query.children if not isinstance(child, RepoSet | RepoIds))
    for leaf in leaves(query):
        if isinstance(leaf, RepoSet | RepoIds | BranchesRepos | FileNameSet) or _is_exact(leaf):
            raise Invalid(
                f"{format_query(leaf)} cannot be sent to nodes as text; pass the repository names in `repositories`"
            )
    if any(isinstance(part, Boost) for part in parts(query)):
        raise Invalid("boosted queries cannot be sent to nodes; remove the boost")
    return format_query_cached(query)


# An API formats the query for its response and the gateway formats it for nodes right after: one entry serves both.
format_query_cached = lru_cache(maxsize=1)(format_query)


def parts(query: Query) -> Iterator[Query]:
    """The nodes of the tree in pre-order."""
    yield query
    match query:
        case And(children) | Or(children):
            for child in children:
                yield from parts(child)
        case Not(child) | Type(_, child) | Boost(child, _):
            yield from parts(child)


def leaves(query: Query) -> Iterator[Query]:
    return (part for part in parts(query) if not isinstance(part, And | Or | Not | Type | Boost))


def _is_exact(leaf: Query) -> bool:
    return isinstance(leaf, Branch) and leaf.is_exact
