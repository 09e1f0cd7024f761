"""Doubles of indexers with the interface an assigner uses, in memory or behind a real HTTP server, with faults."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.server import ServerState

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import ArgosyError, Conflict, Forbidden, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.formats import cid
from argosy.ipni.formats.head import Announcement, decode_announcement
from argosy.ipni.formats.peer import id_of_key
from argosy.ipni.indexer_client import IndexerClient, OutcomeUnknown
from argosy.ipni.model import Assignment, IndexerStatus, Peer

HOST = "127.0.0.1"


def peer(name: str) -> str:
    """A peer id that depends on the name alone."""
    return id_of_key(bytes.fromhex("08011220") + hashlib.sha256(name.encode()).digest())


def announcement(publisher: str, head: int = 0, address: str = "/ip4/127.0.0.1/tcp/9/http") -> Announcement:
    """The `head`-th advertisement of a publisher that is given by its name or id."""
    id = publisher if len(publisher) > 20 else peer(publisher)
    return Announcement(cid.of(f"{publisher} {head}".encode(), cid.DAG_JSON), Peer(id, (address,)))


@dataclass
class Double:
    """An indexer's allow-list and the requests it received, with the statuses of the real one."""

    name: str
    is_frozen: bool = False
    is_offline: bool = False  # rejects everything with 503
    is_losing: bool = False  # executes the request, and the answer never arrives
    silent: set[str] = field(default_factory=set)  # calls that are never started and never answered
    has_preferred: bool = True
    usage_percent: float = 10.0
    allowed: dict[str, str] = field(default_factory=dict)
    preferred_ones: list[str] = field(default_factory=list)
    refusing: set[str] = field(default_factory=set)
    dropped_publishers: set[str] = field(default_factory=set)  # publishers a frozen indexer no longer has
    announced: list[Announcement] = field(default_factory=list)
    handoffs: list[tuple[str, str, str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)  # calls that wait until the event is set

    @property
    def id(self) -> str:
        return peer(self.name)

    async def status(self) -> IndexerStatus:
        await self._enter("status")
        return IndexerStatus(self.id, self.is_frozen, self.usage_percent)

    async def assignments(self) -> list[Assignment]:
        await self._enter("assigned")
        return [Assignment(publisher, continued) for publisher, continued in self.allowed.items()]

    async def preferred_publishers(self) -> list[str]:
        await self._enter("preferred")
        if not self.has_preferred:
            raise Unavailable("no such thing here")
        return self.preferred_ones

    async def assign(self, publisher: str) -> None:
        await self._enter("assign")
        self._check(publisher)
        self.allowed[publisher] = ""
        self._leave()

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        await self._enter("handoff")
        self._check(publisher)
        self.handoffs.append((publisher, frozen_id, frozen_url))
        if publisher not in self.dropped_publishers:
            self.allowed[publisher] = frozen_id
        self._leave()

    async def announce(self, announce: Announcement) -> None:
        await self._enter("announce")
        if announce.publisher.id not in self.allowed:
            raise Forbidden("not assigned")
        self.announced.append(announce)

    async def close(self) -> None:
        pass

    def heads(self, publisher: str) -> int:
        return sum(each.publisher.id == peer(publisher) for each in self.announced)

    async def _enter(self, call: str) -> None:
        self.requests.append(call)
        if call in self.gates:
            await self.gates[call].wait()
        if self.is_offline:
            raise Unavailable("closed for today")
        if call in self.silent:
            raise OutcomeUnknown("no answer in time")

    def _leave(self) -> None:
        if self.is_losing:
            raise OutcomeUnknown("lost on the way")

    def _check(self, publisher: str) -> None:
        if publisher in self.allowed:
            raise Invalid("already assigned")
        if publisher in self.refusing:
            raise Forbidden("not allowed by policy")
        if self.is_frozen:
            raise Conflict("frozen")


def indexer_app(double: Double) -> Starlette:
    """The double with the protocol of the real indexer; admin, find and ingest at one URL."""

    def route(path: str, method: str, call: Callable[[Request], Awaitable[Any]]) -> Route:
        async def answer(request: Request) -> Response:
            try:
                result = await call(request)
            except ArgosyError as why:
                return PlainTextResponse(str(why), why.status)
            return Response(status_code=200) if result is None else result

        return Route(path, answer, methods=[method])

    async def status(_: Request) -> Response:
        result = await double.status()
        return JSONResponse({"Frozen": result.is_frozen, "ID": result.id, "Usage": result.usage_percent})

    async def assignments(_: Request) -> Response:
        result = await double.assignments()
        rows = [{"Publisher": a.publisher} | ({"Continued": a.continued} if a.continued else {}) for a in result]
        return JSONResponse(rows) if rows else Response(status_code=204)

    async def preferred_publishers(_: Request) -> Response:
        result = await double.preferred_publishers()
        return JSONResponse(result) if result else Response(status_code=204)

    async def assign(request: Request) -> None:
        await double.assign(request.path_params["publisher"])

    async def handoff(request: Request) -> None:
        body = await request.json()
        publisher = request.path_params["publisher"]
        await double.handoff(publisher, frozen_id=body["FrozenID"], frozen_url=body["FrozenURL"])

    async def announce(request: Request) -> Response:
        await double.announce(decode_announcement(await request.body(), False))
        return Response(status_code=204)

    return Starlette(
        routes=[
            route("/status", "GET", status),
            route("/ingest/assigned", "GET", assignments),
            route("/ingest/preferred", "GET", preferred_publishers),
            route("/ingest/assign/{publisher}", "POST", assign),
            route("/ingest/handoff/{publisher}", "POST", handoff),
            route("/announce", "PUT", announce),
        ]
    )


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The URL of a real server: uvicorn without its main loop, which would take 0.1 s to end."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    config.load()
    state = ServerState()
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind((HOST, 0))
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), sock=listener
    )
    try:
        yield f"http://{HOST}:{listener.getsockname()[1]}"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        for task in list(state.tasks):
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        await server.wait_closed()


