"""Every route of the content gateway, over real HTTP."""

import asyncio
import json
from base64 import b64decode

from starlette.applications import Starlette

from argosy.gateway.content.http import content_routes
from argosy.gateway.content.model import Backend
from argosy.ipni.formats import cid, metadata, multihash, privacy
from argosy.ipni.formats.bases import base58
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Provider
from argosy.ipni.web import providers_json, results
from tests.gateway.content.double import LINES, IndexerDouble, gateway_over, nowhere
from tests.ipni.publish.serving import serving
from tests.ipni.web.builders import CONTENT, A, B, C, result

SECOND = privacy.second_hash(CONTENT)
ROUTING = f"/routing/v1/providers/{Cid(cid.RAW, CONTENT)}"


async def test_delegated_routing_queries_all_indexers_and_filters() -> None:
    http = result(B, b"2", metadata.http(), "/dns4/b.example/tcp/443/https")
    one, two = IndexerDouble({CONTENT: [result(A, b"1"), result(A, b"2")]}), IndexerDouble({CONTENT: [http]})
    async with gateway_over(one, two) as pool:
        whole = await pool.get(ROUTING)
        records = json.loads(whole.body)["Providers"]
        assert [each["ID"] for each in records] == [A, B], "contexts make no records"
        assert records[0]["Protocols"] == ["transport-bitswap"]
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert whole.headers["access-control-allow-origin"] == "*"
        lines = (await pool.get(ROUTING, LINES)).body.splitlines()
        assert sorted(json.loads(line)["ID"] for line in lines) == sorted([A, B])
        for accept in ("application/json", LINES):
            filtered = await pool.get(ROUTING, accept, **{"filter-addrs": "https"})
            assert filtered.status == 200
            assert A.encode() not in filtered.body
            assert B.encode() in filtered.body
        empty = await pool.get(ROUTING, **{"filter-protocols": "transport-graphsync-filecoinv1"})
        assert (empty.status, json.loads(empty.body)) == (200, {"Providers": []})
        async with pool.web.get(f"{pool.url}{ROUTING}?filter-addrs=tcp&filter-addrs=quic") as repeated:
            assert repeated.status == 400
        async with pool.web.put(f"{pool.url}/routing/v1/providers") as refused:
            assert refused.status == 501


async def test_delegated_routing_distinguishes_not_found_from_unavailable() -> None:
    async with gateway_over(IndexerDouble()) as pool:
        nothing = await pool.get(ROUTING)
        assert (nothing.status, json.loads(nothing.body)) == (404, {"Providers": []})
        lines = await pool.get(ROUTING, LINES)
        assert (lines.status, lines.body) == (404, b"")
    async with gateway_over(IndexerDouble(), await nowhere()) as pool:
        for accept in ("application/json", LINES):
            assert (await pool.get(ROUTING, accept)).status == 504


async def test_a_document_of_delegated_routing_has_at_most_100_records() -> None:
    many = [result(A, b"", metadata.bitswap() + b"x" * number) for number in range(150)]
    async with gateway_over(IndexerDouble({CONTENT: many})) as pool:
        streamed = len((await pool.get(ROUTING, LINES)).body.splitlines())
        assert streamed > 0
        assert len(json.loads((await pool.get(ROUTING)).body)["Providers"]) <= 100
    peers = [result(f"{A}{number}") for number in range(150)]
    async with gateway_over(IndexerDouble({CONTENT: peers[:80]}), IndexerDouble({CONTENT: peers[70:]})) as pool:
        assert len(json.loads((await pool.get(ROUTING)).body)["Providers"]) == 100
        assert len((await pool.get(ROUTING, LINES)).body.splitlines()) == 150


async def test_double_hashed_lookups_return_the_union_of_all_indexers() -> None:
    one, two = IndexerDouble(keys={SECOND: [b"k1", b"k2"]}), IndexerDouble(keys={SECOND: [b"k2", b"k3"]})
    async with gateway_over(one, two) as pool:
        for path in (
            f"/encrypted/multihash/{base58(SECOND)}",
            f"/encrypted/cid/{Cid(cid.RAW, SECOND)}",
            f"/multihash/{base58(SECOND)}",
            f"/routing/v1/encrypted/providers/{Cid(cid.RAW, SECOND)}",
        ):
            answer = await pool.get(path)
            assert results.decode_encrypted_json(answer.body) == [(SECOND, (b"k1", b"k2", b"k3"))], path
            lines = (await pool.get(path, LINES)).body.splitlines()
            assert [results.decode_encrypted_line(line) for line in lines] == [b"k1", b"k2", b"k3"]
        assert (await pool.get(f"/encrypted/multihash/{base58(CONTENT)}")).status == 400
        other = privacy.second_hash(multihash.of(b"other"))
        assert (await pool.get(f"/encrypted/multihash/{base58(other)}")).status == 404


