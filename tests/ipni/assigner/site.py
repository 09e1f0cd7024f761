"""A pool of real indexers behind real HTTP servers, the chains they can read, and assigners that use only HTTP."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.base.clock import Clock, SystemClock, seeded_random
from argosy.base.metrics import Metrics
from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.model import Assignment, Provider
from argosy.ipni.ports import IndexStore
from argosy.ipni.settings import IndexerSettings
from argosy.ipni.web.app import indexer_app
from tests.ipni.assigner.doubles import serving
from tests.ipni.indexer.stage import Chain, ChainSources, SetUsage, has, hashes

TOKEN = "sesame"
SETTINGS = IndexerSettings(use_assigner=True)


def chains(*names: str) -> list[Chain]:
    return [Chain(name) for name in names]


def add_entries(chain: Chain, name: str) -> bytes:
    """Publishes something under a context of that name; one multihash of it."""
    multihashes = hashes(f"{chain.name} {name}", 5)
    chain.add(name.encode(), multihashes)
    return multihashes[0]


async def providers_of(url: str) -> Sequence[Provider]:
    async with IndexerClient(find_url=url) as client:
        return await client.providers()


async def _at_once(name: str) -> None:
    """Answers every request at once."""


class Site:
    """Indexers at URLs by name, and the current assigner."""

    def __init__(self, closing: AsyncExitStack, *chains: Chain) -> None:
        self._closing = closing
        self._servers: dict[str, AsyncExitStack] = {}
        self.sources = ChainSources(*chains)
        self.stores: dict[str, IndexStore] = {}
        self.indexers: dict[str, IndexerService] = {}
        self.usages: dict[str, SetUsage] = {}
        self.clients: dict[str, IndexerClient] = {}
        self.entries: dict[str, PoolEntry] = {}
        self.unavailable: set[str] = set()  # indexers that reject every request
        self.requests: Counter[str] = Counter()
        self.entered: Callable[[str], Awaitable[None]] = _at_once

    async def add(self, name: str, store: IndexStore | None = None, settings: IndexerSettings = SETTINGS) -> None:
        self.usages[name] = SetUsage()
        self.stores[name] = store or MemoryIndexStore()
        indexer = await IndexerService.open(
            self.stores[name], self.sources, settings=settings, usage=self.usages[name], providers_of=providers_of
        )
        self._closing.push_async_callback(indexer.close)
        app = indexer_app(indexer, clock=SystemClock(), metrics=Metrics(), admin_token=TOKEN)
        app = self._unless_unavailable(name, app)
        self._servers[name] = await self._closing.enter_async_context(AsyncExitStack())
        url = await self._servers[name].enter_async_context(serving(app))
        self.indexers[name] = indexer
        self.entries[name] = PoolEntry(url, url, url)
        self.clients[name] = await self._closing.enter_async_context(IndexerClient(url, url, url, token=TOKEN))

    def _unless_unavailable(self, name: str, app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            self.requests[name] += 1
            await self.entered(name)
            rejection = PlainTextResponse("closed for today", 503)
            await (rejection if name in self.unavailable else app)(scope, receive, send)

        return answer

    async def fill(self, name: str, service: AssignerService) -> None:
        """Fills its disk, so that it freezes and the assigner detects it."""
        self.usages[name].value = 95.0
        await self.clients[name].freeze()
        await self.poll(service)

    async def lose(self, name: str) -> None:
        """It stops answering."""
        await self._servers[name].aclose()
        await self.indexers.pop(name).close()
        del self.clients[name]

    def url(self, name: str) -> str:
        return self.entries[name].admin_url

    def configuration(self, *names: str, presets: dict[str, set[str]] | None = None, **rest: Any) -> Configuration:
        """The whole pool or those named; `presets` are publishers by indexer."""
        assignments_by_indexer = presets or {}
        entries = [self.entries[name] for name in names or self.entries]
        preset = {self.url(name): frozenset(publishers) for name, publishers in assignments_by_indexer.items()}
        return Configuration(
            tuple(
                PoolEntry(e.admin_url, e.find_url, e.ingest_url, preset.get(e.admin_url, e.presets)) for e in entries
            ),
            **rest,
        )

    async def assigner(self, configuration: Configuration | None = None) -> AssignerService:
        """An assigner that has polled every indexer once."""
        service = self.assigner_unasked(configuration)
        await self.poll(service)
        return service

    def assigner_unasked(
        self, configuration: Configuration | None = None, *, clock: Clock | None = None
    ) -> AssignerService:
        service = AssignerService(
            configuration or self.configuration(),
            lambda entry: IndexerClient(entry.admin_url, entry.find_url, entry.ingest_url, token=TOKEN),
            lambda url: IndexerClient(ingest_url=url),
            clock=clock or SystemClock(),
            random=seeded_random(1),
            metrics=Metrics(),
        )
        self._closing.push_async_callback(service.close)
        return service

    async def wait_idle(self, service: AssignerService) -> None:
        """Waits until nothing is left to assign, hand over or ingest."""
        await service.wait_idle()
        await self.idle()

    async def idle(self) -> None:
        for indexer in self.indexers.values():
            for publisher in self.sources.chains:
                await indexer.wait_idle(publisher)

    async def announce(self, service: AssignerService, *chains: Chain) -> None:
        for chain in chains:
            service.announce(chain.announcement())
            await self.wait_idle(service)

    async def poll(self, service: AssignerService) -> None:
        await service.poll()
        await self.wait_idle(service)

    async def assignments(self) -> dict[str, list[Assignment]]:
        found = await asyncio.gather(*(client.assignments() for client in self.clients.values()))
        return dict(zip(self.clients, found, strict=True))

    async def counts(self) -> dict[str, int]:
        return {name: len(found) for name, found in (await self.assignments()).items()}

    async def holders(self, chain: Chain) -> list[str]:
        """The indexers the publisher is assigned to, frozen ones included."""
        assigned = await self.assignments()
        return [name for name, found in assigned.items() if chain.id in {each.publisher for each in found}]

    async def finders(self, multihash: bytes) -> list[str]:
        return [name for name, indexer in self.indexers.items() if await has(indexer, [multihash]) == [True]]


@asynccontextmanager
async def site(*chains: Chain) -> AsyncIterator[Site]:
    async with AsyncExitStack() as closing:
        yield Site(closing, *chains)
