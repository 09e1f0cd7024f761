"""A publisher built on the npm package for IPNI advertisements publishes to our indexer: every kind of key, both
codecs, chunks and a HAMT, a removal, extended providers, announced as CBOR and as JSON."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import entries
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import NO_ENTRIES, Cid
from argosy.ipni.formats.entries import HamtNode
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import Peer
from argosy.ipni.ports import PublisherSource
from argosy.ipni.settings import SyncSettings
from argosy.ipni.sync.client import HttpSources
from argosy.ipni.web.app import indexer_app
from tests.ipni.interop.node import PublishedContent, javascript_publisher
from tests.ipni.publish.chains import chain
from tests.ipni.publish.serving import serving

MAIN = "/ip4/203.0.113.1/tcp/4001"
FRIEND = "/dns4/friend.example/tcp/443/https"
PATIENCE_S = 60.0
INSTALLING_S = 300  # the first of these tests fetches the packages


class EmptyDisk:
    def percent(self) -> float:
        return 1.0


@asynccontextmanager
async def reading() -> AsyncIterator[HttpSources]:
    sources = HttpSources(SyncSettings(allow_private=True))
    try:
        yield sources
    finally:
        await sources.close()


async def read_multihashes(source: PublisherSource, advert: Advertisement) -> set[str]:
    """Every multihash of the advertisement's entries, in any form."""
    found: set[str] = set()
    waiting: list[tuple[Cid, bool]] = [] if advert.entries == NO_ENTRIES else [(advert.entries, True)]
    while waiting:
        cid, is_first = waiting.pop()
        data = await source.block(cid, is_entries=True)
        block = entries.decode_entries(cid, data) if is_first else entries.decode_node(cid, data)
        found.update(each.hex() for each in block.multihashes)
        if isinstance(block, HamtNode):
            waiting.extend((child, False) for child in block.children)
        elif block.next is not None:
            waiting.append((block.next, True))
    return found


@pytest.mark.timeout(INSTALLING_S)
@pytest.mark.parametrize("key_kind", ["Ed25519", "RSA", "secp256k1"])
@pytest.mark.parametrize(("codec", "is_json"), [("dag-json", False), ("dag-cbor", True)])
async def test_content_published_and_announced_from_javascript_is_found(
    tmp_path: Path, key_kind: str, codec: str, is_json: bool
) -> None:
    async with (
        javascript_publisher(key_kind, codec) as publisher,
        indexing(tmp_path) as (indexer, url),
        aiohttp.ClientSession(url) as client,
    ):
        await check_chain(publisher.published)
        assert await publisher.announce(f"{url}/announce", is_json=is_json) == 204
        async with asyncio.timeout(PATIENCE_S):
            await indexer.wait_idle(publisher.published.id)
        await check_all_found(client, publisher.published)
        await check_sync_state(client, publisher.published)
        assert await publisher.announce(f"{url}/announce", is_json=not is_json) == 204


async def check_chain(published: PublishedContent) -> None:
    """Read without an indexer: the signatures hold, each entry is there, and no other key can be its publisher."""
    async with reading() as sources:
        source = sources.open(Peer(published.id, (published.address,)))
        advertisements = await chain(source)
        first, second, third, removal, extended = advertisements
        assert [await read_multihashes(source, advert) for advert in (first, second, third)] == [
            set(published.held[context]) for context in ("chunks", "hamt", "removed")
        ]
        with pytest.raises(Invalid, match=f"is signed by {published.id}"):
            await sources.open(Peer(published.friend, (published.address,))).head()
    assert {(adverts.signer(advert), advert.provider) for advert in advertisements} == {(published.id, published.id)}
    assert (removal.is_removal, removal.context, removal.entries) == (True, b"removed", NO_ENTRIES)
    assert extended.extension is not None
    assert [(peer.id, peer.addresses) for peer in extended.extension.peers] == [
        (published.id, (MAIN,)),
        (published.friend, (FRIEND,)),
    ]


@asynccontextmanager
async def indexing(folder: Path) -> AsyncIterator[tuple[IndexerService, str]]:
    """Our indexer on a real store, with its HTTP surfaces."""
    store = await RocksStore.open(folder / "index")
    async with reading() as sources:
        indexer = await IndexerService.open(store, sources, usage=EmptyDisk())
        try:
            app = indexer_app(indexer, clock=SystemClock(), metrics=Metrics())
            async with serving(app) as url:
                yield indexer, url
        finally:
            await indexer.close()
            await store.close()


async def check_all_found(client: aiohttp.ClientSession, published: PublishedContent) -> None:
    """The extended provider is there for both contexts; the main one comes twice where its metadata differs."""
    itself, friend = (published.id, [MAIN]), (published.friend, [FRIEND])
    for context, providers in (("chunks", [itself, friend]), ("hamt", [itself, itself, friend])):
        for multihash in published.held[context]:
            async with client.get(f"/multihash/{multihash}") as answer:
                assert answer.status == 200, multihash
                (found,) = (await answer.json())["MultihashResults"]
            peers = [each["Provider"] for each in found["ProviderResults"]]
            assert [(peer["ID"], peer["Addrs"]) for peer in peers] == providers
    for multihash in published.removed:
        async with client.get(f"/multihash/{multihash}") as answer:
            assert answer.status == 404


async def check_sync_state(client: aiohttp.ClientSession, published: PublishedContent) -> None:
    async with client.get(f"/providers/{published.id}") as answer:
        provider = await answer.json()
    assert provider["LastAdvertisement"] == {"/": published.head}
    assert provider["Publisher"]["ID"] == published.id
    async with client.get(f"/sync/status/ad/{published.head}") as answer:
        assert await answer.json() == {"Ad": published.head, "Indexed": True}