async def test_indexers_for_second_hashes_get_no_other_requests() -> None:
    plain, second = IndexerDouble({CONTENT: [result(A)]}), IndexerDouble(keys={SECOND: [b"k"]})
    async with serving(second) as url, gateway_over(plain) as pool:
        pool.gateway.replace([*pool.gateway.backends, Backend.at(url, is_for_second_hashes=True)])
        assert (await pool.get(f"/encrypted/multihash/{base58(SECOND)}")).status == 200
        assert (await pool.find(CONTENT)).status == 200
        assert (await pool.get("/providers")).status == 200
        assert second.requests == [f"/encrypted/multihash/{base58(SECOND)}"]


async def test_the_first_metadata_response_is_returned() -> None:
    key = privacy.value_key_hash(privacy.value_key(A, b"ctx"))
    path = f"/metadata/{base58(key)}"
    stalled, has = IndexerDouble(hold=asyncio.Event()), IndexerDouble(metadata={base58(key): b"secret"})
    async with gateway_over(stalled, has, IndexerDouble()) as pool:
        answer = await pool.get(path)
        assert b64decode(json.loads(answer.body)["EncryptedMetadata"]) == b"secret"
        assert answer.missing == 0
        assert (await pool.get("/metadata/111")).status == 400
    async with gateway_over(IndexerDouble(), IndexerDouble()) as pool:
        assert (await pool.get(path)).status == 404
    async with gateway_over(IndexerDouble(), IndexerDouble(status=500)) as pool:
        assert (await pool.get(path)).status == 504


async def test_providers_are_the_union_and_the_newest_entry_of_each() -> None:
    old, new, other = Provider(A, last_ad_at=10.0, lag=5), Provider(A, last_ad_at=20.0), Provider(B, last_ad_at=5.0)
    async with gateway_over(IndexerDouble(known=[old, other]), IndexerDouble(known=[new]), cache_entries=10) as pool:
        listed = await pool.get("/providers")
        assert {each.id: each for each in providers_json.decode_providers(listed.body)} == {A: new, B: other}
        assert providers_json.decode_provider((await pool.get(f"/providers/{A}")).body) == new
        assert (await pool.get(f"/providers/{C}")).status == 404
        assert (await pool.get("/providers/nobody")).status == 400
    async with gateway_over(IndexerDouble()) as pool:
        empty = await pool.get("/providers")
        assert (empty.status, empty.body) == (200, b"[]")
    async with gateway_over(IndexerDouble(known=[old]), IndexerDouble(status=500)) as pool:
        assert (await pool.get("/providers")).missing == 1
        assert (await pool.get(f"/providers/{A}")).missing == 1
        assert (await pool.get(f"/providers/{C}")).status == 504
    async with gateway_over(IndexerDouble(status=500)) as pool:
        assert (await pool.get("/providers")).status == 504


async def test_invalid_requests_reach_no_indexer() -> None:
    indexer = IndexerDouble()
    async with gateway_over(indexer) as pool:
        empty_digest = base58(b"\x12\x00")
        for path in ("/cid/nonsense", "/multihash/zz!", f"/multihash/{empty_digest}", "/routing/v1/providers/x"):
            assert (await pool.get(path)).status == 400, path
        assert (await pool.find(CONTENT, "text/html")).status == 406
        assert (await pool.get("/elsewhere")).status == 404
        assert indexer.requests == []


async def test_other_methods_cors_and_health() -> None:
    async with gateway_over() as pool:
        for path in (f"/cid/{Cid(cid.RAW, CONTENT)}", ROUTING, "/providers"):
            async with pool.web.options(pool.url + path) as answer:
                assert answer.status in (200, 204)
                assert answer.headers["access-control-allow-origin"] == "*"
                assert answer.headers["access-control-allow-methods"] == "GET, OPTIONS"
            async with pool.web.delete(pool.url + path) as answer:
                assert answer.status == 405
        healthy = await pool.get("/health")
        assert (healthy.status, json.loads(healthy.body)) == (200, {"status": "ready"})


async def test_the_routes_may_stand_among_others() -> None:
    async with (
        gateway_over(IndexerDouble({CONTENT: [result(A)]})) as pool,
        serving(Starlette(routes=content_routes(pool.gateway))) as url,
    ):
        for path in (f"/multihash/{base58(CONTENT)}", f"/cid/{Cid(cid.RAW, CONTENT)}", ROUTING):
            async with pool.web.get(url + path) as answer:
                assert answer.status == 200
                assert A in await answer.text()
