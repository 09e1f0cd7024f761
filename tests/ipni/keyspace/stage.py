"""Query nodes on loopback, each with its own store, and a file that lists them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import ArgosyError
from argosy.base.retry import Backoff
from argosy.ipni.backends.memory import MemoryIndexStore, RangedMemoryStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.keyspace.client import NodeConnections
from argosy.ipni.keyspace.http import keyspace_app
from argosy.ipni.keyspace.layout import KeyspaceLayout, NodeSet, finalize, start_move
from argosy.ipni.keyspace.runtime import FileMembership, IngestStore, KeyspaceNode, statuses, write_layout
from argosy.ipni.keyspace.sharded_store import ShardedStore
from argosy.ipni.ports import IndexStore, RangedStore
from argosy.ipni.settings import KeyspaceSettings
from tests.ipni.publish.serving import serving

TOKEN = "a token of the tests"
CLOCK = SystemClock()


class SwitchableServer:
    """A server at a fixed address whose application can be replaced."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.app or PlainTextResponse("closed", 503))(scope, receive, send)


class Fleet:
    """The nodes by name; `kind` is that of their stores."""

    def __init__(self, folder: Path, stack: AsyncExitStack, kind: str) -> None:
        self.path = folder / "layout.json"
        self.layout: KeyspaceLayout
        self.nodes: dict[str, KeyspaceNode] = {}
        self.kind = kind
        self.attempts_max = 2
        self._folder = folder
        self._stack = stack
        self._doors: dict[str, tuple[SwitchableServer, str, AsyncExitStack]] = {}
        self._memory: dict[str, RangedMemoryStore] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self.connections = NodeConnections(token=TOKEN, call_s=10.0)

    async def url(self, name: str) -> str:
        if name not in self._doors:
            server, stack = SwitchableServer(), AsyncExitStack()
            url = await stack.enter_async_context(serving(server))
            self._doors[name] = server, url, stack
        return self._doors[name][1]

    async def side(self, names: str, replicas: int) -> NodeSet:
        return NodeSet({name: await self.url(name) for name in names}, replicas)

    def write(self, layout: KeyspaceLayout) -> None:
        self.layout = layout
        write_layout(self.path, layout)

    async def create(self, names: str, replicas: int) -> None:
        self.write(KeyspaceLayout(1, await self.side(names, replicas)))
        for name in names:
            await self.start(name)

    async def change(self, names: str, *, replicas: int | None = None, lost: str = "") -> None:
        """Writes the moving layout, and starts the joining nodes."""
        urls = {name: await self.url(name) for name in names}
        self.write(start_move(self.layout, urls, replicas=replicas, lost=frozenset(lost)))
        for name in names:
            if name not in self.nodes:
                await self.start(name)

    async def settle(self) -> None:
        self.write(finalize(self.layout))

    def settings(self, name: str) -> KeyspaceSettings:
        return KeyspaceSettings(
            layout_file=str(self.path),
            node=name,
            token=TOKEN,
            idle_s=0.01,
            page_entries=100,
            clear_entries=500,
            attempts_max=self.attempts_max,
            dir=str(self._folder / name),
            unreachable_s=0.2,
        )

    async def start(self, name: str) -> KeyspaceNode:
        """Starts the node, after a stop with the content of its store."""
        await self.url(name)
        store: RangedStore
        if self.kind == "memory":
            store = self._memory.setdefault(name, RangedMemoryStore(is_double_hashed=True))
        else:
            store = await RocksStore.open(self._folder / name, is_double_hashed=True)
        node = self.nodes[name] = await KeyspaceNode.open(self.settings(name), clock=CLOCK, store=store)
        self._doors[name][0].app = keyspace_app(node.service, token=TOKEN)
        return node

    def run(self, *names: str) -> None:
        for name in names:
            self._running[name] = asyncio.ensure_future(self.nodes[name].run())

    async def stop(self, name: str) -> None:
        """Stops like a process; the content of a memory store is kept for the next start."""
        self._doors[name][0].app = None
        await self._halt(name)
        node = self.nodes.pop(name)
        await node._connections.close()
        if self.kind != "memory":
            await node.service.close()

    async def kill(self, name: str) -> None:
        """Its address refuses connections from now on."""
        await self.stop(name)
        await self._doors[name][2].aclose()

    async def _halt(self, name: str) -> None:
        task = self._running.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def store(self) -> ShardedStore:
        """A store that finds the entries of every indexer."""
        backoff = Backoff(first_s=0.02, ceiling_s=0.5, attempts_max=self.attempts_max)
        opened = ShardedStore(
            MemoryIndexStore(),
            FileMembership(self.path),
            self.connections.node,
            clock=CLOCK,
            random=seeded_random(1),
            backoff=backoff,
            unreachable_s=0.2,
        )
        self._stack.push_async_callback(opened.close)
        return opened

    async def ingest_store(self, local: IndexStore) -> IngestStore:
        """A store that finds its indexer's entries; the caller closes it."""
        return await IngestStore.open(self.settings(""), local, clock=CLOCK, random=seeded_random(1))

    async def wait_moved(self) -> None:
        async def is_moved() -> bool:
            return all(not each.left for each in await statuses(self.layout, self.connections))

        await until(is_moved)

    async def wait_cleared(self) -> None:
        async def is_cleared() -> bool:
            return all(each.is_cleared for each in await statuses(self.layout, self.connections))

        await until(is_cleared)

    async def entries(self) -> dict[str, int]:
        return {each.name: each.stats.entries for each in await statuses(self.layout, self.connections)}

    async def close(self) -> None:
        for name in list(self.nodes):
            await self.stop(name)
        await self.connections.close()
        for _, _, stack in self._doors.values():
            await stack.aclose()


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """A node that cannot apply the layout yet has not moved."""
    async with asyncio.timeout(60):
        while True:
            try:
                if await is_so():
                    return
            except ArgosyError:
                pass
            await asyncio.sleep(0)


@asynccontextmanager
async def fleet(folder: Path, kind: str = "memory") -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        nodes = Fleet(folder, stack, kind)
        stack.push_async_callback(nodes.close)
        yield nodes