class Stage:
    """Doubles behind real servers, and assigners that reach them only over HTTP."""

    def __init__(self, closing: AsyncExitStack, doubles: tuple[Double, ...]) -> None:
        self._closing = closing
        self.doubles = doubles
        self.urls: dict[str, str] = {}

    async def open(self, double: Double) -> str:
        url = await self._closing.enter_async_context(serving(indexer_app(double)))
        self.urls[double.name] = url
        return url

    def entry(self, name: str, *presets: str) -> PoolEntry:
        url = self.urls[name]
        return PoolEntry(url, url, url, frozenset(peer(publisher) for publisher in presets))

    def configuration(
        self, *names: str, presets: dict[str, tuple[str, ...]] | None = None, **rest: Any
    ) -> Configuration:
        entries = tuple(self.entry(name, *(presets or {}).get(name, ())) for name in names or self.urls)
        return Configuration(entries, **rest)

    async def assigner(self, configuration: Configuration | None = None) -> AssignerService:
        """An assigner that has polled every indexer once."""
        service = await self.assigner_unasked(configuration)
        await poll_and_wait(service)
        return service

    async def assigner_unasked(self, configuration: Configuration | None = None) -> AssignerService:
        service = AssignerService(
            configuration or self.configuration(),
            lambda e: IndexerClient(e.admin_url, e.find_url, e.ingest_url),
            lambda url: IndexerClient(ingest_url=url),
            clock=SystemClock(),
            random=seeded_random(1),
            metrics=Metrics(),
        )
        self._closing.push_async_callback(service.close)
        return service


@asynccontextmanager
async def stage(*doubles: Double) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as closing:
        setup = Stage(closing, doubles)
        for double in doubles:
            await setup.open(double)
        yield setup


async def assigner_of(*doubles: Double) -> AssignerService:
    """An assigner that calls the doubles without a network, and has polled every indexer once."""
    by_name = {double.name: double for double in doubles}
    service = AssignerService(
        Configuration(tuple(PoolEntry(name, f"{name}-find", f"{name}-ingest") for name in by_name)),
        lambda entry: by_name[entry.admin_url],
        lambda url: by_name[url],
        clock=SystemClock(),
        random=seeded_random(1),
        metrics=Metrics(),
    )
    await poll_and_wait(service)
    return service


async def until(is_so: Callable[[], object]) -> None:
    """Runs the loop until the condition holds; otherwise the test's own timeout ends it."""
    while not is_so():  # noqa: ASYNC110 - the doubles are plain objects, with nothing to wait on
        await asyncio.sleep(0)


async def announce_and_wait(service: AssignerService, publisher: str, head: int = 0) -> None:
    """Announces, and waits until the announcement is processed."""
    service.announce(announcement(publisher, head))
    await service.wait_idle()


async def poll_and_wait(service: AssignerService) -> None:
    await service.poll()
    await service.wait_idle()
