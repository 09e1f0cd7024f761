"""Indexers that store their tracking locally and write entries to the query layer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from starlette.types import ASGIApp

from argosy.base.clock import seeded_random
from argosy.base.metrics import Metrics
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.keyspace.runtime import KeyspaceFrontend
from argosy.ipni.ports import IndexStore
from argosy.ipni.web.find import find_app
from tests.ipni.indexer.stage import SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes, turn
from tests.ipni.keyspace.stage import CLOCK, Fleet, fleet
from tests.ipni.publish.serving import serving


class PersistentStore(MemoryIndexStore):
    """Rows that outlive the indexer."""

    async def close(self) -> None:
        pass


@asynccontextmanager
async def indexing(nodes: Fleet, local: IndexStore, *chains: Chain) -> AsyncIterator[IndexerService]:
    store = await nodes.ingest_store(local)
    indexer = await IndexerService.open(
        store, ChainSources(*chains), settings=replace(SETTINGS, sweep_s=0.01), usage=SetUsage()
    )
    running = asyncio.ensure_future(indexer.run())
    try:
        yield indexer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await indexer.close()
        await store.close()


async def test_two_indexers_share_the_query_layer_and_each_finds_its_own(tmp_path: Path) -> None:
    first, second = Chain("first"), Chain("second")
    first.add(b"1", hashes("first", 30))
    second.add(b"1", hashes("second", 30))
    second.add(b"2", hashes("first", 5))
    async with (
        fleet(tmp_path) as nodes,
        _first_layout(nodes),
        indexing(nodes, PersistentStore(), first) as one,
        indexing(nodes, PersistentStore(), second) as two,
    ):
        await follow(one, first)
        await follow(two, second)
        assert await has(one, hashes("first", 30)) == [True] * 30
        assert await has(two, hashes("second", 30)) == [True] * 30
        # Entries of another indexer are neither returned nor swept as orphans.
        assert await has(two, hashes("first", 30)) == [True] * 5 + [False] * 25
        assert not two._resolver.orphans
        first.remove(b"1")
        await follow(one, first)
        assert await has(one, hashes("first", 30)) == [False] * 30
        assert await has(two, hashes("first", 5)) == [True] * 5
        assert (await one.stats()).entries >= 35


async def test_an_indexer_waits_for_an_unavailable_owner_and_loses_nothing(tmp_path: Path) -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 20))
    rows = PersistentStore()
    async with fleet(tmp_path) as nodes, _first_layout(nodes):
        async with indexing(nodes, rows, chain) as indexer:
            await follow(indexer, chain)
            await nodes.stop("b")
            last = chain.add(b"2", hashes("2", 40))
            await follow(indexer, chain)
            assert not await indexer.is_indexed(last)
            assert await has(indexer, hashes("1", 20)) == [True] * 20
        await nodes.start("b")
        async with indexing(nodes, rows, chain) as indexer, asyncio.timeout(30):
            await indexer.announce(chain.announcement())
            while not await indexer.is_indexed(last):
                await turn()
            assert await has(indexer, [*hashes("1", 20), *hashes("2", 40)]) == [True] * 60


async def test_the_front_answers_for_all_indexers_and_ingests_nothing(tmp_path: Path) -> None:
    first, second, late = Chain("first"), Chain("second"), Chain("late")
    first.add(b"1", hashes("first", 30))
    second.add(b"1", hashes("second", 30))
    second.add(b"2", hashes("first", 5))
    async with AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(fleet(tmp_path))
        await stack.enter_async_context(_first_layout(nodes))
        one = await stack.enter_async_context(indexing(nodes, PersistentStore(), first))
        two = await stack.enter_async_context(indexing(nodes, PersistentStore(), second, late))
        urls = [await stack.enter_async_context(serving(finding(each))) for each in (one, two)]
        await follow(one, first)
        await follow(two, second)
        settings = replace(nodes.settings(""), indexer_urls=tuple(urls))
        opened = await KeyspaceFrontend.open(settings, id="front", clock=CLOCK, random=seeded_random(1))
        stack.push_async_callback(opened.close)
        front = opened.frontend
        url = await stack.enter_async_context(serving(finding(front)))
        client = await stack.enter_async_context(IndexerClient(find_url=url))
        providers = [{each.provider.id for each in await client.find(it)} for it in hashes("first", 30)]
        assert providers == [{first.id, second.id}] * 5 + [{first.id}] * 25
        assert await client.find(hashes("second", 30)[7]) != ()
        assert await client.find(hashes("other", 1)[0]) == ()
        assert {each.id for each in await client.providers()} == {first.id, second.id}
        assert (await client.stats()).entries >= 65
        assert len(await front.sample(first.id, b"1", beacon=b"beacon", multihashes_max=3)) == 3

        late.add(b"1", hashes("late", 3))
        await follow(two, late)
        front._refreshed_at -= 10  # long enough since its last request
        assert [len(each) for each in await front.find(hashes("late", 3))] == [1, 1, 1]
        assert late.id in {each.id for each in front.providers()}


def finding(indexer: object) -> ASGIApp:
    return find_app(indexer, clock=CLOCK, metrics=Metrics())  # type: ignore[arg-type]


@asynccontextmanager
async def _first_layout(nodes: Fleet) -> AsyncIterator[None]:
    await nodes.create("abc", 2)
    yield
