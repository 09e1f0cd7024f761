"""The query layer from its settings: the layout file, a query node, the store of an ingest node, and the frontend."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from argosy.base.clock import Clock, Random
from argosy.base.errors import Invalid, Unavailable
from argosy.base.retry import Backoff
from argosy.ipni import keys
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.keyspace.client import NodeConnections
from argosy.ipni.keyspace.layout import KeyspaceLayout, format_layout, parse_layout
from argosy.ipni.keyspace.maintenance import KeyspaceMaintenance
from argosy.ipni.keyspace.ports import QueryNodeStatus
from argosy.ipni.keyspace.query_frontend import QueryFrontend
from argosy.ipni.keyspace.query_node import QueryNodeService
from argosy.ipni.keyspace.sharded_store import ShardedStore
from argosy.ipni.ports import IndexStore, RangedStore
from argosy.ipni.settings import KeyspaceSettings

# Far more than NODES_MAX nodes with their URLs take.
LAYOUT_FILE_BYTES_MAX = 1 << 20
BACKOFF = Backoff(first_s=0.05, ceiling_s=2.0)


class FileMembership:
    """The layout from a file. An invalid file stops the start; later the previous layout stays valid until it is
    fixed."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._layout = read_layout(self._path)
        self.problem = ""

    @property
    def layout(self) -> KeyspaceLayout:
        return self._layout

    async def reload(self) -> KeyspaceLayout:
        try:
            newest = await asyncio.to_thread(read_layout, self._path)
            self.problem = ""
        except Invalid as why:
            self.problem = str(why)
            return self._layout
        # Never an older one: an operator who restores a file must not send writes to former owners.
        if newest.version > self._layout.version:
            self._layout = newest
        # Nodes that read the file before and after the change would disagree under one version.
        elif newest.version == self._layout.version and newest.mark != self._layout.mark:
            self.problem = f"{self._path} has changed and is still version {newest.version}; increment the version"
        return self._layout


class KeyspaceNode:
    """A query node with its store and its maintenance: call `run` until it is cancelled, then `close`.

    Serve `service` over HTTP.
    """

    def __init__(
        self, service: QueryNodeService, maintenance: KeyspaceMaintenance, connections: NodeConnections
    ) -> None:
        self.service = service
        self.maintenance = maintenance
        self._connections = connections

    @classmethod
    async def open(cls, settings: KeyspaceSettings, *, clock: Clock, store: RangedStore | None = None) -> Self:
        """Raises Invalid if settings are missing, or if the node must not follow the layout."""
        if settings.layout_file is None or not settings.node:
            raise Invalid("a query node needs keyspace.layout_file and keyspace.node")
        membership = await asyncio.to_thread(FileMembership, settings.layout_file)
        opened = store or await RocksStore.open(settings.dir, is_double_hashed=settings.is_double_hashed, clock=clock)
        service = QueryNodeService(settings.node, opened, membership)
        try:
            await service.open()
        except BaseException:
            await opened.close()
            raise
        connections = NodeConnections(token=settings.token, call_s=settings.call_s)
        return cls(service, KeyspaceMaintenance(service, connections.node, clock=clock, settings=settings), connections)

    async def run(self) -> None:
        await self.maintenance.run()

    async def close(self) -> None:
        await self._connections.close()
        await self.service.close()


class IngestStore(ShardedStore):
    """The ShardedStore of an indexer: it finds only values of providers that the indexer knows."""

    def __init__(
        self, settings: KeyspaceSettings, local: IndexStore, membership: FileMembership, *, clock: Clock, random: Random
    ) -> None:
        self._connections = NodeConnections(token=settings.token, call_s=settings.call_s)
        super().__init__(
            local,
            membership,
            self._connections.node,
            clock=clock,
            random=random,
            backoff=_backoff(settings),
            unreachable_s=settings.unreachable_s,
            is_own=self._is_known,
        )

    @classmethod
    async def open(cls, settings: KeyspaceSettings, local: IndexStore, *, clock: Clock, random: Random) -> Self:
        """`local` stores the indexer's own rows and is closed together with this store."""
        if settings.layout_file is None:
            raise Invalid("a sharded store needs keyspace.layout_file")
        membership = await asyncio.to_thread(FileMembership, settings.layout_file)
        return cls(settings, local, membership, clock=clock, random=random)

    async def close(self) -> None:
        await self._connections.close()
        await super().close()

    async def _is_known(self, provider: str) -> bool:
        return await self._local.read(keys.provider(provider)) is not None


