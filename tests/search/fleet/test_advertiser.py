"""Whoever advertises what a node holds is told of every index that is put on its shelf, and of every one that goes."""

import asyncio

from argosy.base.clock import seeded_random
from argosy.ownership.model import Unit
from argosy.registry import catalog
from argosy.search.fleet.search_node import SearchNode
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.settings import SearchSettings
from tests.search.fleet.harbour import MIB, Harbour, Held, lease, until


class Told:
    """Implements `Advertiser`: writes down what it hears."""

    def __init__(self) -> None:
        self.words: list[tuple[str, str]] = []

    def on_indexed(self, index: Index) -> None:
        [branch] = index.repository.branches
        self.words.append((index.repository.name, branch.version))

    def on_dropped(self, name: str) -> None:
        self.words.append((name, "dropped"))


async def test_an_advertiser_is_notified_of_indexed_and_dropped_repositories(harbour: Harbour) -> None:
    repo, told, shelf = harbour.repo("a"), Told(), IndexSet(threads=1)
    first = repo.git("rev-parse", "HEAD")
    await harbour.spec("a")
    settings = SearchSettings(budget_bytes=500 * MIB, refresh_s=3600.0, verify_s=3600.0)
    node = SearchNode(
        harbour.catalog,
        harbour.origins,
        shelf,
        node_id="n1",
        address="n1",
        settings=settings,
        random=seeded_random(1),
        advertiser=told,
    )
    node.join(Held())
    running = asyncio.ensure_future(node.run())
    try:
        await node.warm(lease("a"))
        assert told.words == [("a", first)]
        second = repo.commit({"more.py": b"more = 1\n"})
        node.notify_push("a")
        await until(lambda: told.words[1:])
        assert told.words[1:] == [("a", second)]
        await node.drop(Unit("a"))
        assert told.words[2:] == [("a", "dropped")]
        await node.drop(Unit("a"))  # not held: nothing to tell
        await node.warm(lease("a"))
        await harbour.registry.run(catalog.remove("a"))  # nobody specs for it any more
        await until(lambda: told.words[4:])
        assert told.words[3:] == [("a", second), ("a", "dropped")]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await node.close()
        shelf.close()
