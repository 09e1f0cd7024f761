"""Which repositories a query can be about, told by their names alone, and how the query is spelled for a node.

A repository is ruled out only when that is certain: what a name does not tell (flags, aliases, text) counts as unknown,
and unknown stays in.
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

PATTERNS_KEPT_MAX = 256  # what they match is known until the catalog changes


class RepoNameIndex:
    """The names of a catalog, numbered: a set of them is an integer whose i-th bit stands for the i-th name, so that a
    query is asked of all of them at once."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        self.everything = (1 << len(self.names)) - 1
        self._bit_of = {name: i for i, name in enumerate(self.names)}
        self._matches: dict[str, int] = {}

    def bitmap(self, names: Iterable[str]) -> int:
        """The set of those among them that there are."""
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
        """The repositories of which no file can satisfy the query."""
        return self._verdict(query)[1]

    def _verdict(self, query: Query) -> tuple[int, int]:
        """The names that say that every file satisfies the query, and those that say that none does."""
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
                return 0, self._verdict(child)[1]  # of a repository without files not even `type:repo` holds
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
            if len(self._matches) >= PATTERNS_KEPT_MAX:
                self._matches.clear()
            found = self._matches[pattern] = self.bitmap(matching)
        return found


def format_for_nodes(query: Query) -> str:
    """The query as text that a node reads as the same query, asked only of repositories that it does not rule out.

    A set of names or numbers that all must be in is told by routing already. What else only programs can ask for has no
    text.
    """
    if isinstance(query, RepoSet | RepoIds):
        return format_query(Const(True))
    if isinstance(query, And) and any(isinstance(child, RepoSet | RepoIds) for child in query.children):
        query = conjunction(child for child in query.children if not isinstance(child, RepoSet | RepoIds))
    for leaf in leaves(query):
        if isinstance(leaf, RepoSet | RepoIds | BranchesRepos | FileNameSet) or _is_exact(leaf):
            raise Invalid(
                f"{format_query(leaf)} has no text that nodes could be asked: name the repositories beside the query"
            )
    if any(isinstance(part, Boost) for part in parts(query)):
        raise Invalid("a boosted query has no text that nodes could be asked: ask without the boost")
    return format_query_cached(query)


# A query is written out twice on its way, for whoever asked and at once again for the nodes.
format_query_cached = lru_cache(maxsize=1)(format_query)


def parts(query: Query) -> Iterator[Query]:
    """The tree's nodes, each before what is beneath it."""
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
