"""A node over a real index set, behind a real HTTP server: shared by the tests of requests to a node."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from uvicorn.server import ServerState

from argosy.app.http_server import http_protocol
from argosy.base.clock import Clock, SystemClock
from argosy.base.http import EXCEPTION_HANDLERS
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.fleet.http import node_routes
from argosy.search.fleet.local_node import LocalNode, SearchableIndexes
from argosy.search.fleet.model import Phase, RepoStatus, SearchRequest
from argosy.search.fleet.ports import Node
from argosy.search.fleet.search_node import QUIESCE_S, quiesce
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.model import Branch, Options, Repository, SearchResult
from argosy.search.query.codec import encode_query
from argosy.search.query.parse import parse
from argosy.search.query.tree import Query
from argosy.search.settings import SearchSettings
from argosy.search.skip_policy import Policy
from tests.search.match.search_calls import build_index

HOST = "127.0.0.1"
CODE = b"class Ship:\n    def sail(self):\n        return 'needle'\n\n"
NAMES = ("alpha", "beta", "gamma")


def small(name: str, rank: int = 0, files: int = 20) -> Index:
    return build_index({f"src/{name}{i}.py": CODE * (1 + i % 7) + b"# %d\n" % i for i in range(files)}, name, rank)


def odd() -> Index:
    """Names that are not Unicode, two branches, files without content."""
    repository = Repository("odd \udcff", 7, (Branch("main", "c0ffee"), Branch("dev", "bead")), flags={"fork": True})
    files = [
        MemoryFile(b"bad\xff/name\xfe.py", CODE),
        MemoryFile(b"both.py", CODE + b"# both\n", branches=3),
        MemoryFile(b"dev.py", b"def only_dev(): return 'needle'\n", branches=2),
        MemoryFile(b"lib/deep/er.c", b"int needle;\n"),
        MemoryFile(b"lib/logo.png", b"\0\1"),
    ]
    return build(MemorySource(repository, files), Policy())


class StubIndexHost:
    """Implements `IndexHost` with fixed values."""

    def __init__(self, index_set: IndexSet) -> None:
        self.known: dict[str, RepoStatus] = {}
        self.recorded: list[str] = []
        self.index_set = index_set

    def put(self, index: Index, indexed_at: float = 5.0) -> None:
        self.index_set.put(index)
        self.set_status(RepoStatus(index.repository.name, Phase.READY, indexed_at=indexed_at))

    def set_status(self, status: RepoStatus) -> None:
        self.known[status.name] = status

    def statuses(self) -> tuple[RepoStatus, ...]:
        return tuple(self.known.values())

    def record_searches(self, names: Collection[str]) -> None:
        self.recorded += names

    def budget_bytes(self) -> int:
        return 1000

    def held_bytes(self) -> int:
        return 600

    def free_bytes(self) -> int:
        return 300


class NodeFixture:
    """A node whose leases are a set of names, and whose index set may be wrapped."""

    def __init__(
        self,
        *indexes: Index,
        index_set: IndexSet | None = None,
        wrap: Callable[["NodeFixture"], SearchableIndexes] | None = None,
        clock: Clock | None = None,
        settings: SearchSettings | None = None,
    ) -> None:
        self.index_set = index_set or IndexSet(threads=1)
        self.host = StubIndexHost(self.index_set)
        for index in indexes:
            self.host.put(index)
        self.leases = {index.repository.name for index in indexes}
        self.clock = clock or SystemClock()
        self.node = LocalNode(
            wrap(self) if wrap else self.index_set,
            self.host,
            node_id="n1",
            address="n1:6070",
            may_answer=self.leases.__contains__,
            in_thread=asyncio.to_thread,
            clock=self.clock,
            settings=settings,
            holder_of={"elsewhere": "n2:6070"}.get,
        )

    async def quiesce(self, name: str, *, within_s: float = QUIESCE_S) -> bool:
        return await quiesce(self.node, self.clock, name, within_s=within_s)


class InterceptedIndexSet:
    """An index set that calls a function before it returns a result."""

    def __init__(self, index_set: IndexSet, then: Callable[[], object]) -> None:
        self._index_set = index_set
        self._then = then
        self.options: list[Options] = []

    def get(self, name: str) -> Index:
        return self._index_set.get(name)

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        self.options.append(options)
        answer = await self._index_set.search(query, options, only=only)
        self._then()
        return answer

    async def repositories(self, query: Query, *, only: Collection[str] | None = None) -> tuple[Repository, ...]:
        found = await self._index_set.repositories(query, only=only)
        self._then()
        return found


def without_time(answer: SearchResult) -> SearchResult:
    """Without what differs from one run to the next."""
    return replace(answer, stats=replace(answer.stats, duration_s=0.0, wait_s=0.0))


def search_request(query: str | Query = "needle", *names: str, options: Options | None = None) -> SearchRequest:
    tree = parse(query).query if isinstance(query, str) else query
    return SearchRequest(encode_query(tree), names or NAMES, options or Options())


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """The address of a real server: uvicorn without its main loop, which would take 0.1 s to end."""
    config = uvicorn.Config(app, http=http_protocol(app.routes), log_config=None, access_log=False, lifespan="off")
    config.load()
    state = ServerState()
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind((HOST, 0))
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), sock=listener
    )
    try:
        yield f"{HOST}:{listener.getsockname()[1]}"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        for task in list(state.tasks):
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def serve_node(node: Node, *, fleet_token: str | None = None, tracer: Tracer = NO_TRACER) -> AsyncIterator[str]:
    """The address of a server for a node."""
    routes = node_routes(node, fleet_token=fleet_token, tracer=tracer)
    async with serving(Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)) as address:
        yield address
