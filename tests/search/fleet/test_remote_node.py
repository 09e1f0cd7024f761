"""Remote nodes: every failure on the way has its error class, in frames and over HTTP."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import msgspec
import pytest
import uvloop

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Fenced,
    Gone,
    Invalid,
    NotFound,
    NotOwner,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.search.fleet import protocol, remote_node
from argosy.search.fleet.model import FileRequest, SearchRequest
from argosy.search.fleet.protocol import pack
from argosy.search.fleet.remote_node import RemoteNodes
from argosy.search.index.index import Index
from argosy.search.model import MissingReason, Options, SearchResult
from argosy.search.query.codec import QUERY_VERSION
from tests.search.fleet.node_fixture import HOST, NAMES, NodeFixture, search_request, serve_node, small


@pytest.fixture
async def nodes() -> AsyncIterator[RemoteNodes]:
    nodes = RemoteNodes()
    yield nodes
    await nodes.close()


class Refusing:
    """A node that answers every request with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def _refuse(self, *_: object) -> None:
        raise self._error

    search = list = file = folder = status = _refuse

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        yield b"a beginning"
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        Invalid("mend it"),
        NotFound("no such file 'ä'"),
        Conflict("look again"),
        Gone("list again"),
        NotOwner("ask there", hint="n2:6070"),
        NotOwner("ask somebody"),
        Throttled("slowly", retry_after_s=7.0),
        Unavailable("store away"),
    ],
    ids=repr,
)
async def test_an_error_keeps_its_class_over_the_wire(error: ArgosyError, nodes: RemoteNodes) -> None:
    async with serve_node(Refusing(error)) as address:  # type: ignore[arg-type]
        ways = [nodes.at(address), nodes.at(f"http://{address}")]
        for call in [each.search(search_request()) for each in ways] + [
            each.file(FileRequest("r", "p")) for each in ways
        ]:
            with pytest.raises(type(error)) as raised:
                await call
            assert (str(raised.value), type(raised.value)) == (str(error), type(error))
            assert getattr(raised.value, "hint", None) == getattr(error, "hint", None)
            assert getattr(raised.value, "retry_after_s", None) == getattr(error, "retry_after_s", None)


@pytest.mark.parametrize(
    ("error", "reason"), [(Fenced("replaced"), "replaced"), (Unauthorized("who"), "rejected the fleet token")], ids=repr
)
async def test_an_error_that_the_caller_cannot_fix_is_unavailable(
    error: ArgosyError, reason: str, nodes: RemoteNodes
) -> None:
    async with serve_node(Refusing(error)) as address:  # type: ignore[arg-type]
        for way in (address, f"http://{address}"):
            with pytest.raises(Unavailable, match=reason):
                await nodes.at(way).status()


async def test_a_node_of_another_query_version_is_unavailable_with_both_versions(nodes: RemoteNodes) -> None:
    newer = SearchRequest(msgspec.msgpack.encode([QUERY_VERSION + 1, {"a": "newer form"}]), NAMES)
    why = f"unsupported query version {QUERY_VERSION + 1}: this node reads version {QUERY_VERSION}; upgrade this node"
    async with serve_node(NodeFixture(small("alpha")).node) as address:
        for way in (address, f"http://{address}"):
            for call in (nodes.at(way).search(newer), nodes.at(way).list(newer)):
                with pytest.raises(Unavailable, match=f"node {way} is of another version: {why}"):
                    await call


async def test_an_address_without_a_server_is_unavailable(nodes: RemoteNodes) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))  # and not listening
        address = f"{HOST}:{taken.getsockname()[1]}"
        for way in (address, f"http://{address}"):
            with pytest.raises(Unavailable, match=f"node {way} unreachable"):
                await nodes.at(way).status()
        with pytest.raises(Unavailable, match="unreachable"):
            await anext(nodes.at(address).index("r"))


async def test_a_url_is_an_address_too(nodes: RemoteNodes) -> None:
    async with serve_node(NodeFixture(small("alpha")).node) as address:
        assert (await nodes.at(f"http://{address}").status()).node == "n1"


# -- servers that behave badly --------------------------------------------------------------------------------------


@asynccontextmanager
async def serve_scripts(*scripts: bytes | None) -> AsyncIterator[str]:
    """The URL of a server that says these things, one on each connection, after it has heard a question; None: it says
    nothing."""
    left = list(scripts)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = left.pop(0)
        await reader.readuntil(b"\r\n\r\n")
        if script is None:
            await reader.read()
        else:
            writer.write(script)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, HOST, 0)
    async with server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    assert left == [], "every script was played"


