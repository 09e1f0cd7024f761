"""The ingest API."""

import httpx
import pytest
from starlette.types import ASGIApp

from argosy.ipni.formats import dag_cbor, multiaddr
from argosy.ipni.formats.envelope import PeerRecord, sign_record
from argosy.ipni.formats.head import Announcement, encode_announcement, encode_announcement_json
from argosy.ipni.formats.peer import peer_bytes
from argosy.ipni.model import Peer
from argosy.ipni.web.app import ANNOUNCE_BYTES_MAX, ingest_app
from tests.ipni.web.builders import AD, KEYS, A, B
from tests.ipni.web.double import IndexerDouble

PLACE = "/ip4/192.0.2.7/tcp/3104/http"
TOLD = Announcement(AD, Peer(A, (PLACE,)))
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("path", ["/announce", "/ingest/announce"])
async def test_an_announcement_is_accepted_as_cbor_and_as_json(
    client: httpx.AsyncClient, indexer: IndexerDouble, path: str
) -> None:
    cbor = await client.put(
        path, content=encode_announcement(TOLD), headers={"content-type": "application/octet-stream"}
    )
    assert (cbor.status_code, cbor.content) == (204, b"")
    bare = await client.put(path, content=encode_announcement(TOLD))
    assert bare.status_code == 204
    as_json = await client.put(path, content=encode_announcement_json(TOLD), headers=JSON)
    assert as_json.status_code == 204
    assert indexer.announced == [TOLD] * 3


async def test_a_blocked_publisher_may_not_announce(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.block(A)
    answer = await client.put("/announce", content=encode_announcement(TOLD))
    assert (answer.status_code, answer.text) == (403, "announce requests not allowed from peer\n")


def strange_address(publisher: str) -> bytes:
    """An address of an unregistered protocol."""
    return b"\xff\xff\x7f" + multiaddr.to_bytes(f"/p2p/{publisher}")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        dag_cbor.encode([AD, [], b""]),
        dag_cbor.encode([AD, [strange_address(A)], b""]),
        dag_cbor.encode([AD, [multiaddr.to_bytes(PLACE)], b""]),
        dag_cbor.encode([AD, [multiaddr.to_bytes(f"{PLACE}/p2p/{peer}") for peer in (A, B)], b""]),
    ],
    ids=["empty", "nonsense", "no address", "only unknown protocols", "no publisher", "two publishers"],
)
async def test_a_malformed_announcement_is_refused_and_not_a_crash(
    client: httpx.AsyncClient, indexer: IndexerDouble, body: bytes
) -> None:
    for headers in ({}, JSON):
        answer = await client.put("/announce", content=body, headers=headers)
        assert answer.status_code == 400
        assert answer.headers["content-type"].startswith("text/plain")
    assert indexer.announced == []


async def test_an_announcement_has_an_end(client: httpx.AsyncClient) -> None:
    answer = await client.put("/announce", content=b"\0" * (ANNOUNCE_BYTES_MAX + 1))
    assert (answer.status_code, "too large" in answer.text) == (400, True)


async def test_an_announcement_is_put(client: httpx.AsyncClient) -> None:
    for method in ("GET", "POST"):
        answer = await client.request(method, "/announce", content=encode_announcement(TOLD))
        assert (answer.status_code, answer.headers["allow"]) == (405, "PUT, OPTIONS")


async def test_a_provider_registers_new_addresses_by_a_signed_record(
    client: httpx.AsyncClient, indexer: IndexerDouble
) -> None:
    record = PeerRecord(Peer(A, (PLACE,)), 1767322985_000000000)
    signed = sign_record(record, KEYS[0])
    assert (await client.post("/register", content=signed)).status_code == 200
    assert indexer.registered == [(record.peer, record.sequence)]
    forged = signed.replace(peer_bytes(A)[-8:], peer_bytes(B)[-8:])
    assert (await client.post("/register", content=forged)).status_code == 400
    assert (await client.post("/register", content=b"")).status_code == 400
    assert len(indexer.registered) == 1


async def test_the_status_of_syncs_is_shown_by_publisher(client: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    assert (await client.get("/sync/status")).status_code == 204
    indexer.statuses = {A: {"Provider": A}, B: {"Provider": B}}
    assert (await client.get("/sync/status")).json() == indexer.statuses
    one = await client.get(f"/sync/status/{A}")
    assert (one.json(), one.headers["cache-control"]) == ({"Provider": A}, "no-store")
    del indexer.statuses[A]
    assert (await client.get(f"/sync/status/{A}")).status_code == 204
    assert (await client.get("/sync/status/nobody")).status_code == 400


async def test_the_index_state_of_an_advertisement_is_returned(
    client: httpx.AsyncClient, indexer: IndexerDouble
) -> None:
    assert (await client.get(f"/sync/status/ad/{AD}")).json() == {"Ad": str(AD), "Indexed": False}
    indexer.indexed.add(AD)
    assert (await client.get(f"/sync/status/ad/{AD}")).json() == {"Ad": str(AD), "Indexed": True}
    assert (await client.get("/sync/status/ad/nonsense")).status_code == 400


async def test_ingest_alone_has_a_health_of_its_own_and_no_finds(indexer: IndexerDouble) -> None:
    alone: ASGIApp = ingest_app(indexer)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(alone), base_url="http://test") as client:
        assert (await client.get("/health")).text.startswith("ready ")
        assert (await client.get("/providers")).status_code == 404
        assert (await client.put("/announce", content=encode_announcement(TOLD))).status_code == 204
