"""The client of an indexer: its requests, and the result of every kind of answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.ipni import indexer_client as clients
from argosy.ipni.formats import cid
from argosy.ipni.formats.head import encode_announcement
from argosy.ipni.indexer_client import IndexerClient, OutcomeUnknown
from argosy.ipni.indexer_wire import normalize_url
from argosy.ipni.model import Assignment, IndexerStatus, Provider
from argosy.ipni.web.providers_json import encode_provider, encode_providers
from tests.ipni.assigner.doubles import HOST, announcement, peer, serving

P1, P2 = peer("p1"), peer("p2")
AD = cid.of(b"an advertisement", cid.DAG_JSON)


class Wire:
    """An HTTP server that records requests and gives one answer to all."""

    def __init__(self, answer: Response | None = None) -> None:
        self.answer = answer or Response(status_code=200)
        self.requests: list[tuple[str, str, bytes]] = []
        self.headers: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        query = f"?{request.url.query}" if request.url.query else ""
        self.requests.append((request.method, scope["raw_path"].decode() + query, await request.body()))
        self.headers = dict(request.headers)
        await self.answer(scope, receive, send)


@asynccontextmanager
async def client_of(wire: Wire, **rest: object) -> AsyncIterator[IndexerClient]:
    async with serving(wire) as url, IndexerClient(url, url, url, **rest) as client:  # type: ignore[arg-type]
        yield client


Call = Callable[[IndexerClient], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (lambda c: c.assign(P1), "POST", f"/ingest/assign/{P1}", b""),
        (lambda c: c.unassign(P1), "PUT", f"/ingest/unassign/{P1}", b""),
        (
            lambda c: c.handoff(P1, frozen_id=P2, frozen_url="http://f:3000"),
            "POST",
            f"/ingest/handoff/{P1}",
            b'{"FrozenID":"' + P2.encode() + b'","FrozenURL":"http://f:3000"}',
        ),
        (lambda c: c.announce(announcement("p1")), "PUT", "/announce", encode_announcement(announcement("p1"))),
        (lambda c: c.check_health(), "GET", "/healthcheck", b""),
        (lambda c: c.freeze(), "PUT", "/freeze", b""),
        (lambda c: c.allow(P1), "PUT", f"/ingest/allow/{P1}", b""),
        (lambda c: c.block(P1), "PUT", f"/ingest/block/{P1}", b""),
        (lambda c: c.sync(P1), "POST", f"/ingest/sync/{P1}?depth=0&resync=false", b""),
        (
            lambda c: c.sync(P1, "/ip4/1.2.3.4/tcp/80/http", depth=-1, is_resync=True),
            "POST",
            f"/ingest/sync/{P1}?depth=-1&resync=true",
            b'"/ip4/1.2.3.4/tcp/80/http"',
        ),
        (lambda c: c.remove_provider(P1, is_blocked=True), "DELETE", f"/removeprovider/{P1}?block=true", b""),
        (
            lambda c: c.import_providers("http://f:3000"),
            "POST",
            "/importproviders",
            b'{"indexer":"aHR0cDovL2Y6MzAwMA=="}',
        ),
        (lambda c: c.mark_processed(P1, AD), "PUT", f"/markadprocessed/{P1}?cid={AD}", b""),
        (lambda c: c.reload(), "POST", "/reloadconfig", b""),
        (lambda c: c.register(b"\x0a\x01"), "POST", "/register", b"\x0a\x01"),
        (lambda c: c.assign("a/../b?c#d"), "POST", "/ingest/assign/a%2F..%2Fb%3Fc%23d", b""),
    ],
)
async def test_orders_are_spelled_as_the_wire_has_them(call: Call, method: str, path: str, body: bytes) -> None:
    wire = Wire()
    async with client_of(wire) as client:
        await call(client)
    assert wire.requests == [(method, path, body)]


@pytest.mark.parametrize(
    ("call", "answer", "expected"),
    [
        (lambda c: c.status(), {"Frozen": True, "ID": P1, "Usage": 91.5}, IndexerStatus(P1, True, 91.5)),
        (lambda c: c.status(), {"frozen": False, "id": P1, "usage": -1}, IndexerStatus(P1, False, -1.0)),
        (
            lambda c: c.assignments(),
            [{"Publisher": P1}, {"publisher": P2, "continued": P1}],
            [Assignment(P1), Assignment(P2, P1)],
        ),
        (lambda c: c.assignments(), None, []),
        (lambda c: c.preferred_publishers(), [P1, P2], [P1, P2]),
        (lambda c: c.syncs(), [P1], [P1]),
        (lambda c: c.telemetry(), {P1: {"Count": 7, "Elapsed": 2_000_000_000, "Samples": 3}}, {P1: (7, 2.0, 3)}),
        (lambda c: c.sync_status(), {P1: {"Provider": P1}}, {P1: {"Provider": P1}}),
        (lambda c: c.is_indexed(AD), {"Ad": str(AD), "Indexed": True}, True),
    ],
)
async def test_answers_are_read_whatever_the_case_of_their_keys(call: Call, answer: object, expected: object) -> None:
    async with client_of(Wire(JSONResponse(answer))) as client:
        assert await call(client) == expected


@pytest.mark.parametrize("call", ["assignments", "preferred_publishers", "syncs", "telemetry", "sync_status"])
async def test_an_empty_answer_is_no_result(call: str) -> None:
    async with client_of(Wire(Response(status_code=204))) as client:
        assert not await getattr(client, call)()


async def test_providers_are_read() -> None:
    provider = Provider(P1, ("/ip4/1.2.3.4/tcp/80",), last_ad=AD, frozen_at=AD)
    async with client_of(Wire(Response(encode_providers([provider])))) as client:
        assert await client.providers() == [provider]
    async with client_of(Wire(Response(encode_provider(provider)))) as client:
        assert await client.provider(P1) == provider


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (405, Invalid),
        (409, Conflict),
        (410, Gone),
        (429, Throttled),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
    ],
)
async def test_a_refusal_is_the_error_it_was_with_its_words(status: int, kind: type[ArgosyError]) -> None:
    async with client_of(Wire(PlainTextResponse("peer was not\nassigned", status))) as client:
        with pytest.raises(kind, match=f"answered {status}: peer was not assigned") as caught:
            await client.assign(P1)
    assert not isinstance(caught.value, OutcomeUnknown)


async def test_our_own_errors_are_parsed_and_long_foreign_ones_truncated() -> None:
    ours = JSONResponse({"error": {"kind": "Conflict", "message": "it is frozen"}}, 409)
    async with client_of(Wire(ours)) as client:
        with pytest.raises(Conflict, match=r"409: it is frozen$"):
            await client.assign(P1)
    async with client_of(Wire(PlainTextResponse("x" * 100_000, 500))) as client:
        with pytest.raises(Unavailable) as caught:
            await client.assign(P1)
    assert len(str(caught.value)) < 500


async def test_an_error_without_a_body_contains_its_status() -> None:
    async with client_of(Wire(Response(status_code=500))) as client:
        with pytest.raises(Unavailable, match="answered 500: Internal Server Error"):
            await client.assign(P1)


async def test_a_throttled_answer_contains_its_retry_time() -> None:
    async with client_of(Wire(Response(status_code=429, headers={"retry-after": "7"}))) as client:
        with pytest.raises(Throttled) as caught:
            await client.freeze()
    assert caught.value.retry_after_s == 7


async def test_no_redirect_is_followed() -> None:
    wire = Wire(RedirectResponse("/elsewhere"))
    async with client_of(wire) as client:
        with pytest.raises(Unavailable, match="answered 307"):
            await client.status()
    assert len(wire.requests) == 1


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "BODY_BYTES_MAX", 1 << 16)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"[" * 4096
            await asyncio.sleep(0)

    async with client_of(Wire(StreamingResponse(endless()))) as client:
        with pytest.raises(Invalid, match="more than"):
            await client.status()


@pytest.mark.parametrize("text", ["<html>", "[", '{"ID": 7}', "{}", "[]", '"x"', "null", '{"ID":"a","Frozen":"yes"}'])
async def test_an_answer_that_is_not_understood_is_an_error_and_never_a_guess(text: str) -> None:
    async with client_of(Wire(Response(text))) as client:
        with pytest.raises(Invalid):
            await client.status()


async def test_an_indexer_that_is_not_there_is_unavailable_and_surely_did_nothing() -> None:
    async with IndexerClient(f"http://{HOST}:1") as client:
        with pytest.raises(Unavailable, match="unreachable") as caught:
            await client.assign(P1)
    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_request_that_is_never_answered_may_have_taken_effect() -> None:
    hold = asyncio.Event()

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        await hold.wait()

    async with serving(hang) as url, IndexerClient(url, call_s=0.05) as client:
        with pytest.raises(OutcomeUnknown, match=r"timed out after 0\.05 s"):
            await client.assign(P1)


async def test_a_connection_that_breaks_off_may_have_taken_effect() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with server, IndexerClient(f"http://{HOST}:{port}") as client:
        with pytest.raises(OutcomeUnknown, match="closed the connection"):
            await client.assign(P1)


async def test_the_token_is_sent_to_the_admin_api_only() -> None:
    wire = Wire()
    async with client_of(wire, token="sesame") as client:
        await client.freeze()
        assert wire.headers["authorization"] == "Bearer sesame"
        await client.announce(announcement("p1"))
        assert "authorization" not in wire.headers


async def test_an_api_without_a_url_gets_no_request() -> None:
    async with IndexerClient(find_url=f"http://{HOST}:1") as client:
        with pytest.raises(Invalid, match="the admin URL of the indexer is missing"):
            await client.status()


async def test_a_closed_client_stays_closed() -> None:
    async with client_of(Wire()) as client:
        await client.freeze()
        await client.close()
        await client.close()
        with pytest.raises(Unavailable, match="closed"):
            await client.freeze()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1:3002", "http://10.0.0.1:3002"),
        (" http://h/ ", "http://h"),
        ("https://h:1/base/", "https://h:1/base"),
        ("http://[::1]:3000", "http://[::1]:3000"),
    ],
)
def test_a_url_is_kept_in_one_form(text: str, expected: str) -> None:
    assert normalize_url(text) == expected


@pytest.mark.parametrize(
    "text", ["", "ftp://h", "http://", "http://h:99999", "http://h:x", "http://h?q=1", "http://[::1"]
)
def test_an_invalid_api_url_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not the URL"):
        normalize_url(text)
