"""A small fleet in one process and in virtual time: real indexes behind nodes that can be slow, failing or empty."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import structs

from argosy.base.clock import Clock, seeded_random
from argosy.base.errors import NotFound, NotOwner, Unavailable
from argosy.base.metrics import Metrics
from argosy.gateway.service import Gateway
from argosy.gateway.settings import GatewaySettings
from argosy.ownership.events import LeaseChanged, LeaseGone, MemberChanged, Snapshot
from argosy.ownership.model import Lease, LeaseState, Member, Unit
from argosy.ownership.view import FleetView
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    Phase,
    RepoListing,
    RepoSpec,
    RepoStatus,
    SearchRequest,
)
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.model import FileMatch, LimitHit, Missing, MissingReason, Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.codec import decode_query
from argosy.search.query.tree import Query
from argosy.sim.loop import SimClock, SimLoop, run
from tests.search.match.search_calls import build_index

T = TypeVar("T")

WORDS = ("needle", "thread", "button", "launch", "import")


def repository(name: str, rank: int = 0, files: int = 6) -> Index:
    """Files with scores that often tie, within the repository and with others."""
    index = build_index({f"src/{WORDS[i % 3]}{i}.py": _text(i) for i in range(files)}, name, rank)
    return Index(structs.replace(index.repository, id=repository_id(name)), index.parts, index.recipe)


def _text(number: int) -> bytes:
    parts = (f"def {WORDS[(number + k) % 5]}():\n    return '{WORDS[k % 5]}'\n\n" for k in range(number + 1))
    return "".join(parts).encode()


INDEXES: Mapping[str, Index] = {
    name: repository(name, rank, files)
    for name, rank, files in (
        ("acme/anvil", 0, 6),
        ("acme/rocket", 9, 5),
        ("beta/anvil", 0, 6),
        ("beta/tunnel", 9, 4),
        ("core", 500, 7),
        ("dust", 0, 1),
    )
}
NAMES = tuple(INDEXES)


class FakeNode:
    """Responds from real indexes."""

    def __init__(self, address: str, clock: Clock) -> None:
        self.address = address
        self.indexes: dict[str, Index] = {}
        self.delay_s = 0.001
        self.is_down = False
        self.is_hanging = False
        self.failure: Unavailable | None = None
        self.requests: list[SearchRequest] = []
        self.was_asked = asyncio.Event()
        self.cancelled = 0
        self._clock = clock

    def has(self, *names: str) -> "FakeNode":
        self.indexes.update((name, INDEXES[name]) for name in names)
        return self

    async def _pass_time(self) -> None:
        try:
            if self.is_hanging:
                await asyncio.Event().wait()
            await self._clock.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        if self.is_down:
            raise Unavailable("connection refused")

    async def search(self, request: SearchRequest) -> SearchResult:
        self.requests.append(request)
        self.was_asked.set()
        await self._pass_time()
        found = [self.indexes[name] for name in request.repositories if name in self.indexes]
        index_set = IndexSet(found, threads=1, clock=self._clock)
        answer = index_set.search_now(decode_query(request.query), request.options)
        index_set.close()
        known = {index.repository.name: index.repository for index in found}
        return structs.replace(answer, missing=self._missing(request), repositories=known)

    async def list(self, request: SearchRequest) -> ListResult:
        self.requests.append(request)
        self.was_asked.set()
        await self._pass_time()
        index_set = IndexSet(
            [self.indexes[n] for n in request.repositories if n in self.indexes], threads=1, clock=self._clock
        )
        found = index_set.repositories_now(decode_query(request.query))
        index_set.close()
        return ListResult(tuple(RepoListing(each) for each in found), self._missing(request))

    async def file(self, request: FileRequest) -> FileText:
        await self._pass_time()
        if request.repository not in self.indexes:
            raise NotOwner(f"{request.repository!r} is held elsewhere")
        if request.path == "none":
            raise NotFound("there is no such file")
        return FileText(self.indexes[request.repository].repository, request.path, b"text")

    async def folder(self, request: FolderRequest) -> FolderListing:
        await self._pass_time()
        return FolderListing(self.indexes[request.repository].repository, request.path, ("src/",))

    async def status(self) -> NodeStatus:
        await self._pass_time()
        repositories = tuple(RepoStatus(name, Phase.READY, documents=3) for name in self.indexes)
        return NodeStatus(self.address, self.address, "1", 0.0, False, 100, 50, 50, repositories)

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        yield b""

    def _missing(self, request: SearchRequest) -> tuple[Missing, ...]:
        return tuple(
            Missing(name, MissingReason.UNOWNED, "not here")
            for name in request.repositories
            if name not in self.indexes
        )


class FakeCatalog:
    """The catalog, which tests change."""

    def __init__(self, names: Iterable[str]) -> None:
        self.version = 1
        self.specs: dict[str, RepoSpec] = {name: RepoSpec(name, f"https://example.org/{name}") for name in names}

    def drop(self, name: str) -> None:
        del self.specs[name]
        self.version += 1

    def put(self, spec: RepoSpec) -> None:
        self.specs[spec.name] = spec
        self.version += 1


class World:
    """Nodes by address, what is known of leases, a catalog, and the gateway in front."""

    def __init__(self, loop: SimLoop, names: Iterable[str] = NAMES, seed: int = 0, **settings: Any) -> None:
        self.clock = SimClock(loop.time)
        self.nodes: dict[str, FakeNode] = {}
        self.view = FleetView()
        self.view.apply(Snapshot(), 0.0)
        self.catalog = FakeCatalog(names)
        self.metrics = Metrics()
        self.gateway = Gateway(
            self,
            self.view,
            self.catalog,
            GatewaySettings(**settings),
            clock=self.clock,
            random=seeded_random(seed),
            metrics=self.metrics,
        )

    def at(self, address: str) -> FakeNode:
        if address not in self.nodes:
            self.nodes[address] = FakeNode(address, self.clock)
        return self.nodes[address]

    def node(self, address: str) -> FakeNode:
        self.view.apply(MemberChanged(Member(address, address)), self.clock.now())
        return self.at(address)

    def lease(
        self, name: str, address: str, replica: int = 0, state: LeaseState = LeaseState.READY, epoch: int = 1
    ) -> None:
        lease = Lease(Unit(name, replica), address, address, "token", epoch, state)
        self.view.apply(LeaseChanged(lease), self.clock.now())

    def unlease(self, name: str, replica: int = 0, epoch: int = 1) -> None:
        self.view.apply(LeaseGone(Unit(name, replica), epoch), self.clock.now())

    def give(self, address: str, *names: str, replica: int = 0) -> FakeNode:
        """The node holds these, and everybody knows."""
        for name in names:
            self.lease(name, address, replica)
        return self.node(address).has(*names)


def oracle(names: Iterable[str], query: str | Query, options: Options | None = None) -> SearchResult:
    """What a single process with these repositories answers."""
    index_set = IndexSet([INDEXES[name] for name in names], threads=1)
    tree = parse(query).query if isinstance(query, str) else query
    answer = index_set.search_now(tree, options or Options())
    index_set.close()
    return answer


def comparable(answer: SearchResult) -> SearchResult:
    """An answer without what a fleet adds to it, without the time it took, and without which match of a passage is the
    best where the bound on matches falls within the passage: only its node knows."""
    files = answer.files
    if files and LimitHit.MATCHES_SHOWN in answer.limits_hit:
        files = (*files[:-1], _without_best(files[-1]))
    stats = structs.replace(answer.stats, duration_s=0.0)
    return structs.replace(answer, files=files, stats=stats, missing=(), repositories={})


def _without_best(file: FileMatch) -> FileMatch:
    chunks, lines = file.chunks, file.lines
    if chunks:
        chunks = (*chunks[:-1], structs.replace(chunks[-1], score=0.0, best_line=0))
    if lines:
        lines = (*lines[:-1], structs.replace(lines[-1], score=0.0))
    return structs.replace(file, chunks=chunks, lines=lines)


def in_virtual_time(main: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
    return run(main)
