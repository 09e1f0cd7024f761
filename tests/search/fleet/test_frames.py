"""Frames: many requests on one connection, and clients that disconnect, stall or violate the protocol cost nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import ArgosyError, Invalid, NotOwner, Throttled, Unavailable
from argosy.base.tracing import NO_TRACER, Attribute, Span
from argosy.search.fleet import frame_client, frame_server, protocol, remote_node
from argosy.search.fleet.frame_server import FramesRoute
from argosy.search.fleet.http import node_routes
from argosy.search.fleet.model import FileRequest, FileText, NodeStatus, SearchRequest
from argosy.search.fleet.protocol import Frame, Parser, Refusal, encode_frame, pack
from argosy.search.fleet.remote_node import RemoteNodes
from argosy.search.index.index import Index
from argosy.search.model import Options, Repository, SearchResult, Stats
from argosy.search.query.codec import decode_query
from argosy.search.query.format import format_query
from tests.search.fleet.node_fixture import HOST, NAMES, NodeFixture, search_request, serve_node, small

TIMEOUT_S = 60.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.fixture
async def nodes() -> AsyncIterator[RemoteNodes]:
    nodes = RemoteNodes()
    yield nodes
    await nodes.close()


@pytest.fixture(scope="module")
def indexes() -> list[Index]:
    return [small(name) for name in NAMES]


# -- the wire -------------------------------------------------------------------------------------------------------

FRAMES = st.builds(
    Frame,
    st.integers(0, protocol.CALLS_MAX - 1),
    st.integers(0, 255),
    st.binary(max_size=20),
    st.binary(max_size=200),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_frames_are_decoded_as_encoded_however_they_are_cut(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(each.call, each.kind, each.body, each.trace) for each in frames)
    parser, received, at = Parser(1000), list[Frame](), 0
    for cut in [*cuts, len(data)]:
        received += parser.feed(data[at : at + cut])
        at += cut
    assert received == frames


def test_a_frame_that_would_be_too_long_is_rejected_at_its_header() -> None:
    parser = Parser(10)
    with pytest.raises(Invalid, match="invalid frame"):
        parser.feed(encode_frame(1, 1, bytes(11 + protocol.TRACE_BYTES_MAX))[:11])
    with pytest.raises(Invalid, match="invalid frame"):
        Parser(10).feed(b"\0\0\0\1\0\0\0\0\0\0\2x")  # a trace that is longer than all of it


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (Invalid("mend it"), Refusal(400, "mend it")),
        (NotOwner("there", hint="n2:1"), Refusal(421, "there", hint="n2:1")),
        (Throttled("slowly", retry_after_s=7.5), Refusal(429, "slowly", retry_after_s=7.5)),
        (Invalid("no Unicode: \udcff"), Refusal(400, "no Unicode: \\udcff")),
        (Invalid("https://me:secret@host/x"), Refusal(400, "https://***@host/x")),
    ],
    ids=str,
)
def test_an_error_keeps_its_redirect_and_retry_time(error: ArgosyError, refusal: Refusal) -> None:
    result = protocol.decode_refusal(protocol.encode_refusal(error))
    assert result == refusal or ("secret" not in result.message and "host/x" in result.message)


def test_an_invalid_refusal_is_still_a_refusal() -> None:
    assert protocol.decode_refusal(b"\xc1nonsense") == Refusal(500, repr(b"\xc1nonsense"))


def test_a_greeting_is_parsed_when_complete_and_its_length_is_bounded() -> None:
    whole = protocol.upgrade_request("n:1", {"authorization": "Bearer x"})
    assert protocol.parse_head(whole[:-1]) is None
    head = protocol.parse_head(whole + b"rest")
    assert head is not None
    assert (head.has_upgrade, head.headers["authorization"], head.rest, head.status) == (True, b"Bearer x", b"rest", 0)
    with pytest.raises(Invalid, match="8192 bytes"):
        protocol.parse_head(bytes(protocol.UPGRADE_BYTES_MAX + 1))


# -- many requests -------------------------------------------------------------------------------------------------


class GatedNode:
    """A node whose results wait until the test releases them, by query."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.ended: list[str] = []

    async def search(self, request: SearchRequest) -> SearchResult:
        word = format_query(decode_query(request.query))
        gate = self.gates[word] = asyncio.Event()
        try:
            await gate.wait()
        finally:
            self.ended.append(word)
        return SearchResult(stats=Stats(files=int(word)))

    async def file(self, request: FileRequest) -> FileText:
        return FileText(Repository("r"), request.path, bytes(int(request.path)))

    async def status(self) -> NodeStatus:
        return NodeStatus("n1", "", "", 0.0, False, 0, 0, 0)


