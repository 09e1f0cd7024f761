"""The find API, compatible with clients of the original, and delegated routing."""

import json
from base64 import b64decode, b64encode

import httpx
import pytest

from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.ipni.formats import cid, metadata, multihash, privacy
from argosy.ipni.formats.bases import base58
from argosy.ipni.model import Provider, StoreStats
from argosy.ipni.web import results
from argosy.ipni.web.find import BATCH_BYTES_MAX, BATCH_MULTIHASHES_MAX, PROVIDERS_PER_TURN
from argosy.ipni.web.find_fast_path import FIND_SECONDS, RESULTS_MAX
from argosy.ipni.web.providers_json import decode_providers
from tests.ipni.web.builders import CONTENT, A, B, C, result
from tests.ipni.web.double import IndexerDouble

NAME = base58(CONTENT)
CID = str(cid.of(b"content-0"))
NOWHERE = multihash.of(b"nobody has this")
LINES = {"accept": "application/x-ndjson"}
WAYS = [f"/multihash/{NAME}", f"/multihash/{CONTENT.hex()}", f"/cid/{CID}", f"/cid/{NAME}"]


@pytest.fixture(autouse=True)
def _content(indexer: IndexerDouble) -> None:
    indexer.results[CONTENT] = (result(A, b"ctx-1"), result(B, b"ctx-2", metadata.http(), "/dns4/b.org/tcp/443/https"))
    indexer.known = {A: Provider(A), B: Provider(B, is_inactive=True)}
    indexer.size = StoreStats(entries=12, values=2, disk_bytes=4000)


