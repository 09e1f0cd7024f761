"""The publisher's HTTP API, called by a plain client."""

import gzip

import aiohttp
import pytest

from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON
from argosy.ipni.formats.head import TOPIC, decode_head
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.publish.chains import BITSWAP, KEY, chain, hashes, reading
from tests.ipni.publish.serving import serving

BASE = "/ipni/v1/ad"


async def test_the_head_is_signed_and_never_cached() -> None:
    publisher = await Publisher.open(KEY, MemoryChain())
    async with serving(publisher_app(publisher)) as url, aiohttp.ClientSession(url) as client:
        async with client.get(f"{BASE}/head") as answer:
            assert (answer.status, await answer.read()) == (204, b"")
        await publisher.publish(b"a", BITSWAP, hashes("x"))
        async with client.get(f"{BASE}/head") as answer:
            signed = decode_head(await answer.read())
            assert answer.headers["cache-control"] == "no-cache"
    assert (signed.head, signed.signer, signed.topic) == (publisher.head, KEY.peer_id, TOPIC)


@pytest.mark.parametrize(("codec", "kind"), [(DAG_JSON, "application/json"), (DAG_CBOR, "application/cbor")])
async def test_a_block_is_cacheable_without_limit_and_has_an_etag(codec: int, kind: str) -> None:
    publisher = await Publisher.open(KEY, MemoryChain(), codec=codec)
    cid = await publisher.publish(b"a", BITSWAP, hashes("x"))
    async with serving(publisher_app(publisher)) as url, aiohttp.ClientSession(url) as client:
        async with client.get(f"{BASE}/{cid}") as answer:
            assert answer.headers["cache-control"] == "public, max-age=29030400, immutable"
            assert (answer.headers["etag"], answer.content_type) == (f'"{cid}"', kind)
            assert await answer.read() == await publisher.block(cid)
        for tag, status in ((f'"{cid}"', 304), (f'"x", W/"{cid}"', 304), ("*", 304), ('"x"', 200)):
            async with client.get(f"{BASE}/{cid}", headers={"if-none-match": tag}) as answer:
                assert answer.status == status


async def test_large_blocks_are_packed_for_those_who_take_it() -> None:
    publisher = await Publisher.open(KEY, MemoryChain())
    await publisher.publish(b"a", BITSWAP, hashes(*range(500)))
    async with reading(publisher) as source:
        (ad,) = await chain(source)
    plain = await publisher.block(ad.entries)
    assert plain is not None
    async with (
        serving(publisher_app(publisher)) as url,
        aiohttp.ClientSession(url, auto_decompress=False) as client,
    ):
        for accepted, is_packed in (("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("identity", False)):
            headers = {"accept-encoding": accepted}
            async with client.get(f"{BASE}/{ad.entries}", headers=headers) as answer:
                body = await answer.read()
                assert (answer.headers.get("content-encoding") == "gzip") == is_packed
                assert (gzip.decompress(body) if is_packed else body) == plain


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [(f"{BASE}/bafkreehdwdcefgh4dqkjv67uzcmw7oje", 404, "has no block"), (f"{BASE}/nonsense", 400, "is not a CID")],
)
async def test_a_missing_block_is_an_error_in_plain_text(path: str, status: int, message: str) -> None:
    publisher = await Publisher.open(KEY, MemoryChain())
    async with (
        serving(publisher_app(publisher)) as url,
        aiohttp.ClientSession(url) as client,
        client.get(path) as answer,
    ):
        assert (answer.status, answer.content_type) == (status, "text/plain")
        assert message in await answer.text()