def is_at(node: GatedNode, *queries: str) -> Callable[[], bool]:
    return lambda: set(queries) <= node.gates.keys()


async def test_responses_on_one_connection_arrive_in_order_of_completion(nodes: RemoteNodes) -> None:
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        calls = [asyncio.ensure_future(nodes.at(address).search(search_request(str(i)))) for i in range(20)]
        await until(is_at(node, *map(str, range(20))))
        for number in reversed(range(20)):
            node.gates[str(number)].set()
            assert (await calls[number]).stats.files == number
        assert nodes.connections.count() == 1


async def test_a_cancelled_request_ends_alone(nodes: RemoteNodes) -> None:
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        calls = [asyncio.ensure_future(nodes.at(address).search(search_request(str(i)))) for i in range(2)]
        await until(is_at(node, "0", "1"))
        calls[0].cancel()
        await until(lambda: node.ended == ["0"])
        node.gates["1"].set()
        assert (await calls[1]).stats.files == 1
        assert nodes.connections.count() == 1


async def test_a_request_cancelled_in_the_same_packet_ends_too() -> None:
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        host, port = address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            protocol.upgrade_request("n", {})
            + encode_frame(7, protocol.SEARCH, pack(search_request("1")))
            + encode_frame(7, protocol.CANCEL)
        )
        await until(lambda: bool(node.ended))
        assert node.ended == ["1"]
        writer.close()


async def test_a_request_that_waits_for_nothing_is_answered_without_a_task() -> None:
    connections: set[Any] = set()
    route = node_routes(GatedNode())[0]  # type: ignore[arg-type]
    assert isinstance(route, FramesRoute)
    sent = Sent()
    connection = route.upgrade(connections)
    connection.connection_made(sent)  # type: ignore[arg-type]
    connection.data_received(
        protocol.upgrade_request("n", {}) + encode_frame(7, protocol.STATUS) + encode_frame(8, protocol.STATUS)
    )
    assert sent.data.startswith(protocol.UPGRADED)
    frames = Parser(1000).feed(bytes(sent.data[len(protocol.UPGRADED) :]))
    assert [(frame.call, frame.kind) for frame in frames] == [(7, protocol.RESULT), (8, protocol.RESULT)]


class Sent:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return False


async def test_a_closed_connection_cancels_all_its_requests(nodes: RemoteNodes) -> None:
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        calls = [asyncio.ensure_future(nodes.at(address).search(search_request(str(i)))) for i in range(3)]
        await until(is_at(node, "0", "1", "2"))
        await nodes.close()
        await until(lambda: sorted(node.ended) == ["0", "1", "2"])
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, Unavailable)
            assert "shutting down" in str(result)


async def test_a_late_request_times_out_and_the_others_do_not(
    nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_node, "MARGIN_S", 0.0)
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        slow = asyncio.ensure_future(nodes.at(address).search(search_request("1")))
        late = asyncio.ensure_future(nodes.at(address).search(search_request("2", options=Options(wall_time_s=0.2))))
        await until(is_at(node, "1", "2"))
        number = 3
        while not late.done():  # so that the connection is not silent
            other = asyncio.ensure_future(nodes.at(address).search(search_request(str(number))))
            await until(is_at(node, str(number)))
            node.gates[str(number)].set()
            assert (await other).stats.files == number
            number += 1
        with pytest.raises(Unavailable, match=r"timed out after 0.2 s"):
            await late
        await until(lambda: "2" in node.ended)
        node.gates["1"].set()
        assert (await slow).stats.files == 1


