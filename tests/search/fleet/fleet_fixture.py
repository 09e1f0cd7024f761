"""Search nodes with real repositories, a real catalog and real indexes; fetches fail or wait on request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.metrics import Metric, Metrics
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import Lease, LeaseState, Space, Unit
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings
from argosy.registry import catalog, open_registry
from argosy.registry.ports import RegistryStore
from argosy.registry.rows import RepositoryRow as Row
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.catalog.watcher import CatalogWatcher
from argosy.search.documents import Source
from argosy.search.fleet.local_node import LocalNode
from argosy.search.fleet.model import Phase, RepoSpec, RepoStatus
from argosy.search.fleet.search_node import SearchNode, quiesce
from argosy.search.index_set import IndexSet
from argosy.search.model import Branch, Options
from argosy.search.query.parse import parse
from argosy.search.settings import FetchSettings, SearchSettings
from tests.search.backends.repositories import Repo

MIB = 1 << 20
TIMEOUT_S = 30.0
CLOCK = SystemClock()


async def until(condition: Callable[[], object]) -> None:
    """Returns once the condition holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await CLOCK.sleep(0.005)


class Origins:
    """The fetcher of all repositories; it fails or waits on request."""

    def __init__(self, folder: Path) -> None:
        self._inner = RemoteFetcher(FetchSettings(dir=str(folder / "mirrors"), allow_local=True))
        self.broken: dict[str, Exception] = {}
        self.open = asyncio.Event()  # fetches wait for it
        self.open.set()
        self.fetches: list[str] = []
        self.origin_checks: list[str] = []
        self.open_sources = 0

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        self.origin_checks.append(spec.name)
        self._fail(spec)
        return await self._inner.heads(spec)

    @asynccontextmanager
    async def fetch(self, spec: RepoSpec, progress: Callable[[float], None]) -> AsyncIterator[Source]:
        self.fetches.append(spec.name)
        self._fail(spec)
        await self.open.wait()
        async with self._inner.fetch(spec) as source:
            self.open_sources += 1
            try:
                yield source
            finally:
                self.open_sources -= 1

    def _fail(self, spec: RepoSpec) -> None:
        if spec.name in self.broken:
            raise self.broken[spec.name]


class StubLeases:
    """Implements `Leases` for a node without ownership."""

    def __init__(self) -> None:
        self.others: list[Lease] = []
        self.mine: dict[Unit, Lease] = {}
        self.released: list[Unit] = []

    def leases(self) -> list[Lease]:
        return [*self.others, *self.mine.values()]

    def own_leases(self) -> list[Lease]:
        return list(self.mine.values())

    def release(self, unit: Unit) -> None:
        self.released.append(unit)


