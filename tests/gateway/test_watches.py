"""The gateway on an ownership store and a registry, both watched live."""

import asyncio
from collections.abc import Callable

from argosy.base.clock import SystemClock, seeded_random
from argosy.gateway import Gateway, GatewaySettings
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import LeaseState, Member, SessionRole, Space, Unit
from argosy.ownership.view import FleetWatcher
from argosy.registry import catalog, open_registry
from argosy.search.catalog.watcher import CatalogWatcher
from argosy.search.model import MissingReason, Options, SearchResult
from argosy.search.query import parse
from tests.gateway.world import FakeNode, comparable, oracle

QUERY = parse("needle").query
TIMEOUT_S = 20.0


class Nodes:
    def __init__(self, *nodes: FakeNode) -> None:
        self._nodes = {node.address: node for node in nodes}

    def at(self, address: str) -> FakeNode:
        return self._nodes[address]


class Changes:
    """Lets a test wait for what the gateway has seen."""

    def __init__(self, onlooker: FleetWatcher, specs: CatalogWatcher) -> None:
        self._changed = asyncio.Event()
        onlooker.observers.append(self._changed.set)
        specs.observers.append(self._changed.set)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


async def test_results_follow_leases_and_the_catalog() -> None:
    clock, random = SystemClock(), seeded_random(1)
    store = MemoryOwnershipStore(Space("repos", is_auctioned=False), clock=clock, random=random)
    registry = await open_registry("memory://", clock=clock, random=random)
    onlooker, specs = FleetWatcher(store), CatalogWatcher(registry)
    following = [asyncio.create_task(each.run()) for each in (onlooker, specs)]
    node = FakeNode("n1:80", clock).has("core", "dust")
    gateway = Gateway(Nodes(node), onlooker.view, specs, GatewaySettings(cache_ttl_s=60.0))
    assert not gateway.is_ready()
    changes = Changes(onlooker, specs)
    await changes.until(gateway.is_ready)
    assert await gateway.search(QUERY, Options()) == SearchResult()

    for name in ("core", "dust"):
        await registry.run(catalog.add(name, f"https://example.org/{name}"))
    session = await store.open_session(SessionRole.HOLDER, Member("n1", "n1:80"), ttl_s=60.0)
    lease = await store.claim(session, Unit("core"))
    await store.set_state(session, lease.unit, lease.epoch, LeaseState.READY)
    await changes.until(lambda: "dust" in specs.specs and _is_ready(onlooker, "core"))
    answer = await gateway.search(QUERY, Options())
    assert comparable(answer) == comparable(oracle(["core"], "needle"))
    assert [(each.repository, each.why) for each in answer.missing] == [("dust", MissingReason.UNOWNED)]

    lease = await store.claim(session, Unit("dust"))
    await store.set_state(session, lease.unit, lease.epoch, LeaseState.READY)
    await changes.until(lambda: _is_ready(onlooker, "dust"))
    assert comparable(await gateway.search(QUERY, Options())) == comparable(oracle(["core", "dust"], "needle"))

    await registry.run(catalog.remove("core"))
    await changes.until(lambda: "core" not in specs.specs)
    assert comparable(await gateway.search(QUERY, Options())) == comparable(oracle(["dust"], "needle"))
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


def _is_ready(onlooker: FleetWatcher, name: str) -> bool:
    lease = onlooker.view.leases.get(Unit(name))
    return lease is not None and lease.state is LeaseState.READY