# -- authorization -------------------------------------------------------------------------------------------------


async def exchange(address: str, data: bytes) -> bytes:
    """All bytes that a server sends until it closes the connection."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("token", [{}, {"authorization": "Bearer wrong"}, {"authorization": "sesam"}], ids=str)
async def test_no_frame_is_read_without_the_token(token: dict[str, str]) -> None:
    node = GatedNode()
    async with serve_node(node, fleet_token="sesam") as address:  # type: ignore[arg-type]
        request_frame = encode_frame(1, protocol.SEARCH, pack(search_request("1")))
        received = await exchange(address, protocol.upgrade_request("n", token) + request_frame)
    assert received.startswith(b"HTTP/1.1 401 ")
    assert node.gates == {}


async def test_another_protocol_is_rejected() -> None:
    async with serve_node(GatedNode()) as address:  # type: ignore[arg-type]
        other = protocol.upgrade_request("n", {}).replace(b"frames-2", b"frames-1")
        assert (await exchange(address, other)).startswith(b"HTTP/1.1 426 ")


async def test_a_request_may_come_with_the_greeting_and_in_pieces(nodes: RemoteNodes) -> None:
    async with serve_node(GatedNode()) as address:  # type: ignore[arg-type]
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for byte in protocol.upgrade_request("n", {}) + encode_frame(7, protocol.STATUS):
            writer.write(bytes([byte]))
            await writer.drain()
        received = await reader.readexactly(len(protocol.UPGRADED))
        assert received == protocol.UPGRADED
        header = await reader.readexactly(11)
        assert header[4:9] == b"\0\0\0\7\0"  # the call, and that it is answered
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        encode_frame(1, protocol.SEARCH, bytes(protocol.REQUEST_BYTES_MAX + protocol.TRACE_BYTES_MAX + 1))[:11],
        encode_frame(1, protocol.SEARCH, pack(search_request("1"))) * 2,
    ],
    ids=["too long", "the same call twice"],
)
async def test_a_protocol_violation_closes_the_connection(data: bytes) -> None:
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        assert await exchange(address, protocol.upgrade_request("n", {}) + data) == protocol.UPGRADED
        await until(lambda: len(node.ended) == len(node.gates))


async def test_an_unknown_or_failing_request_is_refused(nodes: RemoteNodes) -> None:
    async with serve_node(GatedNode()) as address:  # type: ignore[arg-type]
        for kind, why in (
            (99, "unknown request kind 99"),
            (protocol.LIST, "this node's log"),
            (protocol.SEARCH, "invalid msgpack"),
        ):
            host, port = address.split(":")
            answer = await nodes.connections.request((host, int(port)), "search", kind, b"\xc1", b"", 10.0)
            assert answer.kind == protocol.ERROR
            assert why in protocol.decode_refusal(answer.body).message


async def test_a_plain_http_request_gets_a_hint(indexes: list[Index]) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        received = await exchange(address, b"GET /v1/node/frames?x HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"upgrade to argosy-frames-2" in received


# -- servers that behave badly --------------------------------------------------------------------------------------

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_scripts(*scripts: Script) -> AsyncIterator[str]:
    """A server that does one of these on each connection."""
    left = list(scripts)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await left.pop(0)(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}"
    assert left == [], "every script was played"


def respond_with(data: bytes) -> Script:
    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return respond


async def disconnect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends the greeting, reads the request, and disconnects."""
    writer.write(protocol.UPGRADED)
    await reader.readexactly(11)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(protocol.UPGRADED)
    header = await reader.readexactly(11)
    writer.write(encode_frame(int.from_bytes(header[4:8]), protocol.RESULT, pack(SearchResult())))
    await reader.read()


