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
from tests.ipni.interop.node import Told, javascript_publisher
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


async def read(source: PublisherSource, advert: Advertisement) -> set[str]:
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
        await see_the_chain(publisher.told)
        assert await publisher.announce(f"{url}/announce", is_json=is_json) == 204
        async with asyncio.timeout(PATIENCE_S):
            await indexer.wait_idle(publisher.told.id)
        await see_all_found(client, publisher.told)
        await see_how_far(client, publisher.told)
        assert await publisher.announce(f"{url}/announce", is_json=not is_json) == 204


async def see_the_chain(told: Told) -> None:
    """Read without an indexer: the signatures hold, each entry is there, and no other key can be its publisher."""
    async with reading() as sources:
        source = sources.open(Peer(told.id, (told.address,)))
        told_adverts = await chain(source)
        first, second, third, removal, extended = told_adverts
        assert [await read(source, advert) for advert in (first, second, third)] == [
            set(told.held[context]) for context in ("chunks", "hamt", "removed")
        ]
        with pytest.raises(Invalid, match=f"is signed by {told.id}"):
            await sources.open(Peer(told.friend, (told.address,))).head()
    assert {(adverts.signer(advert), advert.provider) for advert in told_adverts} == {(told.id, told.id)}
    assert (removal.is_removal, removal.context, removal.entries) == (True, b"removed", NO_ENTRIES)
    assert extended.extension is not None
    assert [(peer.id, peer.addresses) for peer in extended.extension.peers] == [
        (told.id, (MAIN,)),
        (told.friend, (FRIEND,)),
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


async def see_all_found(client: aiohttp.ClientSession, told: Told) -> None:
    """The extended provider is there for both contexts; the main one comes twice where its metadata differs."""
    itself, friend = (told.id, [MAIN]), (told.friend, [FRIEND])
    for context, providers in (("chunks", [itself, friend]), ("hamt", [itself, itself, friend])):
        for multihash in told.held[context]:
            async with client.get(f"/multihash/{multihash}") as answer:
                assert answer.status == 200, multihash
                (found,) = (await answer.json())["MultihashResults"]
            peers = [each["Provider"] for each in found["ProviderResults"]]
            assert [(peer["ID"], peer["Addrs"]) for peer in peers] == providers
    for multihash in told.removed:
        async with client.get(f"/multihash/{multihash}") as answer:
            assert answer.status == 404


async def see_how_far(client: aiohttp.ClientSession, told: Told) -> None:
    async with client.get(f"/providers/{told.id}") as answer:
        provider = await answer.json()
    assert provider["LastAdvertisement"] == {"/": told.head}
    assert provider["Publisher"]["ID"] == told.id
    async with client.get(f"/sync/status/ad/{told.head}") as answer:
        assert await answer.json() == {"Ad": told.head, "Indexed": True}
