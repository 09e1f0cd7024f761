"""The advertiser of a node gets an event for every index that is loaded and for every one that is dropped."""

import asyncio

from argosy.base.clock import seeded_random
from argosy.ownership.model import Unit
from argosy.registry import catalog
from argosy.search.fleet.search_node import SearchNode
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.settings import SearchSettings
from tests.search.fleet.fleet_fixture import MIB, SearchFleet, StubLeases, lease, until


class RecordingAdvertiser:
    """Implements `Advertiser`: records its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def on_indexed(self, index: Index) -> None:
        [branch] = index.repository.branches
        self.events.append((index.repository.name, branch.version))

    def on_dropped(self, name: str) -> None:
        self.events.append((name, "dropped"))


async def test_an_recorderis_notified_of_indexed_and_dropped_repositories(fleet: SearchFleet) -> None:
    repo, recorder, index_set = fleet.repo("a"), RecordingAdvertiser(), IndexSet(threads=1)
    first = repo.git("rev-parse", "HEAD")
    await fleet.spec("a")
    settings = SearchSettings(budget_bytes=500 * MIB, refresh_s=3600.0, verify_s=3600.0)
    node = SearchNode(
        fleet.catalog,
        fleet.origins,
        index_set,
        node_id="n1",
        address="n1",
        settings=settings,
        random=seeded_random(1),
        advertiser=recorder,
    )
    node.join(StubLeases())
    running = asyncio.ensure_future(node.run())
    try:
        await node.warm(lease("a"))
        assert recorder.events == [("a", first)]
        second = repo.commit({"more.py": b"more = 1\n"})
        node.notify_push("a")
        await until(lambda: recorder.events[1:])
        assert recorder.events[1:] == [("a", second)]
        await node.drop(Unit("a"))
        assert recorder.events[2:] == [("a", "dropped")]
        await node.drop(Unit("a"))  # not held: no event
        await node.warm(lease("a"))
        await fleet.registry.run(catalog.remove("a"))  # removed from the catalog
        await until(lambda: recorder.events[4:])
        assert recorder.events[3:] == [("a", second), ("a", "dropped")]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await node.close()
        index_set.close()
