"""Document 001, "Indexer Scaling Design for Ingest-heavy Workload": scatter and gather, sentence by sentence."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from argosy.gateway.content.model import Backend
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings
from tests.ipni.assigner.site import Site, add_entries, chains, site
from tests.ipni.indexer.stage import Chain

SETTINGS = ContentSettings(find_s=30.0, patience_max_s=30.0, patience_min_s=30.0, cache_entries=0)


@asynccontextmanager
async def open_gateway(it: Site, settings: ContentSettings = SETTINGS) -> AsyncIterator[ContentGateway]:
    gateway = ContentGateway([Backend.at(it.url(name)) for name in it.entries], settings)
    try:
        yield gateway
    finally:
        await gateway.close()


async def ingest_one_each(it: Site, *all_chains: Chain, replication: int = 1) -> list[bytes]:
    """Three indexers that have one publisher each, or share them; returns one multihash of each publisher."""
    for name in "abc":
        await it.add(name)
    service = await it.assigner(it.configuration(replication=replication))
    marks = [add_entries(chain, "one") for chain in all_chains]
    await it.announce(service, *all_chains)
    it.requests.clear()
    return marks


async def test_queries_go_to_all_indexers_and_results_are_merged() -> None:
    """Must be able to send queries to all indexers and merge results into single response. […] So, all indexers must be
    queried and the results collected and merged into one response."""
    all_chains = chains("p", "q", "r")
    async with site(*all_chains) as it:
        marks = await ingest_one_each(it, *all_chains)
        async with open_gateway(it) as gateway:
            answer = await gateway.find(marks)
        assert [(multihash, [each.provider.id for each in records]) for multihash, records in answer.found] == [
            (mark, [chain.id]) for mark, chain in zip(marks, all_chains, strict=True)
        ]
        assert it.requests == {"a": 1, "b": 1, "c": 1}


async def test_duplicate_results_are_merged() -> None:
    """collects the results from all indexers, and then merges them into a single response."""
    (p,) = chains("p")
    async with site(p) as it:
        [mark] = await ingest_one_each(it, p, replication=3)
        assert await it.finders(mark) == ["a", "b", "c"]
        async with open_gateway(it) as gateway:
            [(_, records)] = (await gateway.find([mark])).found
        assert [each.provider.id for each in records] == [p.id]


async def test_indexers_are_queried_in_parallel() -> None:
    """The total query response time is not more than the response time from the slowest indexer as these are done in
    parallel."""
    (p,) = chains("p")
    async with site(p) as it:
        marks = await ingest_one_each(it, p)
        there = asyncio.Barrier(3)

        async def wait_for_the_others(name: str) -> None:
            await there.wait()  # no response before every indexer got the request

        it.entered = wait_for_the_others
        async with open_gateway(it) as gateway:
            answer = await gateway.find(marks)
        assert (len(answer.found[0][1]), answer.missing) == (1, ())


async def test_a_slow_indexer_is_skipped_and_reported_missing() -> None:
    """If any indexer is too slow it is ignored"""
    (p,) = chains("p")
    async with site(p) as it:
        [mark] = await ingest_one_each(it, p)
        (holder,) = await it.finders(mark)
        slow = next(name for name in it.entries if name != holder)
        forever = asyncio.Event()

        async def wait_if_slow(name: str) -> None:
            if name == slow:
                await forever.wait()

        it.entered = wait_if_slow
        hasty = ContentSettings(find_s=30.0, patience_min_s=0.2, patience_max_s=0.5, cache_entries=0)
        async with open_gateway(it, hasty) as gateway:
            answer = await gateway.find([mark])
        forever.set()
        assert len(answer.found[0][1]) == 1
        assert [lack.backend for lack in answer.missing] == [Backend.at(it.url(slow)).name]


async def test_an_unreachable_indexer_opens_the_circuit_breaker() -> None:
    """circuit breaker logic prevents continuing to send queries to down indexers."""
    (p,) = chains("p")
    async with site(p) as it:
        [mark] = await ingest_one_each(it, p, replication=2)
        down, _ = await it.finders(mark)
        it.unavailable.add(down)
        careful = ContentSettings(breaker_failures=3, breaker_first_s=30.0, cache_entries=0)
        async with open_gateway(it, careful) as gateway:
            for _ in range(10):
                answer = await gateway.find([mark])
                assert len(answer.found[0][1]) == 1
        assert it.requests[down] == 3


async def test_a_repeated_query_is_served_from_the_cache() -> None:
    """The final query result is cached […] and so repeated queries are answered before they even reach the Indexstar
    service."""
    (p,) = chains("p")
    async with site(p) as it:
        [mark] = await ingest_one_each(it, p)
        async with open_gateway(it, ContentSettings()) as gateway:
            answers = [await gateway.find([mark]) for _ in range(5)]
        assert [answer.found for answer in answers] == [answers[0].found] * 5
        assert it.requests == {"a": 1, "b": 1, "c": 1}
