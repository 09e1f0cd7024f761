"""The indexer with everything real: a publisher over HTTP, RocksDB, and a restart between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.ipni.backends.disk_usage import FileUsage
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON
from argosy.ipni.formats.head import Announcement
from argosy.ipni.formats.multiaddr import from_url
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import Peer
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher
from argosy.ipni.settings import IndexerSettings, SyncSettings
from argosy.ipni.sync.client import HttpSources
from tests.ipni.indexer.stage import ADDRESS, METADATA, has, hashes, key_of, until_found
from tests.ipni.publish.serving import serving


@asynccontextmanager
async def indexing(folder: Path, settings: IndexerSettings) -> AsyncIterator[IndexerService]:
    store = await RocksStore.open(folder / "index")
    sources = HttpSources(SyncSettings(allow_private=True))
    indexer = await IndexerService.open(store, sources, settings=settings, usage=FileUsage(folder / "usage"))
    running = asyncio.ensure_future(indexer.run())
    try:
        yield indexer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await indexer.close()
        await sources.close()
        await store.close()


@pytest.mark.parametrize("codec", [DAG_JSON, DAG_CBOR])
async def test_publish_find_freeze_remove_unfreeze(tmp_path: Path, codec: int) -> None:
    (tmp_path / "usage").write_text("50")
    publisher = await Publisher.open(
        key_of("p"), MemoryChain(), addresses=[ADDRESS], codec=codec, chunk_multihashes=100, frees_removed=False
    )
    settings = IndexerSettings()
    async with serving(publisher_app(publisher)) as url:
        peer = Peer(publisher.id, (from_url(url),))

        async def announce_head(indexer: IndexerService) -> None:
            assert publisher.head is not None
            await indexer.announce(Announcement(publisher.head, peer))
            await indexer.wait_idle(publisher.id)

        async with indexing(tmp_path, settings) as indexer:
            first = await publisher.publish(b"1", METADATA, hashes("1", 450))
            await announce_head(indexer)
            assert all(await has(indexer, hashes("1", 450)))
            (tmp_path / "usage").write_text("91")
            await publisher.publish(b"2", METADATA, hashes("2", 450))
            await publisher.remove(b"1")
            await announce_head(indexer)
            assert indexer.status().is_frozen
            assert indexer.provider(publisher.id).frozen_at == first
            assert not any(await has(indexer, hashes("1", 450) + hashes("2", 450)))
        (tmp_path / "usage").write_text("50")
        async with indexing(tmp_path, replace(settings, unfreeze_on_start=True)) as indexer:
            await until_found(indexer, hashes("2", 450))  # it continues by itself
            await indexer.wait_idle(publisher.id)
            assert not any(await has(indexer, hashes("1", 450)))
            assert indexer.provider(publisher.id).last_ad == publisher.head


async def test_two_publishers_of_one_provider_take_turns_and_both_arrive(tmp_path: Path) -> None:
    """A provider that is busy through another chain waits its turn; nothing of either chain is dropped."""
    (tmp_path / "usage").write_text("1")
    provider = Peer(key_of("provider").peer_id, (ADDRESS,))
    publishers = [
        await Publisher.open(key_of(name), MemoryChain(), addresses=[ADDRESS], chunk_multihashes=10) for name in "pq"
    ]
    for publisher, name in zip(publishers, "pq", strict=True):
        for number in range(8):
            context = f"{name}{number}"
            await publisher.publish(context.encode(), METADATA, hashes(context, 30), provider=provider)
    async with (
        serving(publisher_app(publishers[0])) as one,
        serving(publisher_app(publishers[1])) as two,
        indexing(tmp_path, IndexerSettings()) as indexer,
    ):
        for publisher, url in zip(publishers, (one, two), strict=True):
            assert publisher.head is not None
            await indexer.announce(Announcement(publisher.head, Peer(publisher.id, (from_url(url),))))
        for publisher in publishers:
            await indexer.wait_idle(publisher.id)
        assert all(await has(indexer, [each for n in "pq" for i in range(8) for each in hashes(f"{n}{i}", 30)]))
