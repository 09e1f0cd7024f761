"""Routes: which repositories a query can match by name, and which nodes serve them.

Routes are computed from the watched leases and the catalog, once per change. They group repositories with the same
holders, so that routing a query visits a handful of groups instead of every repository. A repository that is not in the
catalog has no route, even if a node holds its lease. A repository without a serving holder is missing, with the reason.

A query excludes a repository only when that is certain: conditions that a name does not decide (flags, aliases, text)
count as unknown, and unknown stays in.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from argosy.ownership.model import PRIMARY, Lease, LeaseState
from argosy.ownership.view import FleetView
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Missing, MissingReason
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

    Boolean queries over thousands of names become a few operations on integers of a kilobyte or so.
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
        if numbers == self.everything:  # most queries have no condition on names
            return list(self.names)
        # One conversion in C; testing bit by bit would shift the whole integer for every name.
        bits = reversed(f"{numbers:0{len(self.names)}b}")
        return [name for name, bit in zip(self.names, bits, strict=False) if bit == "1"]

    def decide(self, query: Query) -> tuple[int, int]:
        """The repositories in which every file matches, and those in which none can, as far as names decide.

        Both are needed, because a negation exchanges them.
        """
        match query:
            case Repo(pattern):
                return self._split(self._matching(pattern))
            case RepoSet(names):
                return self._split(self.bitmap(names))
            case RepoIds(ids):
                return self._split(self.bitmap(name for name in self.names if repository_id(name) in ids))
            case Const(value):
                return self._split(self.everything if value else 0)
            case And(children):
                return self._all(map(self.decide, children))
            case Or(children):  # De Morgan: the negation of an And of negations
                no, yes = self._all((no, yes) for yes, no in map(self.decide, children))
                return yes, no
            case Not(child):
                yes, no = self.decide(child)
                return no, yes
            case Boost(child, _):
                return self.decide(child)
            case Type(_, child):
                return 0, self.decide(child)[1]  # a repository without files does not even match `type:repo`
            case _:
                return 0, 0

    def _split(self, yes: int) -> tuple[int, int]:
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
            # Cleared as a whole instead of evicting the oldest: refilling costs less than bookkeeping on every hit.
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


SELECTIONS_MAX = 128  # cached query targets, by the set of repositories

Version = tuple[int, int]  # of the leases and of the catalog


class CatalogView(Protocol):
    """The catalog as last read."""

    @property
    def version(self) -> int: ...

    @property
    def specs(self) -> Mapping[str, RepoSpec]: ...


@dataclass(frozen=True)
class TargetGroup:
    """Repositories served by the same nodes."""

    addresses: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class QueryTargets:
    """The repositories that one query must reach."""

    groups: tuple[TargetGroup, ...]
    missing: tuple[Missing, ...]  # no node serves these
    excluded: int = 0  # repositories that the query excludes by name


class RouteTable:
    """The routes of every repository of the catalog, at one version."""

    def __init__(self, version: Version, leases: Iterable[Lease], specs: Mapping[str, RepoSpec]) -> None:
        self.version = version
        self.holders: dict[str, tuple[str, ...]] = {}  # serving holders, the primary's address first
        self._names = RepoNameIndex(specs)
        self._missing: dict[str, Missing] = {}
        by_name = _by_name(leases, specs)
        for name in self._names.names:
            held = by_name.get(name, [])
            if addresses := tuple(dict.fromkeys(lease.address for lease in held if lease.state in ANSWERING)):
                self.holders[name] = addresses
            else:
                self._missing[name] = _missing_reason(specs[name], held)
        self._everything = QueryTargets(_group_by_holders(self.holders.items()), tuple(self._missing.values()))
        self._selections: dict[int, QueryTargets] = {self._names.everything: self._everything}

    @property
    def missing(self) -> tuple[Missing, ...]:
        return self._everything.missing

    def addresses(self) -> set[str]:
        return {address for group in self._everything.groups for address in group.addresses}

    def targets(self, query: Query, only: Collection[str] | None = None) -> QueryTargets:
        """The targets of a query: the catalog, or the names in `only`, less what the query excludes by name."""
        selected = self._names.everything if only is None else self._names.bitmap(only)
        _, excluded = self._names.decide(query)
        matching = selected & ~excluded
        targets = self._selections.get(matching)
        if targets is None:
            # Cleared as a whole, like the patterns above. Different selections are few: most queries name no
            # repository.
            if len(self._selections) >= SELECTIONS_MAX:
                self._selections.clear()
            targets = self._selections[matching] = self._select(self._names.names_of(matching))
        return targets if selected == matching else replace(targets, excluded=(selected & ~matching).bit_count())

    def _select(self, names: list[str]) -> QueryTargets:
        groups = _group_by_holders((name, self.holders[name]) for name in names if name in self.holders)
        return QueryTargets(groups, tuple(self._missing[name] for name in names if name in self._missing))

    def targets_of(self, name: str) -> QueryTargets:
        if name in self.holders:
            return QueryTargets((TargetGroup(self.holders[name], (name,)),), ())
        return QueryTargets((), (self._missing[name],))


class Router:
    """Caches the route table of the newest version; `on_change` is called when there is a newer one."""

    def __init__(self, view: FleetView, catalog: CatalogView, on_change: Callable[[], None] = lambda: None) -> None:
        self._view = view
        self._catalog = catalog
        self._on_change = on_change
        self._routes: RouteTable | None = None

    def version(self) -> Version:
        return self._view.leases_version, self._catalog.version

    def routes(self) -> RouteTable:
        version = self.version()
        # Built by the next query and not by the change: leases change in bursts, and each build visits the whole
        # catalog.
        if self._routes is None or self._routes.version != version:
            self._routes = RouteTable(version, self._view.leases.values(), self._catalog.specs)
            self._on_change()
        return self._routes


ANSWERING = (LeaseState.READY, LeaseState.DRAINING)


def _by_name(leases: Iterable[Lease], specs: Mapping[str, RepoSpec]) -> dict[str, list[Lease]]:
    """The leases of each repository, primaries first. Successors do not serve until the handoff is complete."""
    result: dict[str, list[Lease]] = {}
    for lease in leases:
        if lease.unit.name in specs and lease.unit.replica >= PRIMARY:
            result.setdefault(lease.unit.name, []).append(lease)
    for held in result.values():
        held.sort(key=lambda lease: lease.unit.replica)
    return result


def _missing_reason(spec: RepoSpec, held: list[Lease]) -> Missing:
    failure = f"; last attempt failed: {spec.last_error}" if spec.last_error else ""
    if held:
        return Missing(spec.name, MissingReason.WARMING, f"{held[0].node} is indexing it{failure}")
    return Missing(spec.name, MissingReason.UNOWNED, f"no node holds a lease{failure}")


def _group_by_holders(holders: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[TargetGroup, ...]:
    by_addresses: dict[tuple[str, ...], list[str]] = {}
    for name, addresses in holders:
        # Sorted, so that repositories whose primaries differ but whose holders are the same share a request.
        by_addresses.setdefault(tuple(sorted(addresses)), []).append(name)
    return tuple(TargetGroup(addresses, tuple(names)) for addresses, names in sorted(by_addresses.items()))
