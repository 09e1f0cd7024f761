"""From a folder to a find: published, announced, read by our indexer, and found; changed, and the old content gone."""

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.metrics import Metrics
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.formats import multiaddr
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import Peer
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.files import publish_paths
from argosy.ipni.publish.head_announcer import AnnounceClient, HeadAnnouncer
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher
from argosy.ipni.settings import SyncSettings
from argosy.ipni.sync.client import HttpSources
from argosy.ipni.web.app import indexer_app
from tests.ipni.publish.chains import ADDRESSES, HTTP, KEY
from tests.ipni.publish.serving import serving

PATIENCE_S = 30.0


class EmptyDisk:
    def percent(self) -> float:
        return 1.0


@pytest.mark.parametrize("codec", [DAG_JSON, DAG_CBOR])
async def test_a_folder_is_found_by_its_content_and_deleted_files_are_not(tmp_path: Path, codec: int) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "a").write_bytes(b"stays")
    (folder / "b").write_bytes(b"goes")
    sources = HttpSources(SyncSettings(allow_private=True))
    indexer = await IndexerService.open(MemoryIndexStore(), sources, usage=EmptyDisk())
    publisher = await Publisher.open(KEY, MemoryChain(), addresses=ADDRESSES, codec=codec)
    async with (
        serving(indexer_app(indexer, clock=SystemClock(), metrics=Metrics())) as indexer_url,
        serving(publisher_app(publisher)) as url,
    ):
        announcer = AnnounceClient([indexer_url], clock=SystemClock(), random=seeded_random(1))
        head_announcer = HeadAnnouncer(publisher, announcer, [multiaddr.from_url(url)], clock=SystemClock())
        try:
            await publish_paths([folder], publisher)
            await announce_and_wait(head_announcer, indexer)
            assert await holders(indexer, b"stays", b"goes", b"comes") == [[KEY.peer_id], [KEY.peer_id], []]
            (folder / "b").write_bytes(b"comes")
            await publish_paths([folder], publisher)
            await announce_and_wait(head_announcer, indexer)
            assert await holders(indexer, b"stays", b"goes", b"comes") == [[KEY.peer_id], [], [KEY.peer_id]]
            assert indexer.provider(KEY.peer_id).last_ad == publisher.head
        finally:
            await announcer.close()
            await indexer.close()
            await sources.close()


async def announce_and_wait(head_announcer: HeadAnnouncer, indexer: IndexerService) -> None:
    assert [result.error for result in await head_announcer.announce()] == [None]
    async with asyncio.timeout(PATIENCE_S):
        await indexer.wait_idle(KEY.peer_id)


async def holders(indexer: IndexerService, *contents: bytes) -> list[list[str]]:
    multihashes_of_files = [wrap(SHA2_256, sha256(content).digest()) for content in contents]
    found = await indexer.find(multihashes_of_files)
    assert {result.provider for results in found for result in results} <= {Peer(KEY.peer_id, ADDRESSES)}
    assert {result.metadata for results in found for result in results} <= {HTTP}
    return [[result.provider.id for result in results] for results in found]
