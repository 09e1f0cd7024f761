"""The gateway: sends a query to the nodes that hold the repositories and merges their results into one.

    gateway = Gateway(nodes, watcher.view, catalog)
    answer = await gateway.search(parse("needle").query, Options())

Nothing here waits for a store: leases and catalog are local copies, kept current by watches. An incomplete result names
what is missing (GW-1); if every repository is missing, the query fails with `Unserved` and a retry estimate.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from types import TracebackType
from typing import NamedTuple, TypeVar

from msgspec import structs

from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import ArgosyError, NotFound, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.shared_calls import SingleFlight
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.gateway.cache import SearchCache
from argosy.gateway.dispatcher import Call, Dispatcher
from argosy.gateway.fleet_status import build_fleet_status, node_addresses
from argosy.gateway.load_balancer import BreakerState, LoadBalancer
from argosy.gateway.merge import merge_listings, merge_results, select_repositories
from argosy.gateway.ports import FleetStatus, Overloaded, Unserved
from argosy.gateway.route import CatalogView, QueryTargets, Router, RouteTable, drop_resolved_sets
from argosy.gateway.scatter_runner import ScatterRunner
from argosy.gateway.settings import GatewaySettings
from argosy.gateway.telemetry import GatewayTelemetry
from argosy.ownership.autoscale import Autoscaler, ScaleSignal
from argosy.ownership.events import CatalogRead
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView
from argosy.search.catalog.watcher import unit_from_spec
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    SearchRequest,
)
from argosy.search.fleet.ports import Node, Nodes
from argosy.search.model import Missing, Options, Repository, SearchResult
from argosy.search.query.codec import encode_query
from argosy.search.query.tree import Query

T = TypeVar("T")

# Attempts of one search while searched repositories are removed from the catalog; one removal costs one more attempt.
ATTEMPTS_MAX = 3


class _Search(NamedTuple):
    """One search, with the routes at its start: if they change meanwhile, its result is not cached."""

    encoded: bytes  # the query as nodes receive it
    query: Query
    options: Options
    only: frozenset[str] | None
    routes: RouteTable

    @property
    def key(self) -> tuple[bytes, Options, frozenset[str] | None]:
        """The key of the answer cache, together with the routes' version. The encoded tree and not the text, so that
        queries which differ only in spelling share an answer."""
        return self.encoded, self.options, self.only

    def send(self, node: Node, names: tuple[str, ...], left_s: float) -> Awaitable[SearchResult]:
        # Matches stay encoded until the merge has decided which files are shown (decision 0033).
        options = structs.replace(self.options, wall_time_s=left_s, pre_encoded=True)
        return node.search(SearchRequest(self.encoded, names, options))


class Gateway:
    """Implements `search.ports.Searcher` for the whole fleet, and `SearchGateway` for the APIs."""

    def __init__(
        self,
        nodes: Nodes,
        view: FleetView,
        catalog: CatalogView,
        settings: GatewaySettings | None = None,
        *,
        ownership: OwnershipSettings | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: Metrics | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self.settings = settings = settings or GatewaySettings()
        self._nodes = nodes
        self._view = view
        self._catalog = catalog
        self._clock = clock or SystemClock()
        self._tracer = tracer
        self._telemetry = GatewayTelemetry(metrics or Metrics())
        # Through a lambda, because balancer and router need each other.
        self._balancer = LoadBalancer(
            settings, random or system_random(), lambda name: self._router.routes().holders.get(name, ())
        )
        self._router = Router(view, catalog, self._remove_gone_nodes)
        self._dispatcher = Dispatcher(nodes, self._balancer, settings, self._telemetry, self._clock)
        self._cache = SearchCache(
            entries_max=settings.cache_entries, bytes_max=settings.cache_bytes, ttl_s=settings.cache_ttl_s
        )
        self._searches: SingleFlight[SearchResult] = SingleFlight()
        self._statuses: SingleFlight[FleetStatus] = SingleFlight()
        # Cached, because pages and APIs poll it, and each reading costs a request to every node.
        self._status: FleetStatus | None = None
        self._status_until = 0.0
        self._autoscaler = Autoscaler(ownership or OwnershipSettings())
        self._specs_version = 0

    def is_ready(self) -> bool:
        """Whether leases and catalog have been loaded."""
        return self._view.has_synced and self._catalog.version > 0

    def missing(self) -> tuple[Missing, ...]:
        """The repositories of the catalog without a serving holder."""
        return self._router.routes().missing

    # -- searching --------------------------------------------------------------------------------------------------

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        """Search the catalog, or the repositories named in `only`."""
        with _QueryTracker(self._telemetry, self._clock) as tracker:
            search = self._begin_search(query, options, only)
            answer = self._lookup_cached(search)
            if answer is None:
                # With the version: a search that began before a change must not answer one that begins after it.
                key = (search.key, search.routes.version)
                self._telemetry.record_source("shared" if key in self._searches else "nodes")
                answer = await self._searches.run(key, lambda: self._scatter_gather(search))
            tracker.on_result(answer)
            return answer

    async def stream(
        self, query: Query, options: Options, *, only: Collection[str] | None = None
    ) -> AsyncIterator[SearchResult]:
        """Yield partial results as nodes respond, each repository once; the last one is the whole merged result."""
        with _QueryTracker(self._telemetry, self._clock) as tracker:
            search = self._begin_search(query, options, only)
            answer = self._lookup_cached(search)
            if answer is None:
                self._telemetry.record_source("nodes")
                sent: set[str] = set()
                targets = self._targets(search)
                async with self._dispatcher.scatter(
                    targets, search.send, _missing_of, wall_s=options.wall_time_s
                ) as runner:
                    while await runner.step():
                        if not runner.machine.is_over:
                            for part, names in runner.fresh(sent):
                                # What a node lacks is requested from others; only the whole result knows what is
                                # missing in the end.
                                yield structs.replace(select_repositories(part, names), missing=())
                    answer = self._merge(search, runner, targets.excluded)
            tracker.on_result(answer)
            yield answer

    async def list(self, query: Query, *, only: Collection[str] | None = None) -> ListResult:
        """List the repositories that match the query, and those that could not be checked."""
        search = self._begin_search(query, Options(), only)

        def send(node: Node, names: tuple[str, ...], left_s: float) -> Awaitable[ListResult]:
            return node.list(SearchRequest(search.encoded, names, Options(wall_time_s=left_s)))

        async with self._dispatcher.scatter(self._targets(search), send, lambda listing: listing.missing) as runner:
            await runner.wait_done()
            missing = runner.missing()
            specs = self._catalog.specs
            found = merge_listings(runner.answers(), (each for each in missing if each.repository in specs))
        return structs.replace(found, entries=tuple(e for e in found.entries if e.repository.name in specs))

    async def repositories(self, query: Query) -> tuple[Repository, ...]:
        """As `list`, but raises Unserved if some repositories could not be checked."""
        listing = await self.list(query)
        if listing.missing:
            raise Unserved(listing.missing)
        return tuple(entry.repository for entry in listing.entries)

    async def file(self, request: FileRequest) -> FileText:
        """Read a file; raises NotFound if the repository or the file does not exist."""
        return await self._call_holder(request.repository, lambda node, _, __: node.file(request))

    async def folder(self, request: FolderRequest) -> FolderListing:
        return await self._call_holder(request.repository, lambda node, _, __: node.folder(request))

    async def _call_holder(self, name: str, call: Call[T]) -> T:
        """Call one of the repository's holders, with retries on the others."""
        self._check_ready()
        if name not in self._catalog.specs:
            raise NotFound(f'repository "{name}" not found in the catalog')
        targets = self._router.routes().targets_of(name)
        async with self._dispatcher.scatter(targets, call, lambda _: ()) as runner:
            await runner.wait_done()
            runner.missing()
            # One repository, so exactly one response was accepted.
            [answer] = runner.answers()
            return answer

    def _begin_search(self, query: Query, options: Options, only: Collection[str] | None) -> _Search:
        self._check_ready()
        routes = self._router.routes()
        encoded = encode_query(drop_resolved_sets(query))
        return _Search(encoded, query, options, None if only is None else frozenset(only), routes)

    def _lookup_cached(self, search: _Search) -> SearchResult | None:
        answer = self._cache.get(search.key, search.routes.version, self._clock.now())
        if answer is not None:
            self._telemetry.record_source("cache")
        return answer

    def _targets(self, search: _Search) -> QueryTargets:
        with self._tracer.span("gateway route") as span:
            targets = search.routes.targets(search.query, search.only)
            span.set("groups", len(targets.groups))
            span.set("missing", len(targets.missing))
            return targets

    async def _scatter_gather(self, search: _Search) -> SearchResult:
        """Scatter and merge, again if a searched repository was removed meanwhile: its matches are in the counts."""
        with self._tracer.span("gateway search"):
            for attempt in range(1, ATTEMPTS_MAX + 1):
                targets = self._targets(search)
                with self._tracer.span("gateway scatter"):
                    async with self._dispatcher.scatter(
                        targets, search.send, _missing_of, wall_s=search.options.wall_time_s
                    ) as runner:
                        await runner.wait_done()
                        answer = self._merge(search, runner, targets.excluded)
                if attempt == ATTEMPTS_MAX or not self._has_removed_target(search, targets):
                    break
                search = search._replace(routes=self._router.routes())
            return answer

    def _has_removed_target(self, search: _Search, targets: QueryTargets) -> bool:
        """Whether a searched repository is no longer in the catalog."""
        if self._catalog.version == search.routes.version[1]:
            return False
        specs = self._catalog.specs
        return any(name not in specs for group in targets.groups for name in group.names)

    def _merge(self, search: _Search, runner: ScatterRunner[SearchResult], excluded: int) -> SearchResult:
        with self._tracer.span("gateway merge"):
            missing, answers = runner.missing(), runner.answers()
            if self._catalog.version != search.routes.version[1]:
                # Repositories removed from the catalog meanwhile are dropped from the result.
                specs = self._catalog.specs
                missing = [each for each in missing if each.repository in specs]
                answers = [select_repositories(answer, specs) for answer in answers]
            answer = merge_results(answers, search.options, missing=missing, excluded=excluded)
        # A result computed across a change belongs to neither version.
        if self._router.version() == search.routes.version:
            self._cache.put(search.key, search.routes.version, answer, self._clock.now())
            self._telemetry.record_cache_bytes(self._cache.held_bytes)
        return answer

    # -- the fleet --------------------------------------------------------------------------------------------------

    async def status(self, *, is_fresh: bool = False) -> FleetStatus:
        """The fleet at most `status_s` ago; nodes that do not respond in time are shown with the error.

        `is_fresh` bypasses the cache. Only this process uses it: a request from outside must not cost one to every
        node.
        """
        self._check_ready()
        if not is_fresh and self._status is not None and self._clock.now() < self._status_until:
            return self._status
        return await self._statuses.run("status", self._refresh_status)

    def breakers(self) -> dict[str, BreakerState]:
        """The state of the circuit breaker of each address."""
        return self._balancer.states()

    def scale(self) -> ScaleSignal:
        """The desired number of nodes, as this gateway sees it."""
        self._check_ready()
        now = self._clock.now()
        # Only when the catalog has changed: creating the units visits every row.
        if self._specs_version != self._catalog.version:
            self._specs_version = self._catalog.version
            specs = self._catalog.specs.values()
            units = map(unit_from_spec, specs)
            self._view.apply(CatalogRead(tuple(units)), now)
        return self._autoscaler.signal(self._view, now)

    async def _refresh_status(self) -> FleetStatus:
        nodes = node_addresses(self._view)
        reports = dict(zip(nodes, await asyncio.gather(*map(self._fetch_status, nodes)), strict=True))
        now = self._clock.now()
        self._status = build_fleet_status(
            self._view,
            self._catalog.specs,
            reports,
            self.scale(),
            open_circuits=[each for each, state in self.breakers().items() if state is not BreakerState.CLOSED],
            now=now,
            wall=self._clock.wall(),
        )
        self._status_until = now + self.settings.status_s
        return self._status

    async def _fetch_status(self, address: str) -> NodeStatus | str:
        try:
            async with asyncio.timeout(self.settings.status_timeout_s):
                return await self._nodes.at(address).status()
        # Before OSError, of which TimeoutError is a subclass.
        except TimeoutError:
            return f"timed out after {self.settings.status_timeout_s:g} s"
        # Shown beside the node: one broken node must not hide the others.
        except (ArgosyError, OSError) as why:
            return str(why)

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if not self.is_ready():
            what = "leases" if not self._view.has_synced else "catalog"
            raise Unavailable(f"gateway starting: {what} not loaded yet; retry")

    def _remove_gone_nodes(self) -> None:
        """Drop the statistics of nodes that left the fleet; addresses of containers never come back."""
        self._telemetry.remove_nodes(self._balancer.retain_only(node_addresses(self._view)))


class _QueryTracker:
    """Records the outcome of a query when it ends; "cancelled" until a result or an error is seen."""

    def __init__(self, telemetry: GatewayTelemetry, clock: Clock) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._began = clock.now()
        self._outcome = "cancelled"
        self._missing: tuple[Missing, ...] = ()

    def on_result(self, answer: SearchResult) -> None:
        self._missing = answer.missing
        self._outcome = "partial" if answer.missing else "complete"

    def __enter__(self) -> "_QueryTracker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        match error:
            case Unserved():
                self._outcome, self._missing = "unserved", error.missing
            case Overloaded():
                self._outcome = "overloaded"
            case ArgosyError():
                self._outcome = "refused"
        self._telemetry.record_query(self._outcome, self._missing, self._clock.now() - self._began)


def _missing_of(answer: SearchResult) -> tuple[Missing, ...]:
    return answer.missing
