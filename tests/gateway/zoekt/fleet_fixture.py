"""A small fleet in one process: real indexes, real nodes, the real gateway, and its APIs over it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from argosy.base.clock import SystemClock
from argosy.base.http import EXCEPTION_HANDLERS
from argosy.gateway.service import Gateway
from argosy.gateway.zoekt.http import zoekt_routes
from argosy.ownership.events import Snapshot
from argosy.ownership.model import Lease, LeaseState, Member, Unit
from argosy.ownership.view import FleetView
from argosy.search.backends.git_metadata import url_templates
from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.local_node import LocalNode
from argosy.search.fleet.model import Phase, RepoSpec, RepoStatus
from argosy.search.fleet.ports import Node
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.model import Branch, Repository
from argosy.search.skip_policy import Policy

HELLO = "github.com/o/hello"
NOTES = "notes"
COMMIT = "a" * 40
GREET = (
    b"package hello\n\n// Greet is <b>kind</b> & short\nfunc Greet(name string) string {\n"
    b'\treturn "h\xc3\xa9llo, " + name // needle\n}\n'
)
MAIN = b"package main\n\nfunc main() {\n\tprintln(hello.Greet(`w\xc3\xb6rld`))\n}\n"
TODAY = b"a needle in\na haystack\nand no newline: needle"
HTTP = "http://fleet"


def hello() -> Index:
    templates = url_templates("github", "https://github.com/o/hello")
    repository = Repository(
        HELLO,
        id=repository_id(HELLO),
        branches=(Branch("main", COMMIT),),
        url="https://github.com/o/hello",
        source="https://github.com/o/hello.git",
        file_url_template=templates.file,
        commit_url_template=templates.commit,
        line_fragment_template=templates.line,
        flags={"public": True, "fork": False},
        metadata={"team": "core"},
        rank=7,
        latest_commit_s=1_700_000_000.5,
    )
    return build(MemorySource(repository, [MemoryFile(b"greet.go", GREET), MemoryFile(b"cmd/main.go", MAIN)]), Policy())


def notes() -> Index:
    """A folder: no commit, no page on the web; a name that is no text, and a file without content."""
    files = [
        MemoryFile(b"today.txt", TODAY),
        MemoryFile(b"sub/bad\xff.txt", b"needle \xff\xfe end\n"),
        MemoryFile(b"logo.png", b"\0\1"),
    ]
    return build(MemorySource(Repository(NOTES, branches=(Branch("HEAD"),)), files), Policy())


class StubIndexHost:
    """Implements `IndexHost` with fixed values."""

    def __init__(self, indexes: Iterable[Index]) -> None:
        self._known = tuple(
            RepoStatus(index.repository.name, Phase.READY, documents=2, memory_bytes=4096, indexed_at=1_750_000_000.0)
            for index in indexes
        )

    def statuses(self) -> tuple[RepoStatus, ...]:
        return self._known

    def record_searches(self, names: object) -> None:
        pass

    def budget_bytes(self) -> int:
        return 1 << 20

    def held_bytes(self) -> int:
        return 1 << 12

    def free_bytes(self) -> int:
        return 1 << 19


class Fleet:
    """Nodes by address, each with its indexes, and a gateway over them. `warming` are held and not yet ready."""

    def __init__(self, nodes: Mapping[str, list[Index]], *, warming: Iterable[str] = ()) -> None:
        self.index_sets = {address: IndexSet(indexes, threads=1) for address, indexes in nodes.items()}
        self.nodes: dict[str, Node] = {
            address: node(address, self.index_sets[address], indexes) for address, indexes in nodes.items()
        }
        held = {index.repository.name: address for address, indexes in nodes.items() for index in indexes}
        self.version = 1
        self.specs = {
            name: RepoSpec(name, f"https://{name}.git" if "/" in name else f"/srv/{name}") for name in [*held, *warming]
        }
        leases = [lease(name, address, LeaseState.READY) for name, address in held.items()]
        leases += [lease(name, next(iter(nodes), "n0"), LeaseState.WARMING) for name in warming]
        self.view = FleetView()
        members = tuple(Member(address, address) for address in nodes)
        self.view.apply(Snapshot(tuple(leases), members), 0.0)
        self.gateway = Gateway(self, self.view, self)

    def at(self, address: str) -> Node:
        return self.nodes[address]

    def zoekt(self) -> list[Route]:
        return zoekt_routes(self.gateway, names=lambda: self.specs)

    def close(self) -> None:
        for index_set in self.index_sets.values():
            index_set.close()


def node(address: str, index_set: IndexSet, indexes: list[Index]) -> Node:
    names = {index.repository.name for index in indexes}
    return LocalNode(
        index_set,
        StubIndexHost(indexes),
        node_id=address,
        address=address,
        may_answer=names.__contains__,
        in_thread=asyncio.to_thread,
        clock=SystemClock(),
    )


def lease(name: str, address: str, state: LeaseState) -> Lease:
    return Lease(Unit(name), address, address, "token", 1, state)


def small_fleet() -> Fleet:
    return Fleet({"n1:1": [hello()], "n2:1": [notes()]})


@asynccontextmanager
async def client_of(routes: list[Route]) -> AsyncIterator[httpx.AsyncClient]:
    """A client straight into the application; what the application raises, the test sees."""
    web = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=web), base_url=HTTP) as client:
        yield client
