"""Every chain store has atomic steps, offers by their contexts, and no unreferenced blocks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.cid import DAG_JSON, Cid
from argosy.ipni.publish.ports import ChainLink, ChainStore, PublishedContext
from tests.ipni.publish.chains import chain_of

PROVIDER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChainStore]:
    async with chain_of(request.param, tmp_path) as made:
        yield made


def name(text: str) -> Cid:
    return cids.of(text.encode(), DAG_JSON)


def link(text: str, context: bytes, *entries: Cid, is_removed: bool = False, multihashes: int = 0) -> ChainLink:
    published = PublishedContext(PROVIDER, context, b"m", name(text), multihashes)
    return ChainLink(name(text), text.encode(), published, entries, is_removed)


async def stage_all(store: ChainStore, *texts: str) -> list[Cid]:
    for text in texts:
        await store.stage(name(text), text.encode())
    return [name(text) for text in texts]


async def test_a_new_chain_is_empty(store: ChainStore) -> None:
    assert await store.head() is None
    assert await store.block(name("x")) is None
    assert await store.list_contexts(PROVIDER) == []
    assert await store.sweep(10) == 0


async def test_the_last_of_what_is_appended_is_the_head(store: ChainStore) -> None:
    (chunk,) = await stage_all(store, "chunk")
    await store.append([link("one", b"a", chunk, multihashes=7), link("two", b"b")])
    assert await store.head() == name("two")
    assert [await store.block(name(text)) for text in ("one", "two", "chunk")] == [b"one", b"two", b"chunk"]
    assert await store.find_context(PROVIDER, b"a") == PublishedContext(PROVIDER, b"a", b"m", name("one"), 7)
    assert await store.find_context("12D3KooWSomebodyElse", b"a") is None


async def test_an_advertisement_may_change_no_offer(store: ChainStore) -> None:
    await store.append([ChainLink(name("addresses"), b"addresses")])
    assert (await store.head(), await store.list_contexts(PROVIDER)) == (name("addresses"), [])


async def test_offers_are_found_by_context_prefix(store: ChainStore) -> None:
    contexts = [b"\xff\xfe", b"repo@2", b"repo@1", b"repo2@1", b"\x00", b"%@", b""]
    await store.append([link(f"ad {context!r}", context) for context in contexts])
    assert [published.context for published in await store.list_contexts(PROVIDER)] == sorted(contexts)
    assert [published.context for published in await store.list_contexts(PROVIDER, b"repo@")] == [b"repo@1", b"repo@2"]
    assert [published.context for published in await store.list_contexts(PROVIDER, b"\xff")] == [b"\xff\xfe"]
    assert await store.list_contexts(PROVIDER, b"_") == []


async def test_a_sweep_takes_so_many_blocks_and_never_one_that_is_needed(store: ChainStore) -> None:
    shared, own, more, orphan = await stage_all(store, "shared", "own", "more", "orphan")
    await store.append([link("one", b"a", shared, own), link("two", b"b", shared), link("three", b"a", more)])
    assert (await store.sweep(10), await store.block(orphan)) == (1, None)
    await store.append([link("four", b"a", is_removed=True)])
    assert [await store.sweep(1) for _ in range(3)] == [1, 1, 0]
    assert [await store.block(cid) is None for cid in (shared, own, more)] == [False, True, True]
    assert await store.block(name("one")) == b"one"  # advertisements stay: they link the chain
    assert await store.find_context(PROVIDER, b"a") is None


async def test_a_context_may_be_offered_again_after_it_was_over(store: ChainStore) -> None:
    (first,) = await stage_all(store, "first")
    await store.append([link("one", b"a", first), link("two", b"a", is_removed=True)])
    await stage_all(store, "first")
    await store.append([link("three", b"a", first)])
    assert await store.sweep(10) == 0
    assert await store.block(first) == b"first"