async def answer_and_disconnect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one request, reads the next, and disconnects."""
    writer.write(protocol.UPGRADED)
    header = await reader.readexactly(11)
    await reader.readexactly(int.from_bytes(header[:4]))
    writer.write(encode_frame(int.from_bytes(header[4:8]), protocol.RESULT, pack(SearchResult())))
    await reader.readexactly(11)


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(protocol.UPGRADED)
    await reader.read()


async def test_a_request_whose_connection_was_closed_is_retried_once(nodes: RemoteNodes) -> None:
    async with serve_scripts(disconnect, answer) as address:
        assert await nodes.at(address).search(search_request()) == SearchResult()
        await nodes.close()
    nodes = RemoteNodes()
    async with serve_scripts(disconnect, disconnect) as address:
        with pytest.raises(Unavailable, match="unreachable: the connection was closed"):
            await nodes.at(address).search(search_request())
    await nodes.close()


async def test_a_request_on_an_open_connection_is_retried_once_too(nodes: RemoteNodes) -> None:
    async with serve_scripts(answer_and_disconnect, answer) as address:
        assert await nodes.at(address).search(search_request()) == SearchResult()
        assert await nodes.at(address).search(search_request()) == SearchResult()
        await nodes.close()
    nodes = RemoteNodes()
    async with serve_scripts(answer_and_disconnect, disconnect) as address:
        assert await nodes.at(address).search(search_request()) == SearchResult()
        with pytest.raises(Unavailable, match="unreachable: the connection was closed"):
            await nodes.at(address).search(search_request())
    await nodes.close()


async def test_a_retried_request_can_be_cancelled(nodes: RemoteNodes) -> None:
    received: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(protocol.UPGRADED)
        received.append(await reader.readexactly(11))
        await reader.readexactly(int.from_bytes(received[0][:4]))
        received.append(await reader.readexactly(11))

    async with serve_scripts(answer_and_disconnect, receive) as address:
        assert await nodes.at(address).search(search_request()) == SearchResult()
        again = asyncio.ensure_future(nodes.at(address).search(search_request()))
        await until(lambda: len(received) == 1)
        again.cancel()
        await until(lambda: len(received) == 2)
        assert received[1][8] == protocol.CANCEL
        with pytest.raises(asyncio.CancelledError):
            await again


async def test_an_invalid_response_on_an_open_connection_is_unavailable(nodes: RemoteNodes) -> None:
    async def answer_wrongly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(protocol.UPGRADED)
        for body in (pack(SearchResult()), b"\xc1"):
            header = await reader.readexactly(11)
            await reader.readexactly(int.from_bytes(header[:4]))
            writer.write(encode_frame(int.from_bytes(header[4:8]), protocol.RESULT, body))
        await reader.read()

    async with serve_scripts(answer_wrongly) as address:
        assert await nodes.at(address).search(search_request()) == SearchResult()
        with pytest.raises(Unavailable, match="unreadable response"):
            await nodes.at(address).search(search_request())
        await nodes.close()


async def test_a_node_that_is_back_is_queried_again(indexes: list[Index], nodes: RemoteNodes) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        assert (await nodes.at(address).status()).node == "n1"
    await until(lambda: nodes.connections.count() == 0)
    with pytest.raises(Unavailable, match="unreachable"):
        await nodes.at(address).status()
    async with serve_scripts(answer) as other:
        assert await nodes.at(other).search(search_request()) == SearchResult()
        await nodes.close()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            respond_with(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
            "not a search node.*answered with status 404",
        ),
        (respond_with(b"SSH-2.0-x\r\n\r\n"), "not a search node"),
        (respond_with(protocol.UPGRADED.replace(b"frames-2", b"frames-1")), "not a search node"),
        (respond_with(bytes(protocol.UPGRADE_BYTES_MAX + 1)), "unreachable"),
        (respond_with(b""), "unreachable: the connection was closed"),
    ],
)
async def test_a_server_without_a_valid_greeting_is_no_node(script: Script, why: str, nodes: RemoteNodes) -> None:
    scripts = (script,) if "closed" not in why else (script, script)
    async with serve_scripts(*scripts) as address:
        with pytest.raises(Unavailable, match=why):
            await nodes.at(address).search(search_request())


async def test_a_response_above_the_limit_is_not_read(nodes: RemoteNodes) -> None:
    too_long = protocol.ANSWER_BYTES_MAX + protocol.TRACE_BYTES_MAX + 1

    async def announce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await disconnect(reader, writer)
        writer.write(too_long.to_bytes(4) + bytes(7))
        await reader.read()

    async with serve_scripts(announce) as address:
        with pytest.raises(Unavailable, match="invalid response"):
            await nodes.at(address).search(search_request())


async def test_a_silent_connection_is_not_reused(nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_node, "MARGIN_S", 0.0)
    async with serve_scripts(stay_silent, answer) as address:
        with pytest.raises(Unavailable, match=r"timed out after 0.05 s"):
            await nodes.at(address).search(search_request(options=Options(wall_time_s=0.05)))
        assert await nodes.at(address).search(search_request()) == SearchResult()
        await nodes.close()


async def test_each_of_several_late_requests_times_out_at_its_own_deadline(
    nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_node, "MARGIN_S", 0.0)
    node = GatedNode()
    async with serve_node(node) as address:  # type: ignore[arg-type]
        await nodes.at(address).status()
        first = asyncio.ensure_future(nodes.at(address).search(search_request("0")))
        await until(is_at(node, "0"))
        node.gates["0"].set()
        await first
        times = {"1": 0.3, "2": 0.1, "3": 60.0}
        calls = [nodes.at(address).search(search_request(q, options=Options(wall_time_s=s))) for q, s in times.items()]
        await until(is_at(node, *times))
        order: list[str] = []
        for query, call in zip(times, map(asyncio.ensure_future, calls), strict=True):
            call.add_done_callback(partial(lambda query, _: order.append(query), query))
        number = 4
        while len(order) < 2:  # so that the connection is not silent
            other = asyncio.ensure_future(nodes.at(address).search(search_request(str(number))))
            await until(is_at(node, str(number)))
            node.gates[str(number)].set()
            await other
            number += 1
        assert order == ["2", "1"]
        await until(lambda: {"1", "2"} <= set(node.ended))
        for call in map(asyncio.ensure_future, calls[:2]):
            assert isinstance(call.exception(), Unavailable)
        node.gates["3"].set()
        assert (await calls[2]).stats.files == 3


async def test_requests_do_not_wait_for_a_connection_that_cannot_be_opened(
    nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes.connections, "_connect_s", 0.05)

    async def no_greeting(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve_scripts(no_greeting) as address:
        calls = [nodes.at(address).search(search_request()) for _ in range(3)]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, Unavailable)
            assert "no connection within 0.05 s" in str(result)


# -- back-pressure --------------------------------------------------------------------------------------------------


async def held_up(address: str, count: int) -> tuple[socket.socket, asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that requests so many files of a megabyte and reads when the test does."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # or a system's own might hold it all
    reader, writer = await asyncio.open_connection(sock=connection, limit=1 << 16)
    writer.write(protocol.upgrade_request("n", {}))
    for call in range(count):
        writer.write(encode_frame(call, protocol.FILE, pack(FileRequest("r", str(1 << 20)))))
    await reader.readuntil(b"\r\n\r\n")
    return connection, reader, writer


async def test_a_client_that_reads_nothing_pauses_the_server_and_gets_everything_later() -> None:
    async with serve_node(GatedNode()) as address:  # type: ignore[arg-type]
        _, reader, writer = await held_up(address, 32)
        parser, received = Parser(protocol.ANSWER_BYTES_MAX), list[Frame]()
        async with asyncio.timeout(TIMEOUT_S):
            while len(received) < 32:
                received += parser.feed(await reader.read(1 << 16))
        writer.close()
    assert sorted(each.call for each in received) == list(range(32))
    assert {each.kind for each in received} == {protocol.RESULT}


async def nothing_but_waiting(writer: asyncio.StreamWriter) -> None:
    """A response to a closed connection is dropped."""
    while True:
        writer.write(encode_frame(99, protocol.CANCEL))
        await writer.drain()
        await asyncio.sleep(0)


async def test_a_client_that_reads_nothing_for_too_long_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_server, "STALL_S", 0.05)
    async with serve_node(GatedNode()) as address:  # type: ignore[arg-type]
        _, _, writer = await held_up(address, 32)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(nothing_but_waiting(writer), TIMEOUT_S)
        writer.close()


async def test_a_request_waits_while_the_node_accepts_none(nodes: RemoteNodes, indexes: list[Index]) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        await nodes.at(address).search(search_request())
        [line] = nodes.connections._open.values()
        line.pause_writing()
        call = asyncio.ensure_future(nodes.at(address).search(search_request()))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not call.done()
        line.resume_writing()
        assert (await call).files


async def test_a_stopping_server_answers_pending_requests(nodes: RemoteNodes) -> None:
    node, connections = GatedNode(), set[Any]()
    [route] = [each for each in node_routes(node) if isinstance(each, FramesRoute)]  # type: ignore[arg-type]
    server = await asyncio.get_running_loop().create_server(lambda: route.upgrade(connections), HOST, 0)
    async with server:
        call = asyncio.ensure_future(
            nodes.at(f"{HOST}:{server.sockets[0].getsockname()[1]}").search(search_request("1"))
        )
        await until(is_at(node, "1"))
        for connection in list(connections):
            connection.shutdown()
        node.gates["1"].set()
        assert (await call).stats.files == 1
        await until(lambda: not connections and nodes.connections.count() == 0)


# -- traces ---------------------------------------------------------------------------------------------------------


class Tracing:
    """A tracer that injects fixed headers and records the headers it extracts."""

    def __init__(self, injected: dict[str, str]) -> None:
        self._injected = injected
        self.continued_with: list[dict[str, str]] = []

    def span(self, name: str, /, **attributes: Attribute) -> AbstractContextManager[Span]:
        return NO_TRACER.span(name, **attributes)

    def inject(self) -> dict[str, str]:
        return self._injected

    def extract(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        self.continued_with.append(dict(headers))
        return nullcontext()


async def test_a_trace_goes_on_in_the_node() -> None:
    there = Tracing({})
    async with serve_node(GatedNode(), tracer=there) as address:  # type: ignore[arg-type]
        for headers in ({"traceparent": "00-ab-cd-01"}, {}, {"tracestate": "x" * protocol.TRACE_BYTES_MAX}):
            nodes = RemoteNodes(tracer=Tracing(headers))
            assert (await nodes.at(address).status()).node == "n1"
            await nodes.close()
    assert there.continued_with == [{"traceparent": "00-ab-cd-01"}]


# -- lines ----------------------------------------------------------------------------------------------------------


async def test_concurrent_requests_share_one_connection_attempt(indexes: list[Index]) -> None:
    nodes = RemoteNodes()
    async with serve_node(NodeFixture(*indexes).node) as address:
        answers = await asyncio.gather(*(nodes.at(address).search(search_request()) for _ in range(30)))
        assert all(answer.files for answer in answers)
        assert nodes.connections.count() == 1
        await nodes.at(address).status()  # which has a lane of its own
        assert nodes.connections.count() == 2
        await nodes.close()
        await until(lambda: nodes.connections.count() == 0)


def test_the_kernel_detects_a_dead_peer() -> None:
    with socket.socket() as connection:
        frame_client._enable_keepalive(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == frame_client.PEER_GONE_S * 1000