class KeyspaceFrontend:
    """The query frontend with its store and its clients of the indexers. `run` until cancelled, then `close`."""

    def __init__(
        self,
        frontend: QueryFrontend,
        store: ShardedStore,
        connections: NodeConnections,
        clients: Sequence[IndexerClient],
        *,
        every_s: float,
    ) -> None:
        self.frontend = frontend
        self._store = store
        self._connections = connections
        self._clients = clients
        self._every_s = every_s

    @classmethod
    async def open(cls, settings: KeyspaceSettings, *, id: str, clock: Clock, random: Random) -> Self:
        if settings.layout_file is None or not settings.indexer_urls:
            raise Invalid("the frontend of a keyspace needs keyspace.layout_file and keyspace.indexer_urls")
        membership = await asyncio.to_thread(FileMembership, settings.layout_file)
        connections = NodeConnections(token=settings.token, call_s=settings.call_s)
        store = ShardedStore(
            # The frontend writes no rows; the store needs a local part all the same.
            MemoryIndexStore(),
            membership,
            connections.node,
            clock=clock,
            random=random,
            backoff=_backoff(settings),
            unreachable_s=settings.unreachable_s,
        )
        clients = [IndexerClient(find_url=url, call_s=settings.call_s) for url in settings.indexer_urls]
        frontend = QueryFrontend(id, store, clients, clock=clock)
        # Before the first find, or all providers would be unknown and every answer empty.
        await frontend.refresh()
        return cls(frontend, store, connections, clients, every_s=settings.providers_s)

    async def run(self) -> None:
        await self.frontend.run(self._every_s)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await self._connections.close()
        await self._store.close()


def _backoff(settings: KeyspaceSettings) -> Backoff:
    return Backoff(BACKOFF.first_s, BACKOFF.ceiling_s, attempts_max=settings.attempts_max)


def read_layout(path: Path) -> KeyspaceLayout:
    try:
        with path.open("rb") as file:
            data = file.read(LAYOUT_FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as why:
        raise Invalid(f"the layout file {path} cannot be read ({why}): see keyspace.layout_file") from None
    if len(data) > LAYOUT_FILE_BYTES_MAX:
        raise Invalid(f"the layout file {path} has more than {LAYOUT_FILE_BYTES_MAX} bytes")
    try:
        return parse_layout(text, is_toml=path.suffix == ".toml")
    except Invalid as why:
        raise Invalid(f"{path}: {why}") from None


def write_layout(path: Path, layout: KeyspaceLayout) -> None:
    """Writes the layout atomically: nodes may read the file at any time."""
    partial = path.with_suffix(".new")
    partial.write_text(format_layout(layout))
    partial.replace(path)


async def statuses(layout: KeyspaceLayout, connections: NodeConnections) -> list[QueryNodeStatus]:
    """The status of every node; raises Unavailable if one is unreachable or does not follow this layout."""
    return await asyncio.gather(*(connections.node(url).status(layout.version) for url in layout.urls.values()))


async def check_moved(layout: KeyspaceLayout, connections: NodeConnections) -> None:
    """Raises Unavailable unless every node has all its slots; only then may the layout be finalized."""
    for each in await statuses(layout, connections):
        if each.left:
            raise Unavailable(f"node {each.name} has {each.left} pending slots; finalize when they have moved")
