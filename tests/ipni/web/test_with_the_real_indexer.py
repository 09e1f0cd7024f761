"""The HTTP APIs over a real indexer on a real store, a real publisher, and real HTTP between them."""

import asyncio
import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Conflict, Invalid, NotFound, Unauthorized
from argosy.base.metrics import Metrics
from argosy.ipni.backends.disk_usage import DiskUsage
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.formats import cid, metadata, multihash, privacy
from argosy.ipni.formats.bases import base58, from_base58
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.formats.multiaddr import from_url
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.model import Assignment, Peer, Provider
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher
from argosy.ipni.settings import IndexerSettings, SyncSettings
from argosy.ipni.sync.client import HttpSources
from argosy.ipni.web import results
from argosy.ipni.web.app import admin_app, find_app, indexer_app, ingest_app
from tests.ipni.publish.serving import serving
from tests.ipni.web.builders import KEYS, A, B
from tests.ipni.web.wire import served

TOKEN = "the-admin-token"
CONTENT = [multihash.of(b"%d" % number) for number in range(40)]
CONTEXT = b"\xffrepo@1"
WITHIN_S = 30


@dataclass
class Stage:
    """An indexer, its addresses, and its clients."""

    indexer: IndexerService
    url: str
    client: IndexerClient
    web: aiohttp.ClientSession
    by_asgi: list[str]

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        async with self.web.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.read()

    async def until_indexed(self, ad: Cid) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not json.loads((await self.get(f"/sync/status/ad/{ad}"))[1])["Indexed"]:
                pass  # polling alternates with what is waited for


async def providers_of(url: str) -> list[Provider]:
    async with IndexerClient(find_url=url) as other:
        return list(await other.providers())


@asynccontextmanager
async def staged(folder: Path, **settings: bool) -> AsyncIterator[Stage]:
    store = await RocksStore.open(folder, is_double_hashed=True)
    sources = HttpSources(SyncSettings(allow_private=True))
    indexer = await IndexerService.open(
        store,
        sources,
        settings=IndexerSettings(freeze_at_percent=100, **settings),
        usage=DiskUsage([folder]),
        providers_of=providers_of,
    )
    app = indexer_app(indexer, clock=SystemClock(), metrics=Metrics(), admin_token=TOKEN)
    try:
        async with (
            served(app, in_connection=True) as at,
            IndexerClient(at.url, at.url, at.url, token=TOKEN) as client,
            aiohttp.ClientSession() as web,
        ):
            yield Stage(indexer, at.url, client, web, at.by_asgi)
    finally:
        await indexer.close()
        await sources.close()
        await store.close()


@asynccontextmanager
async def publishing() -> AsyncIterator[tuple[Publisher, Peer]]:
    publisher = await Publisher.open(KEYS[0], MemoryChain(), addresses=("/ip4/203.0.113.7/tcp/4001",))
    async with serving(publisher_app(publisher)) as url:
        yield publisher, Peer(publisher.id, (from_url(url),))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path / "one") as setup:
        yield setup


async def test_announced_content_is_found_by_every_lookup_and_removed_content_is_not(stage: Stage) -> None:
    async with publishing() as (publisher, peer):
        ad = await publisher.publish(CONTEXT, metadata.bitswap(), CONTENT)
        await stage.client.announce(Announcement(ad, peer))
        await stage.until_indexed(ad)
        name, raw = base58(CONTENT[7]), Cid(cid.RAW, CONTENT[7])
        for path in (f"/multihash/{name}", f"/cid/{raw}"):
            status, body = await stage.get(path)
            [(found, [one])] = results.decode_json(body)
            assert (status, found, one.context, one.metadata) == (200, CONTENT[7], CONTEXT, metadata.bitswap())
            assert one.provider == Peer(A, ("/ip4/203.0.113.7/tcp/4001",))
            lines = (await stage.get(path, accept="application/x-ndjson"))[1]
            assert results.decode_line(lines) == one
            assert stage.by_asgi.count(f"GET {path}") == 1, "lines; a store on this machine answers in the connection"
        routed = json.loads((await stage.get(f"/routing/v1/providers/{raw}?filter-addrs=tcp"))[1])
        assert [each["ID"] for each in routed["Providers"]] == [A]
        removal = await publisher.remove(CONTEXT)
        await stage.client.announce(Announcement(removal, peer))
        await stage.until_indexed(removal)
        assert await stage.get(f"/multihash/{name}") == (404, b"no results for query")