@pytest.mark.parametrize("path", WAYS)
async def test_content_is_found_as_json_by_each_of_its_names(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    [(found, its)] = results.decode_json(answer.content)
    assert (found, [each.provider.id for each in its]) == (CONTENT, [A, B])


async def test_lines_are_results_one_by_one(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    answer = await client.get(f"/cid/{CID}", headers=LINES)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert tuple(map(results.decode_line, answer.content.splitlines())) == indexer.results[CONTENT]


async def test_many_lines_all_arrive(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.results[CONTENT] = tuple(result(A, b"%d" % number) for number in range(2000))
    answer = await client.get(f"/cid/{CID}", headers=LINES)
    contexts = [results.decode_line(line).context for line in answer.content.splitlines()]
    assert contexts == [b"%d" % number for number in range(2000)]


@pytest.mark.parametrize("headers", [{}, LINES])
async def test_an_answer_is_bounded_and_reports_truncation(
    client: httpx.AsyncClient, indexer: IndexerDouble, headers: dict[str, str]
) -> None:
    indexer.results[CONTENT] = (result(),) * (RESULTS_MAX + 1)
    answer = await client.get(f"/cid/{CID}", headers=headers)
    assert answer.headers["x-argosy-truncated"] == str(RESULTS_MAX + 1)
    assert answer.content.count(b'"ContextID"') == RESULTS_MAX


@pytest.mark.parametrize("path", [f"/multihash/{base58(NOWHERE)}", f"/cid/{cid.Cid(cid.RAW, NOWHERE)}"])
@pytest.mark.parametrize("headers", [{}, LINES])
async def test_unknown_content_is_not_found_and_cached_briefly(
    client: httpx.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    answer = await client.get(path, headers=headers)
    assert (answer.status_code, answer.text) == (404, "no results for query")
    assert answer.headers["cache-control"] == "public, max-age=15"


@pytest.mark.parametrize("path", ["/multihash/", "/multihash/0", "/cid/", "/cid/nonsense", "/multihash/" + "9" * 600])
async def test_a_name_that_cannot_be_read_is_refused_as_text(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")


async def test_an_unacceptable_media_type_is_rejected(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/cid/{CID}", headers={"accept": "text/html"})
    assert answer.status_code == 406
    assert (await client.get(f"/cid/{CID}", headers={"accept": "gibberish"})).status_code == 400


@pytest.mark.parametrize("path", [*WAYS, "/providers", f"/providers/{A}", "/stats", "/health", "/"])
async def test_browsers_of_other_origins_are_allowed(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).headers["access-control-allow-origin"] == "*"
    preflight = await client.options(path)
    assert (preflight.status_code, preflight.headers["allow"]) == (200, "GET, OPTIONS")
    assert preflight.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("path", [*WAYS, "/providers", "/stats", "/health"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_other_verbs_are_not_allowed(client: httpx.AsyncClient, path: str, method: str) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, OPTIONS")
    assert answer.headers["content-type"].startswith("text/plain")


async def test_hits_are_cacheable_and_vary_by_accept(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/cid/{CID}")
    assert answer.headers["cache-control"].startswith("public, max-age=60")
    assert answer.headers["vary"] == "accept"


async def test_an_unavailable_store_is_reported_as_text(
    client: httpx.AsyncClient, indexer: IndexerDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(_: object) -> list[object]:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(indexer, "find", unavailable)
    answer = await client.get(f"/cid/{CID}")
    assert (answer.status_code, answer.text) == (503, "the store does not answer\n")
    assert answer.headers["cache-control"] == "no-store"


async def test_many_multihashes_are_found_at_once(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    more = multihash.of(b"more")
    indexer.results[more] = (result(C),)
    body = {"Multihashes": [b64encode(each).decode() for each in (CONTENT, NOWHERE, more, CONTENT)]}
    answer = await client.post("/multihash", json=body)
    assert [(found, len(its)) for found, its in results.decode_json(answer.content)] == [(CONTENT, 2), (more, 1)]
    nothing = await client.post("/multihash", json={"Multihashes": [b64encode(NOWHERE).decode()]})
    assert (nothing.status_code, nothing.text) == (404, "no results for query")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"Multihashes":["?"]}',
        b'{"Multihashes":["EiA="]}',
        json.dumps({"Multihashes": [b64encode(CONTENT).decode()] * (BATCH_MULTIHASHES_MAX + 1)}).encode(),
        b" " * (BATCH_BYTES_MAX + 1),
    ],
)
async def test_an_invalid_or_too_large_batch_is_rejected(client: httpx.AsyncClient, body: bytes) -> None:
    assert (await client.post("/multihash", content=body)).status_code == 400


async def test_a_browser_may_send_a_batch_from_another_page(client: httpx.AsyncClient) -> None:
    preflight = await client.options("/multihash")
    assert (preflight.status_code, preflight.headers["allow"]) == (200, "POST, OPTIONS")
    assert preflight.headers["access-control-allow-headers"] == "content-type"


async def test_a_batch_is_not_streamed_as_ndjson(client: httpx.AsyncClient) -> None:
    answer = await client.post("/multihash", json={"Multihashes": []}, headers=LINES)
    assert answer.status_code == 406
    assert (await client.get("/multihash")).status_code == 405


async def test_providers_are_listed_and_returned(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    listed = await client.get("/providers")
    assert [each["AddrInfo"]["ID"] for each in listed.json()] == [A, B]
    assert (await client.get(f"/providers/{A}")).json()["AddrInfo"]["ID"] == A
    assert (await client.get(f"/providers/{B}")).status_code == 404, "an inactive one is hidden"
    assert (await client.get("/providers/nobody")).status_code == 400
    indexer.known = {}
    assert (await client.get("/providers")).json() == []


async def test_a_long_list_of_providers_is_complete(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.known = {f"peer-{number}": Provider(f"peer-{number}") for number in range(2 * PROVIDERS_PER_TURN + 1)}
    assert decode_providers((await client.get("/providers")).content) == list(indexer.known.values())


async def test_stats_contain_entries_and_an_estimate(client: httpx.AsyncClient) -> None:
    assert (await client.get("/stats")).json() == {"EntriesEstimate": 100, "EntriesCount": 12}


async def test_an_empty_index_is_still_processing(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.size = StoreStats(0, 0, 0)
    answer = await client.get("/stats")
    assert (answer.status_code, answer.text) == (418, "processing")


async def test_health_is_an_uncacheable_text(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")
    assert answer.text.startswith("ready ")
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/nowhere", "/cid", "/providers/", "/multihashes/x", "/ready"])
async def test_any_other_path_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.text) == (404, "Not Found")


@pytest.mark.parametrize("path", ["/", "/index.html"])
async def test_the_page_describes_this_node(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "Argosy content index" in answer.text
    assert f"Node <code>{A}</code>" in answer.text


async def test_a_browser_at_an_address_that_does_not_exist_gets_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.get("/<script>", headers={"accept": "text/html,*/*;q=0.8"})
    assert answer.status_code == 404
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["vary"] == "accept"
    assert '<a href="/">' in answer.text
    assert "<script" not in answer.text


async def test_the_page_answers_and_escapes_its_input(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.results[CONTENT] = (result(A, b"<script>alert(1)</script>", b"", "/dns4/<b>/tcp/1"),)
    shown = (await client.get("/", params={"q": NAME})).text
    assert "1 result<" in shown
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<b>" not in shown
    refused = await client.get("/", params={"q": '"><script>'})
    assert refused.status_code == 400
    assert "<script" not in refused.text
    assert "No providers found" in (await client.get("/", params={"q": base58(NOWHERE)})).text


async def test_a_lookup_by_second_hash_returns_only_encrypted_values(client: httpx.AsyncClient) -> None:
    second = privacy.second_hash(CONTENT)
    ways = [
        f"/encrypted/multihash/{base58(second)}",
        f"/encrypted/cid/{cid.Cid(cid.RAW, second)}",
        f"/multihash/{base58(second)}",
        f"/routing/v1/encrypted/providers/{cid.Cid(cid.RAW, second)}",
    ]
    for path in ways:
        [(preflight, keys)] = results.decode_encrypted_json((await client.get(path)).content)
        assert preflight == second
        opened = [privacy.split_value_key(privacy.decrypt_value_key(key, CONTENT)) for key in keys]
        assert opened == [(A, b"ctx-1"), (B, b"ctx-2")]
        lines = (await client.get(path, headers=LINES)).content.splitlines()
        assert tuple(map(results.decode_encrypted_line, lines)) == keys
    nowhere = base58(privacy.second_hash(NOWHERE))
    assert (await client.get(f"/encrypted/multihash/{nowhere}")).status_code == 404
    assert (await client.get(f"/multihash/{nowhere}")).status_code == 404
    assert (await client.get(f"/encrypted/multihash/{NAME}")).status_code == 400, "a plain hash would reveal the query"


async def test_metadata_is_had_by_the_hash_of_its_value_key(client: httpx.AsyncClient) -> None:
    key = privacy.value_key(B, b"ctx-2")
    answer = await client.get(f"/metadata/{base58(privacy.value_key_hash(key))}")
    encrypted = b64decode(answer.json()["EncryptedMetadata"])
    assert privacy.decrypt_metadata(encrypted, key) == metadata.http()
    assert (await client.get(f"/metadata/{base58(bytes([7]) * 32)}")).status_code == 404
    assert (await client.get("/metadata/short")).status_code == 400


async def test_samples_are_requested_by_context(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    context = b64encode(b"ctx-1").decode()
    path = f"/ipni/v0/sample/{A}/{context}"
    answer = await client.get(path, params={"beacon": "0a0b", "max": "10", "federation_epoch": "0"})
    assert answer.json() == [NAME]
    assert indexer.calls == [("sample", A, b"ctx-1", b"\x0a\x0b", 10)]
    assert (await client.get(path.rstrip("="))).json() == [NAME]
    assert (await client.get(f"/ipni/v0/sample/{C}/{context}")).status_code == 404


@pytest.mark.parametrize(
    "query", ["max=0", "max=11", "max=x", "beacon=xyz", "beacon=" + "00" * 33, "federation_epoch=1"]
)
async def test_an_invalid_sample_request_is_rejected(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/ipni/v0/sample/{A}/Y3R4?{query}")).status_code == 400
    assert (await client.get(f"/ipni/v0/sample/{A}/{'A' * 100}")).status_code == 400
    assert (await client.get(f"/ipni/v0/sample/{A}/?!")).status_code in (400, 404)


ROUTING = f"/routing/v1/providers/{CID}"


async def test_delegated_routing_returns_records(client: httpx.AsyncClient) -> None:
    answer = await client.get(ROUTING)
    assert answer.headers["content-type"] == "application/json"
    assert [(each["Schema"], each["ID"], each["Protocols"]) for each in answer.json()["Providers"]] == [
        ("peer", A, ["transport-bitswap"]),
        ("peer", B, ["transport-ipfs-gateway-http"]),
    ]
    lines = await client.get(ROUTING, headers=LINES)
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == answer.json()["Providers"]


async def test_delegated_routing_has_its_headers_on_every_reply(client: httpx.AsyncClient) -> None:
    for path in (ROUTING, f"/routing/v1/providers/{cid.Cid(cid.RAW, NOWHERE)}", "/routing/v1/providers/nonsense"):
        headers = (await client.get(path)).headers
        assert headers["access-control-allow-origin"] == "*"
        assert headers["access-control-allow-methods"] == "GET, OPTIONS"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["vary"] == "Accept"


async def test_a_document_has_a_hundred_records_and_a_stream_has_them_all(
    client: httpx.AsyncClient, indexer: IndexerDouble
) -> None:
    indexer.results[CONTENT] = tuple(result(f"peer-{number}") for number in range(250))
    assert len((await client.get(ROUTING)).json()["Providers"]) == 100
    assert len((await client.get(ROUTING, headers=LINES)).text.splitlines()) == 250


async def test_filtered_records_are_a_list_even_when_empty(client: httpx.AsyncClient) -> None:
    filters = {"filter-addrs": "https", "filter-protocols": "transport-ipfs-gateway-http"}
    left = await client.get(ROUTING, params=filters)
    assert [each["ID"] for each in left.json()["Providers"]] == [B]
    none = await client.get(ROUTING, params={"filter-addrs": "webtransport"})
    assert (none.status_code, none.json()) == (200, {"Providers": []})
    assert (await client.get(f"{ROUTING}?filter-addrs=tcp&filter-addrs=udp")).status_code == 400


async def test_unknown_content_is_not_found_by_routing(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/routing/v1/providers/{cid.Cid(cid.RAW, NOWHERE)}")
    assert (answer.status_code, answer.json()) == (404, {"Providers": []})
    assert answer.headers["cache-control"] == "public, max-age=15"
    assert (await client.get("/routing/v1/providers/nonsense")).status_code == 400


async def test_records_are_not_accepted(client: httpx.AsyncClient) -> None:
    assert (await client.put("/routing/v1/providers", json={})).status_code == 501
    assert (await client.post("/routing/v1/providers", json={})).status_code == 405
    assert (await client.delete(ROUTING)).status_code == 405


async def test_finds_are_measured(client: httpx.AsyncClient, metrics: Metrics) -> None:
    await client.get(f"/cid/{CID}")
    await client.get(f"/multihash/{base58(NOWHERE)}")
    await client.get(ROUTING)
    assert metrics.value(FIND_SECONDS, surface="find", found="yes") == 1
    assert metrics.value(FIND_SECONDS, surface="find", found="no") == 1
    assert metrics.value(FIND_SECONDS, surface="routing", found="yes") == 1