def http_response(body: bytes, status: str = "200 OK", *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n".encode() + body


async def test_a_request_whose_connection_was_closed_is_retried_once(nodes: RemoteNodes) -> None:
    async with serve_scripts(b"", http_response(pack(SearchResult()))) as address:
        assert await nodes.at(address).search(search_request()) == SearchResult()
    async with serve_scripts(b"", b"") as address:
        with pytest.raises(Unavailable, match="unreachable"):
            await nodes.at(address).search(search_request())


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (http_response(b"gibberish"), "unreadable response .* run the same version"),
        (http_response(pack({"node": 7})), "unreadable response"),
        (http_response(b"", length=50), "unreachable"),
        (http_response(b"nginx says no", "502 Bad Gateway"), "returned status 502: b'nginx says no'"),
        (http_response(b'{"error": 3}', "500 Oops"), "returned status 500"),
        (http_response(b"", "302 Found"), "returned status 302"),
        (b"HTTP/1.1 two hundred\r\n\r\n", "unreachable"),
        (http_response(bytes(70_000), "404 Not Found"), "limit 65536 bytes"),
    ],
)
async def test_an_invalid_response_is_unavailable(script: bytes, why: str, nodes: RemoteNodes) -> None:
    async with serve_scripts(script) as address:
        with pytest.raises(Unavailable, match=why):
            await nodes.at(address).status()


async def test_a_response_above_the_limit_is_not_read_to_its_end(
    nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "ANSWER_BYTES_MAX", 1000)
    async with serve_scripts(http_response(bytes(1001), length=1 << 40)) as address:
        with pytest.raises(Unavailable, match="limit 1000 bytes"):
            await nodes.at(address).status()


async def test_a_silent_node_times_out(nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_node, "MARGIN_S", 0.05)
    monkeypatch.setattr(remote_node, "CALL_S", 0.05)
    calls: list[Callable[[str], Awaitable[object]]] = [
        lambda address: nodes.at(address).search(SearchRequest("q", (), Options(wall_time_s=0.01))),
        lambda address: nodes.at(address).status(),
    ]
    for call in calls:
        async with serve_scripts(None) as address:
            with pytest.raises(Unavailable, match=r"timed out after 0.0[56] s"):
                await call(address)


async def test_a_truncated_stream_is_reported(nodes: RemoteNodes) -> None:
    """Closing is the only signal of a server that cannot continue: the status has been sent."""
    cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
    async with serve_scripts(cut) as address:
        stream = nodes.at(address).index("r")
        assert await anext(stream) == b"hello"
        with pytest.raises(Unavailable, match="unreachable"):
            await anext(stream)


async def test_a_silent_stream_times_out(nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_node, "_STREAM", remote_node.aiohttp.ClientTimeout(total=None, sock_read=0.05))
    async with serve_scripts(None) as address:
        with pytest.raises(Unavailable, match="no data for 30 s"):
            await anext(nodes.at(address).index("r"))


# -- many and long --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def indexes() -> list[Index]:
    return [small(name) for name in NAMES]


async def test_a_request_for_many_repositories_is_answered(indexes: list[Index], nodes: RemoteNodes) -> None:
    names = tuple(f"somewhere.example/else/{i}" for i in range(40_000))
    async with serve_node(NodeFixture(*indexes).node) as address:
        answer = await nodes.at(address).search(search_request("needle", *names, "alpha"))
    assert len(answer.missing) == len(names)
    assert {each.why for each in answer.missing} == {MissingReason.UNOWNED}
    assert {file.repository for file in answer.files} == {"alpha"}


async def test_no_request_is_sent_after_close(indexes: list[Index]) -> None:
    nodes = RemoteNodes()
    async with serve_node(NodeFixture(*indexes).node) as address:
        await nodes.at(address).status()
        await nodes.close()
        with pytest.raises(Unavailable, match="shutting down"):
            await nodes.at(address).status()
    await nodes.close()


# -- the loop ---------------------------------------------------------------------------------------------------


def test_requests_run_on_the_event_loop_of_the_process(indexes: list[Index]) -> None:
    """Its transports are of another class than asyncio's."""

    async def ask() -> SearchResult:
        nodes = RemoteNodes()
        async with serve_node(NodeFixture(*indexes).node) as address:
            answers = [await nodes.at(address).search(search_request()) for _ in range(2)]
        await nodes.close()
        return answers[-1]

    with ThreadPoolExecutor(1) as pool:  # a test has a loop of its own already
        assert pool.submit(uvloop.run, ask()).result().files


async def test_a_cancelled_request_closes_its_connection(nodes: RemoteNodes) -> None:
    async with serve_scripts(None) as address:
        call = asyncio.ensure_future(nodes.at(address).search(search_request()))
        done, _ = await asyncio.wait([call], timeout=0.1)
        assert not done
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
    # The server has read to the end of the connection, or its script would still be playing.


def test_a_fleet_token_is_one_line() -> None:
    with pytest.raises(Invalid, match="control characters"):
        RemoteNodes(fleet_token="a\r\nx-evil: 1")
