"""A chain that one process serves while another publishes to it."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import NotFound, Unavailable
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.cid import DAG_JSON
from argosy.ipni.formats.head import decode_head
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.ports import ChainLink
from argosy.ipni.publish.publisher import Publisher, ReadOnlyChain
from tests.ipni.publish.chains import BITSWAP, KEY, chain_of, hashes, read_context_entries, reading
from tests.ipni.publish.serving import serving

PATIENCE_S = 20.0
HEAD = "/ipni/v1/ad/head"


async def publish_once(path: Path, context: bytes, word: str) -> None:
    """By a publisher that opens the chain only for that."""
    async with chain_of("sqlite", path) as store:
        await (await Publisher.open(KEY, store)).publish(context, BITSWAP, hashes(word))


async def test_chains_published_by_another_process_are_served_at_once(tmp_path: Path) -> None:
    await publish_once(tmp_path, b"a", "x")
    store = await SqliteChain.read(tmp_path / "chain.db")
    try:
        served = await ReadOnlyChain.open(KEY, store, clock=SystemClock())
        first = served.head
        async with serving(publisher_app(served)) as url, aiohttp.ClientSession(url) as client:

            async def head() -> object:
                async with client.get(HEAD) as answer:
                    return decode_head(await answer.read()).head

            assert await head() == first
            await publish_once(tmp_path, b"b", "y")
            assert await head() == served.head != first
        async with reading(served) as source:
            assert await read_context_entries(source) == {b"a": set(hashes("x")), b"b": set(hashes("y"))}
    finally:
        await store.close()


async def test_a_waiting_reader_is_notified_of_what_another_process_publishes(tmp_path: Path) -> None:
    await publish_once(tmp_path, b"a", "x")
    store = await SqliteChain.read(tmp_path / "chain.db")
    try:
        served = await ReadOnlyChain.open(KEY, store, clock=SystemClock(), poll_s=0.01)
        news = asyncio.create_task(served.wait_new_head(served.head))
        await publish_once(tmp_path, b"b", "y")
        assert await asyncio.wait_for(news, PATIENCE_S) == served.head
    finally:
        await store.close()


async def test_a_chain_that_is_read_cannot_be_changed(tmp_path: Path) -> None:
    await publish_once(tmp_path, b"a", "x")
    store = await SqliteChain.read(tmp_path / "chain.db")
    try:
        with pytest.raises(Unavailable, match="readonly"):
            await store.append([ChainLink(cids.of(b"ad", DAG_JSON), b"ad")])
        assert await store.block(cids.of(b"ad", DAG_JSON)) is None
    finally:
        await store.close()


async def test_there_is_nothing_to_read_before_something_is_published(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="publish something first"):
        await SqliteChain.read(tmp_path / "chain.db")
