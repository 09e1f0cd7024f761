"""Routes: which nodes serve which repositories, computed from the watched leases and the catalog.

A repository that is not in the catalog has no route, even if a node holds its lease. A repository without a serving
holder is missing, with the reason. Routes are computed once per change and group repositories with the same holders, so
that routing a query visits a handful of groups instead of every repository.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from argosy.gateway.repo_filter import RepoNameIndex
from argosy.ownership.model import PRIMARY, Lease, LeaseState
from argosy.ownership.view import FleetView
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Missing, MissingReason
from argosy.search.query.tree import Query

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
        matching = selected & ~self._names.excluded_by(query)
        targets = self._selections.get(matching)
        if targets is None:
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
    """Caches the route table of the newest version."""

    def __init__(self, view: FleetView, catalog: CatalogView) -> None:
        self._view = view
        self._catalog = catalog
        self._routes: RouteTable | None = None

    def version(self) -> Version:
        return self._view.leases_version, self._catalog.version

    def routes(self) -> RouteTable:
        version = self.version()
        if self._routes is None or self._routes.version != version:
            self._routes = RouteTable(version, self._view.leases.values(), self._catalog.specs)
        return self._routes


ANSWERING = (LeaseState.READY, LeaseState.DRAINING)


def _by_name(leases: Iterable[Lease], specs: Mapping[str, RepoSpec]) -> dict[str, list[Lease]]:
    """The leases of each repository, primaries first. Successors do not serve until the handoff is complete."""
    found: dict[str, list[Lease]] = {}
    for lease in leases:
        if lease.unit.name in specs and lease.unit.replica >= PRIMARY:
            found.setdefault(lease.unit.name, []).append(lease)
    for held in found.values():
        held.sort(key=lambda lease: lease.unit.replica)
    return found


def _missing_reason(spec: RepoSpec, held: list[Lease]) -> Missing:
    failure = f"; last attempt failed: {spec.last_error}" if spec.last_error else ""
    if held:
        return Missing(spec.name, MissingReason.WARMING, f"{held[0].node} is indexing it{failure}")
    return Missing(spec.name, MissingReason.UNOWNED, f"no node holds a lease{failure}")


def _group_by_holders(holders: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[TargetGroup, ...]:
    by_addresses: dict[tuple[str, ...], list[str]] = {}
    for name, addresses in holders:
        by_addresses.setdefault(tuple(sorted(addresses)), []).append(name)
    return tuple(TargetGroup(addresses, tuple(names)) for addresses, names in sorted(by_addresses.items()))