class SearchFleet:
    """A catalog, the origins, and the started nodes."""

    def __init__(self, folder: Path, registry: RegistryStore, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.registry = registry
        self.origins = Origins(folder)
        self.catalog = CatalogWatcher(registry)
        self.metrics: dict[str, Metrics] = {}
        self.local_nodes: dict[str, LocalNode] = {}
        self.nodes: dict[str, SearchNode] = {}
        self.ownership: dict[str, OwnershipNode] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._stack = stack
        self._store = MemoryOwnershipStore(Space("repos", is_auctioned=True), clock=CLOCK, random=seeded_random(1))

    def repo(self, name: str, **files: str) -> Repo:
        repo = Repo.create(self.folder / "origins" / name)
        repo.commit({f"{path}.py": text.encode() for path, text in (files or {"code": f"name = '{name}'\n"}).items()})
        return repo

    async def spec(self, name: str, **changes: Any) -> Row:
        changes.setdefault("branches", ("main",))
        row = await self.registry.run(catalog.add(name, str(self.folder / "origins" / name), **changes))
        await until(lambda: name in self.catalog.specs)
        return row

    async def change(self, name: str, **changes: Any) -> None:
        row = await self.registry.run(catalog.read(name))
        assert row is not None
        await self.registry.run(catalog.update(replace(row, **changes)))

    def row(self, name: str) -> RepoSpec:
        return self.catalog.specs[name]

    def start(
        self, node_id: str = "n1", *, in_fleet: bool = False, tracer: Tracer = NO_TRACER, **changes: Any
    ) -> SearchNode:
        changes.setdefault("budget_bytes", 500 * MIB)
        self.metrics[node_id] = Metrics()
        index_set = IndexSet(threads=1)
        node = self.nodes[node_id] = SearchNode(
            self.catalog,
            self.origins,
            index_set,
            node_id=node_id,
            address=node_id,
            settings=SearchSettings(**changes),
            nodes=self,
            random=seeded_random(node_id),
            metrics=self.metrics[node_id],
            tracer=tracer,
        )
        self.local_nodes[node_id] = LocalNode(
            index_set,
            node,
            node_id=node_id,
            address=node_id,
            clock=CLOCK,
            may_answer=lambda name: True,
            in_thread=asyncio.to_thread,
        )
        node.before_drop = partial(quiesce, self.local_nodes[node_id], CLOCK)
        if in_fleet:
            self._join(node_id, node)
        else:
            node.join(StubLeases())
        self.tasks[node_id] = asyncio.ensure_future(node.run())
        self._stack.push_async_callback(self.stop, node_id)
        return node

    def _join(self, node_id: str, node: SearchNode) -> None:
        settings = OwnershipSettings(
            ttl_s=5.0, renew_s=1.0, window_s=0.5, claim_jitter_s=0.01, catalog_s=0.2, sweep_s=0.05
        )
        ownership = self.ownership[node_id] = OwnershipNode(
            self._store,
            self.catalog,
            node,
            node,
            node_id=node_id,
            address=node_id,
            settings=settings,
            random=seeded_random(f"ownership {node_id}"),
        )
        node.join(ownership)
        self.catalog.observers.append(ownership.catalog_changed)
        self.tasks[f"{node_id} ownership"] = asyncio.ensure_future(ownership.run())

    async def stop(self, node_id: str) -> None:
        for name in (f"{node_id} ownership", node_id):
            if (task := self.tasks.pop(name, None)) is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if (node := self.nodes.pop(node_id, None)) is not None:
            await node.close()
            node.index_set.close()

    def at(self, address: str) -> LocalNode:
        """Implements `Nodes`."""
        return self.local_nodes[address]

    def status(self, name: str, node_id: str = "n1") -> RepoStatus:
        return next(each for each in self.nodes[node_id].statuses() if each.name == name)

    def is_ready(self, name: str, node_id: str = "n1") -> bool:
        statuses = self.nodes[node_id].statuses()
        return any(each.name == name and each.phase is Phase.READY for each in statuses)

    async def matching_repos(self, text: str, node_id: str = "n1") -> list[str]:
        """The repositories with matches."""
        answer = await self.nodes[node_id].index_set.search(parse(text).query, Options())
        return sorted({file.repository for file in answer.files})

    def value(self, metric: Metric, node_id: str = "n1", **labels: str) -> float:
        return self.metrics[node_id].value(metric, **labels)


def lease(name: str, replica: int = 0, node: str = "n1", state: LeaseState = LeaseState.WARMING) -> Lease:
    return Lease(Unit(name, replica), node, node, "run-1", 1, state)


@asynccontextmanager
async def open_search_fleet(folder: Path) -> AsyncIterator[SearchFleet]:
    registry = await open_registry("memory://", clock=CLOCK, random=seeded_random(1))
    async with AsyncExitStack() as stack:
        fleet = SearchFleet(folder, registry, stack)
        following = asyncio.ensure_future(fleet.catalog.run())
        try:
            await fleet.catalog.wait_synced()
            yield fleet
            await stack.aclose()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
