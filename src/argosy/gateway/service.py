"""The front door: puts a query to the nodes that hold the repositories, and makes one answer of theirs.

    gateway = Gateway(nodes, onlooker.view, catalog)
    answer = await gateway.search(parse("needle").query, Options())

Nothing here waits for a store: who holds what and what is wished for is watched elsewhere. An answer that is not
complete says so (GW-1); if nothing at all can be had, that is an error which says when to come back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from types import TracebackType
from typing import NamedTuple, TypeVar

from msgspec import structs

from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import ArgosyError, NotFound, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.single_flight import SingleFlight
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.gateway.breaker import BreakerState
from argosy.gateway.cache import SearchCache
from argosy.gateway.dispatcher import Call, Dispatcher
from argosy.gateway.errors import Overloaded, Unserved
from argosy.gateway.fleet_status import addresses, overview
from argosy.gateway.load_balancer import Chooser
from argosy.gateway.merge import merged, merged_listing, ranked_part
from argosy.gateway.model import FleetStatus
from argosy.gateway.repo_filter import spelled
from argosy.gateway.route import Router, Routes, Wanted, Wishes
from argosy.gateway.scatter_runner import Scattering
from argosy.gateway.settings import GatewaySettings
from argosy.gateway.telemetry import Teller
from argosy.ownership.autoscale import Autoscaler, ScaleSignal
from argosy.ownership.events import CatalogRead
from argosy.ownership.model import UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView
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
from argosy.search.model import Answer, Missing, Options, Repository
from argosy.search.query.tree import Query

T = TypeVar("T")

GATHERINGS_MAX = 3  # of one search, while repositories are taken out of the catalog


class _Search(NamedTuple):
    """One search, and the routes as they were when it began."""

    text: str
    query: Query
    options: Options
    only: frozenset[str] | None
    routes: Routes

    @property
    def key(self) -> tuple[str, Options, frozenset[str] | None]:
        return self.text, self.options, self.only


class Gateway:
    """Implements `search.ports.Searcher` for the fleet, and answers all else that a front door is asked."""

    def __init__(
        self,
        nodes: Nodes,
        view: FleetView,
        catalog: Wishes,
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
        self._teller = Teller(metrics or Metrics())
        self._chooser = Chooser(settings, random or system_random())
        self._router = Router(view, catalog)
        self._known_version = (0, 0)
        self._dispatcher = Dispatcher(nodes, self._router, self._chooser, settings, self._teller, self._clock)
        self._cache = SearchCache(
            entries_max=settings.cache_entries, bytes_max=settings.cache_bytes, ttl_s=settings.cache_ttl_s
        )
        self._searches: SingleFlight[Answer] = SingleFlight()
        self._statuses: SingleFlight[FleetStatus] = SingleFlight()
        self._status: FleetStatus | None = None
        self._status_until = 0.0
        self._autoscaler = Autoscaler(ownership or OwnershipSettings())
        self._specs_version = 0

    def is_ready(self) -> bool:
        """Whether this front door knows the fleet and the catalog."""
        return self._view.is_current and self._catalog.version > 0

    def missing(self) -> tuple[Missing, ...]:
        """The repositories of the catalog that no node can be asked for now."""
        return self._current_routes().missing

    # -- searching --------------------------------------------------------------------------------------------------

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> Answer:
        """The best matches in the repositories of the catalog, or in those named in `only`."""
        with self._counted() as ending:
            search = self._opened(query, options, only)
            answer = self._kept(search)
            if answer is None:
                key = (search.key, search.routes.version)
                self._teller.source("shared" if key in self._searches else "nodes")
                answer = await self._searches.run(key, lambda: self._gathered(search))
            ending.saw(answer)
            return answer

    async def stream(
        self, query: Query, options: Options, *, only: Collection[str] | None = None
    ) -> AsyncIterator[Answer]:
        """What nodes answer as they answer, each repository once; the last one is the whole answer."""
        with self._counted() as ending:
            search = self._opened(query, options, only)
            answer = self._kept(search)
            if answer is None:
                self._teller.source("nodes")
                told: set[str] = set()
                wanted = self._wanted(search)
                async with self._dispatcher.scattered(
                    wanted, _searching(search), _not_searched, wall_s=options.wall_time_s
                ) as work:
                    while await work.step():
                        if not work.machine.is_over:
                            for part, names in work.fresh(told):
                                yield structs.replace(ranked_part(part, names), missing=())
                    answer = self._finished(search, work, wanted.excluded)
            ending.saw(answer)
            yield answer

    async def list(self, query: Query, *, only: Collection[str] | None = None) -> ListResult:
        """The repositories that satisfy the query, and those nobody could look at."""
        search = self._opened(query, Options(), only)

        async def ask(node: Node, names: tuple[str, ...], left_s: float) -> ListResult:
            return await node.list(SearchRequest(search.text, names, Options(wall_time_s=left_s)))

        async with self._dispatcher.scattered(self._wanted(search), ask, lambda listing: listing.missing) as work:
            await work.settled()
            missing = work.missing()
            specs = self._catalog.specs
            found = merged_listing(work.answers(), (each for each in missing if each.repository in specs))
        return structs.replace(found, entries=tuple(e for e in found.entries if e.repository.name in specs))

    async def repositories(self, query: Query) -> tuple[Repository, ...]:
        """As `list`, for those who need all of them: Unavailable if some could not be looked at."""
        listing = await self.list(query)
        if listing.missing:
            raise Unserved(listing.missing)
        return tuple(entry.repository for entry in listing.entries)

    async def file(self, asked: FileRequest) -> FileText:
        """NotFound if there is no such repository or file."""
        return await self._one(asked.repository, lambda node, _, __: node.file(asked))

    async def folder(self, asked: FolderRequest) -> FolderListing:
        return await self._one(asked.repository, lambda node, _, __: node.folder(asked))

    async def _one(self, name: str, call: Call[T]) -> T:
        """What one of the repository's holders says."""
        self._check_ready()
        if name not in self._catalog.specs:
            raise NotFound(f"no repository {name!r} is in the catalog: ask for the list of those that are")
        wanted = self._current_routes().wanted_one(name)
        async with self._dispatcher.scattered(wanted, call, lambda _: ()) as work:
            await work.settled()
            work.missing()
            [answer] = work.answers()
            return answer

    def _opened(self, query: Query, options: Options, only: Collection[str] | None) -> _Search:
        self._check_ready()
        routes = self._current_routes()
        return _Search(spelled(query), query, options, None if only is None else frozenset(only), routes)

    def _kept(self, search: _Search) -> Answer | None:
        answer = self._cache.get(search.key, search.routes.version, self._clock.now())
        if answer is not None:
            self._teller.source("cache")
        return answer

    def _wanted(self, search: _Search) -> Wanted:
        with self._tracer.span("gateway route") as span:
            wanted = search.routes.wanted(search.query, search.only)
            span.set("groups", len(wanted.groups))
            span.set("missing", len(wanted.missing))
            return wanted

    async def _gathered(self, search: _Search) -> Answer:
        """An answer that counts matches in what was taken out of the catalog meanwhile is asked for anew."""
        with self._tracer.span("gateway search"):
            wanted = self._wanted(search)
            for _ in range(GATHERINGS_MAX - 1):
                answer = await self._gathered_once(search, wanted)
                if not self._has_vanished(search, wanted):
                    return answer
                search = search._replace(routes=self._current_routes())
                wanted = self._wanted(search)
            return await self._gathered_once(search, wanted)

    async def _gathered_once(self, search: _Search, wanted: Wanted) -> Answer:
        with self._tracer.span("gateway scatter"):
            async with self._dispatcher.scattered(
                wanted, _searching(search), _not_searched, wall_s=search.options.wall_time_s
            ) as work:
                await work.settled()
                return self._finished(search, work, wanted.excluded)

    def _has_vanished(self, search: _Search, wanted: Wanted) -> bool:
        """Whether something that was asked for is no longer wished for."""
        if self._catalog.version == search.routes.version[1]:
            return False
        specs = self._catalog.specs
        return any(name not in specs for group in wanted.groups for name in group.names)

    def _finished(self, search: _Search, work: Scattering[Answer], excluded: int) -> Answer:
        with self._tracer.span("gateway merge"):
            missing, answers = work.missing(), work.answers()
            if self._catalog.version != search.routes.version[1]:
                # Repositories that were taken out of the catalog meanwhile vanish at once.
                specs = self._catalog.specs
                missing = [each for each in missing if each.repository in specs]
                answers = [ranked_part(answer, specs) for answer in answers]
            answer = merged(answers, search.options, missing=missing, excluded=excluded)
        if self._router.version() == search.routes.version:
            self._cache.put(search.key, search.routes.version, answer, self._clock.now())
            self._teller.kept(self._cache.held_bytes)
        return answer

    # -- the fleet --------------------------------------------------------------------------------------------------

    async def status(self, *, is_fresh: bool = False) -> FleetStatus:
        """The fleet as it was at most `status_s` ago; nodes that do not answer in time are shown as silent.

        With `is_fresh` as it is now, for this process; requests from outside must not cost a request to each node.
        """
        self._check_ready()
        if not is_fresh and self._status is not None and self._clock.now() < self._status_until:
            return self._status
        return await self._statuses.run("status", self._asked_status)

    def breakers(self) -> dict[str, BreakerState]:
        """Where the breaker of each address stands."""
        return self._chooser.states()

    def scale(self) -> ScaleSignal:
        """How many nodes the fleet should have, as this front door sees it."""
        self._check_ready()
        now = self._clock.now()
        if self._specs_version != self._catalog.version:
            self._specs_version = self._catalog.version
            specs = self._catalog.specs.values()
            units = (UnitSpec(each.name, each.footprint_bytes, each.max_bids, each.replicas) for each in specs)
            self._view.apply(CatalogRead(tuple(units)), now)
        return self._autoscaler.signal(self._view, now)

    async def _asked_status(self) -> FleetStatus:
        asked = addresses(self._view)
        told = dict(zip(asked, await asyncio.gather(*map(self._told, asked)), strict=True))
        now = self._clock.now()
        self._status = overview(
            self._view,
            self._catalog.specs,
            told,
            self.scale(),
            left_alone=[each for each, state in self.breakers().items() if state is not BreakerState.CLOSED],
            now=now,
            wall=self._clock.wall(),
        )
        self._status_until = now + self.settings.status_s
        return self._status

    async def _told(self, address: str) -> NodeStatus | str:
        try:
            async with asyncio.timeout(self.settings.status_timeout_s):
                return await self._nodes.at(address).status()
        except TimeoutError:
            return f"did not answer within {self.settings.status_timeout_s:g} s"
        except (ArgosyError, OSError) as why:
            return str(why)

    # -- books ------------------------------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if not self.is_ready():
            what = "who holds what" if not self._view.is_current else "the catalog"
            raise Unavailable(f"this front door has only just started and does not know {what} yet: try again shortly")

    def _current_routes(self) -> Routes:
        routes = self._router.routes()
        if routes.version != self._known_version:
            self._known_version = routes.version
            self._teller.forgotten(self._chooser.keep(addresses(self._view)))
        return routes

    def _counted(self) -> "_Ending":
        return _Ending(self._teller, self._clock)


class _Ending:
    """How a query ended, told when it has; until something else is known, its caller left."""

    def __init__(self, teller: Teller, clock: Clock) -> None:
        self._teller = teller
        self._clock = clock
        self._began = clock.now()
        self._outcome = "cancelled"
        self._missing: tuple[Missing, ...] = ()

    def saw(self, answer: Answer) -> None:
        self._missing = answer.missing
        self._outcome = "partial" if answer.missing else "complete"

    def __enter__(self) -> "_Ending":
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
        self._teller.query(self._outcome, self._missing, self._clock.now() - self._began)


def _searching(search: _Search) -> Call[Answer]:
    def ask(node: Node, names: tuple[str, ...], left_s: float) -> Awaitable[Answer]:
        options = structs.replace(search.options, wall_time_s=left_s, sealed=True)
        return node.search(SearchRequest(search.text, names, options))

    return ask


def _not_searched(answer: Answer) -> tuple[Missing, ...]:
    return answer.missing
