"""Whenever the process dies, the next one continues: nothing is lost, nothing is stored twice (IPN-3)."""

import asyncio
from contextlib import suppress

import pytest

from argosy.ipni import keys
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.ports import IndexStore
from tests.ipni.indexer.crashing import Crash, CrashingStore, rows_of
from tests.ipni.indexer.stage import SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes, until_found


def long_chain() -> Chain:
    chain = Chain()
    chain.add(b"1", hashes("1", 10))
    chain.add(b"2", hashes("2", 3))
    chain.add(b"2", metadata=b"changed")
    chain.remove(b"1")
    chain.add(b"1", hashes("1 again", 6))
    chain.add(b"tree", entries=chain.hamt(hashes("h", 400)))
    return chain


KEPT = [*hashes("2", 3), *hashes("1 again", 6), *hashes("h", 400)]


async def opened(store: IndexStore, chain: Chain) -> IndexerService:
    return await IndexerService.open(store, ChainSources(chain), settings=SETTINGS, usage=SetUsage())


async def calls_of_a_whole_run(chain: Chain) -> int:
    store = CrashingStore(MemoryIndexStore())
    indexer = await opened(store, chain)
    await follow(indexer, chain)
    await indexer.close()
    return store.calls


async def test_a_crash_at_any_call_of_the_store_loses_nothing_and_repeats_nothing() -> None:
    chain = long_chain()
    calls = await calls_of_a_whole_run(chain)
    assert calls > 8
    for crashes_at in range(1, calls):
        inner = MemoryIndexStore()
        first = CrashingStore(inner, crashes_at=crashes_at)
        indexer = await opened(first, chain)
        with suppress(Crash):
            await follow(indexer, chain)
        await indexer.close()
        marked = [keys.mark(ad) in await rows_of(inner, keys.MARKS) for ad in chain.ads]
        assert marked == sorted(marked, reverse=True), "processed means that all older ones are"

        second = CrashingStore(inner)
        chain.fetched.clear()
        indexer = await opened(second, chain)
        await follow(indexer, chain)
        assert all(await has(indexer, KEPT)), crashes_at
        assert not any(await has(indexer, hashes("1", 10))), crashes_at
        stored = first.stored + second.stored
        assert len(stored) == len(set(stored)), f"stored twice after a crash at call {crashes_at}"
        assert indexer.provider(chain.id).last_ad == chain.head
        await indexer.close()


async def test_an_interrupted_reading_does_not_fetch_advertisements_again() -> None:
    chain = long_chain()
    store = MemoryIndexStore()
    chain.fails_on = {chain.ads[0]}
    indexer = await opened(store, chain)
    await follow(indexer, chain)
    await indexer.close()
    assert chain.ads[1] in chain.fetched
    chain.fails_on, chain.fetched = set(), []
    indexer = await opened(store, chain)
    await follow(indexer, chain)
    assert [cid for cid in chain.fetched if cid in chain.ads] == [chain.ads[0]]
    assert not await rows_of(store, keys.pending_of(chain.id)), "an applied advertisement is not stored twice"
    await indexer.close()


async def test_a_restarted_indexer_continues_without_an_announcement() -> None:
    chain = long_chain()
    store = MemoryIndexStore()
    chain.is_down = True
    indexer = await opened(store, chain)
    await follow(indexer, chain)
    await indexer.close()
    chain.is_down = False
    indexer = await opened(store, chain)
    running = asyncio.ensure_future(indexer.run())
    await until_found(indexer, KEPT)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await indexer.close()
    assert (await opened(store, chain)).provider(chain.id).last_ad is not None


async def test_an_indexer_keeps_its_identity() -> None:
    store = MemoryIndexStore()
    first = (await opened(store, Chain())).status().id
    assert first == (await opened(store, Chain())).status().id
    assert first.startswith("12D3KooW")


async def test_blocks_of_an_abandoned_chain_are_dropped() -> None:
    """A publisher may start over: blocks of its old chain must not stay forever."""
    store, old, new = MemoryIndexStore(), Chain(), Chain()
    old.add(b"old", hashes("old", 1))
    old.add(b"older", hashes("older", 1))
    old.fails_on = {old.ads[0]}
    indexer = await opened(store, old)
    await follow(indexer, old)
    await indexer.close()
    assert await rows_of(store, keys.pending_of(old.id))
    new.add(b"new", hashes("new", 1))
    indexer = await opened(store, new)
    await follow(indexer, new)
    assert not await rows_of(store, keys.pending_of(old.id))
    assert all(await has(indexer, hashes("new", 1)))
    await indexer.close()


@pytest.mark.parametrize("count", [1, 7])
async def test_an_interrupted_hamt_continues_where_it_stopped(count: int) -> None:
    chain = Chain()
    root = chain.hamt(hashes("h", 9000))
    chain.add(b"tree", entries=root)
    leaves = [cid for cid in chain.blocks if cid not in chain.ads and cid != root]
    chain.fails_on = {leaves[-count]}
    indexer = await opened(MemoryIndexStore(), chain)
    await follow(indexer, chain)
    before = len([cid for cid in chain.fetched if cid in leaves])
    chain.fails_on, chain.fetched = set(), []
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("h", 9000)))
    assert before + len(chain.fetched) < 2 * len(leaves)
    await indexer.close()