async def test_a_private_lookup_is_answered_and_samples_are_of_the_context(stage: Stage) -> None:
    async with publishing() as (publisher, peer):
        ad = await publisher.publish(CONTEXT, metadata.http(), CONTENT)
        await stage.client.announce(Announcement(ad, peer))
        await stage.until_indexed(ad)
    second = privacy.second_hash(CONTENT[3])
    [(_, [encrypted])] = results.decode_encrypted_json((await stage.get(f"/encrypted/multihash/{base58(second)}"))[1])
    key = privacy.decrypt_value_key(encrypted, CONTENT[3])
    assert privacy.split_value_key(key) == (A, CONTEXT)
    metadata_fields = json.loads((await stage.get(f"/metadata/{base58(privacy.value_key_hash(key))}"))[1])
    assert privacy.decrypt_metadata(b64decode(metadata_fields["EncryptedMetadata"]), key) == metadata.http()
    path = f"/ipni/v0/sample/{A}/{urlsafe_b64encode(CONTEXT).decode()}?max=5&beacon=0102"
    status, sampled = await stage.get(path)
    assert status == 200
    assert {from_base58(each) for each in json.loads(sampled)} <= set(CONTENT)
    assert await stage.get(path) == (200, sampled), "the same for the same beacon"


async def test_the_client_of_an_indexer_and_its_surfaces_understand_each_other(stage: Stage) -> None:
    status = await stage.client.status()
    assert (status.id, status.is_frozen) == (stage.indexer.status().id, False)
    await stage.client.check_health()
    assert list(await stage.client.providers()) == []
    with pytest.raises(NotFound):
        await stage.client.remove_provider(A)
    async with IndexerClient(stage.url) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.status()
    await stage.client.freeze()
    assert (await stage.client.status()).is_frozen


async def test_a_publisher_is_handed_over_from_the_state_of_the_frozen_indexer(tmp_path: Path) -> None:
    async with (
        staged(tmp_path / "old", use_assigner=True) as old,
        staged(tmp_path / "new", use_assigner=True) as new,
        publishing() as (publisher, peer),
    ):
        await old.client.assign(A)
        with pytest.raises(Invalid):
            await old.client.assign(A)
        first = await publisher.publish(b"first", metadata.bitswap(), CONTENT[:20])
        await old.client.announce(Announcement(first, peer))
        await old.until_indexed(first)
        await old.client.freeze()
        with pytest.raises(Conflict, match="frozen"):
            await old.client.handoff(B, frozen_id=(await new.client.status()).id, frozen_url=new.url)
        second = await publisher.publish(b"second", metadata.bitswap(), CONTENT[20:])
        old_id = (await old.client.status()).id
        await new.client.handoff(A, frozen_id=old_id, frozen_url=old.url)
        assert list(await new.client.assignments()) == [Assignment(A, old_id)]
        await new.until_indexed(second)
        found = [(await new.get(f"/multihash/{base58(CONTENT[at])}"))[0] for at in (0, 30)]
        assert found == [404, 200], "entries of the frozen one are not read again"


async def test_the_surfaces_may_listen_apart(stage: Stage) -> None:
    apps = (
        find_app(stage.indexer, clock=SystemClock(), metrics=Metrics()),
        ingest_app(stage.indexer),
        admin_app(stage.indexer, metrics=Metrics(), is_private_network=True),
    )
    async with serving(apps[0]) as find, serving(apps[1]) as ingest, serving(apps[2]) as admin:
        async with IndexerClient(admin, find, ingest) as client, publishing() as (publisher, peer):
            ad = await publisher.publish(CONTEXT, metadata.bitswap(), CONTENT)
            await client.announce(Announcement(ad, peer))
            await stage.until_indexed(ad)
            assert (await client.status()).id == stage.indexer.status().id
            assert [each.id for each in await client.providers()] == [A]
        for url, path in ((find, "/status"), (ingest, "/providers"), (admin, f"/cid/{Cid(cid.RAW, CONTENT[0])}")):
            async with stage.web.get(url + path) as answer:
                assert answer.status == 404, "routes of another API are not answered"
