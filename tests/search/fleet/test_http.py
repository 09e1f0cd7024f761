"""A node over real HTTP: the results of in-process calls, errors with a status, no work for disconnected clients."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO

import aiohttp
import pytest

from argosy.base.errors import NotOwner, Unavailable
from argosy.search.fleet import http, protocol
from argosy.search.fleet.model import FileRequest, FolderRequest
from argosy.search.fleet.ports import Node
from argosy.search.fleet.protocol import pack, unpack
from argosy.search.fleet.remote_node import RemoteNodes
from argosy.search.index.index import Index
from argosy.search.index.sections import verify
from argosy.search.index.wire import dump, load
from argosy.search.index_set import IndexSet
from argosy.search.model import Form, LimitHit, Options, SearchResult
from argosy.search.query.tree import Query, Regexp
from tests.search.fleet.node_fixture import NodeFixture, odd, search_request, serve_node, small, without_time
from tests.search.match.search_calls import build_index

TIMEOUT_S = 60.0
ODD = odd()
ODD_NAME = ODD.repository.name
EVERYWHERE = ("alpha", "beta", ODD_NAME, "elsewhere", "warming")


@pytest.fixture(scope="module")
def indexes() -> list[Index]:
    return [small("alpha"), small("beta", rank=9), ODD]


@pytest.fixture
async def nodes() -> AsyncIterator[RemoteNodes]:
    nodes = RemoteNodes()
    yield nodes
    await nodes.close()


def plain(answer: object) -> object:
    return without_time(answer) if isinstance(answer, SearchResult) else answer


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


# -- the same answers -----------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Node], Awaitable[object]]] = {
    "search": lambda node: node.search(search_request("needle", *EVERYWHERE)),
    "search by name": lambda node: node.search(search_request("file:bad or r:beta", *EVERYWHERE)),
    "search lines": lambda node: node.search(
        search_request("sail", *EVERYWHERE, options=Options(form=Form.LINES, context_lines=1, files_max=5))
    ),
    "search with content": lambda node: node.search(
        search_request("f:both sym:Ship", *EVERYWHERE, options=Options(with_content=True))
    ),
    "count": lambda node: node.search(search_request("needle", *EVERYWHERE, options=Options(form=Form.COUNT))),
    "nothing found": lambda node: node.search(search_request("nowhere", *EVERYWHERE)),
    "list": lambda node: node.list(search_request("file:py", *EVERYWHERE)),
    "file": lambda node: node.file(FileRequest(ODD_NAME, "both.py", "dev")),
    "oddly named file": lambda node: node.file(FileRequest(ODD_NAME, "bad\udcff/name\udcfe.py")),
    "skipped file": lambda node: node.file(FileRequest(ODD_NAME, "lib/logo.png")),
    "folder": lambda node: node.folder(FolderRequest(ODD_NAME)),
    "status": lambda node: node.status(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_request_over_http_is_answered_as_in_process(
    call: str, indexes: list[Index], nodes: RemoteNodes
) -> None:
    fixture = NodeFixture(*indexes)
    fixture.leases.add("warming")
    async with serve_node(fixture.node) as address:
        there = await CALLS[call](nodes.at(address))
        here = await CALLS[call](fixture.node)
    assert plain(there) == plain(here)
    assert type(there) is type(here)


async def test_concurrent_requests_get_their_own_responses(indexes: list[Index], nodes: RemoteNodes) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        node = nodes.at(address)
        answers = await asyncio.gather(
            *(node.search(search_request(f"file:beta{i % 20}\\.", "beta")) for i in range(60))
        )
    assert [answer.files[0].path for answer in answers] == [f"src/beta{i % 20}.py" for i in range(60)]


async def test_a_result_above_the_limit_is_cut_and_marked(
    indexes: list[Index], nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "pack_answer", lambda answer: protocol.pack_answer(answer, bytes_max=4_000))
    async with serve_node(NodeFixture(*indexes).node) as address:
        answer = await nodes.at(address).search(search_request("needle", "beta"))
    assert 0 < len(answer.files) < 20
    assert answer.limits_hit == (LimitHit.FILES_SHOWN,)


# -- authorization -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [protocol.SEARCH_PATH, protocol.STATUS_PATH, protocol.INDEX_PATH + "alpha"])
@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer sesam ", "sesam", "Bearer s\u00e9sam"])
async def test_a_request_without_the_token_is_rejected(path: str, given: str | None, indexes: list[Index]) -> None:
    method = "POST" if path == protocol.SEARCH_PATH else "GET"
    headers = {} if given is None else {"authorization": given}
    async with (
        serve_node(NodeFixture(*indexes).node, fleet_token="sesam") as address,
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{address}{path}", headers=headers) as response,
    ):
        assert response.status == 401
        assert (await response.json())["error"]["kind"] == "Unauthorized"


async def test_a_request_with_the_token_is_answered(indexes: list[Index]) -> None:
    nodes, unauthorized = RemoteNodes(fleet_token="sesam"), RemoteNodes(fleet_token="other")
    async with serve_node(NodeFixture(*indexes).node, fleet_token="sesam") as address:
        assert (await nodes.at(address).status()).node == "n1"
        with pytest.raises(Unavailable, match="rejected the fleet token"):
            await unauthorized.at(address).status()
    await nodes.close()
    await unauthorized.close()


async def test_a_request_above_the_limit_is_rejected_and_the_next_is_not(
    indexes: list[Index], nodes: RemoteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUESTS_MAX", 1)
    index_set = Endless(threads=1)
    async with serve_node(NodeFixture(*indexes, index_set=index_set).node) as address:
        first = asyncio.ensure_future(nodes.at(address).search(search_request("needle", "alpha")))
        await until(index_set.started.is_set)
        with pytest.raises(Unavailable, match="too many concurrent requests, limit 1"):
            await nodes.at(address).status()
        first.cancel()
        await until(index_set.ended.is_set)
        await until_answered(nodes.at(address))


async def until_answered(node: Node) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await node.status()
                return
            except Unavailable:
                pass


# -- what is refused ------------------------------------------------------------------------------------------------


async def post(address: str, body: object, path: str = protocol.SEARCH_PATH) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(f"http://{address}{path}", data=body) as response:
        return response.status, await response.text()


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size >> 16):
        yield bytes(1 << 16)


@pytest.mark.parametrize("has_pending_push", [True, False], ids=["with a length", "in pieces"])
async def test_a_body_above_the_limit_is_rejected(has_pending_push: bool, indexes: list[Index]) -> None:
    size = protocol.REQUEST_BYTES_MAX + (1 << 16)
    async with serve_node(NodeFixture(*indexes).node) as address:
        status, text = await post(address, BytesIO(bytes(size)) if has_pending_push else in_pieces(size))
    assert status == 400
    assert f"limit {protocol.REQUEST_BYTES_MAX}" in text


@pytest.mark.parametrize("body", [b"", b"\xc1", b"{}", pack({"query": "x"}), pack(FileRequest("alpha", "x"))])
async def test_an_invalid_body_is_rejected(body: bytes, indexes: list[Index]) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        status, text = await post(address, body)
    assert status == 400
    assert '"kind":"Invalid"' in text


async def test_an_invalid_query_is_a_bad_request(indexes: list[Index]) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        status, text = await post(address, pack(search_request(Regexp("(needle"))))
    assert status == 400
    assert "invalid regular expression" in text


async def test_a_wrong_method_or_path_is_reported(indexes: list[Index]) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        assert (await post(address, b"", protocol.STATUS_PATH))[0] == 405
        assert (await post(address, b"", "/v1/node/nothing"))[0] == 404


# -- disconnects -------------------------------------------------------------------------------------------------


class Endless(IndexSet):
    """Searches until it is cancelled."""

    def __init__(self, *, threads: int) -> None:
        super().__init__(threads=threads)
        self.started, self.ended = threading.Event(), threading.Event()

    def _search_inline(self, *_: object) -> None:
        """Nothing that never ends is brief."""

    def _search(
        self,
        indexes: tuple[Index, ...],
        query: Query,
        options: Options,
        is_cancelled: Callable[[], bool],
        requested_at: float | None = None,
    ) -> SearchResult:
        self.started.set()
        while not is_cancelled():
            answer = super()._search(indexes, query, options, is_cancelled)
        self.ended.set()
        return answer


async def test_a_search_ends_when_its_client_disconnects(indexes: list[Index], nodes: RemoteNodes) -> None:
    """If the server did not notice, the thread would never end."""
    index_set = Endless(threads=1)
    fixture = NodeFixture(*indexes, index_set=index_set)
    async with serve_node(fixture.node) as address:
        call = asyncio.ensure_future(nodes.at(address).search(search_request("needle", "alpha")))
        await until(index_set.started.is_set)
        call.cancel()
        await asyncio.wait([call])
        await until(index_set.ended.is_set)
        assert await fixture.quiesce("alpha", within_s=TIMEOUT_S)
        assert (await nodes.at(address).status()).node == "n1"


async def test_a_client_that_disconnects_while_sending_costs_nothing(indexes: list[Index], nodes: RemoteNodes) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        host, port = address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/node/search HTTP/1.1\r\nhost: n\r\ncontent-length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await nodes.at(address).status()).node == "n1"


# -- an index as a stream -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> Index:
    """Of some twenty megabytes: more than any buffer on the way holds."""
    lines = b"".join(b"line %d of a text that goes on and on\n" % i for i in range(45_000))
    return build_index({f"{i}.txt": b"%d\n" % i + lines for i in range(10)}, "large")


async def test_an_index_arrives_as_it_was(large: Index, nodes: RemoteNodes) -> None:
    async with serve_node(NodeFixture(large, ODD).node) as address:
        arrived = load([chunk async for chunk in nodes.at(address).index("large")])
        oddly = b"".join([chunk async for chunk in nodes.at(address).index(ODD_NAME)])
    assert verify(arrived) == []
    assert [part.segment.checksums for part in arrived.parts] == [part.segment.checksums for part in large.parts]
    assert oddly == b"".join(dump(ODD))


@pytest.mark.parametrize("name", ["a/b", "../x", "..", ".", "a b%2Fc", "ä?x#y", "/lead", "trail/"])
async def test_any_name_finds_its_index(name: str, nodes: RemoteNodes) -> None:
    index = build_index({"a": b"x"}, name)
    async with serve_node(NodeFixture(index).node) as address:
        assert load([chunk async for chunk in nodes.at(address).index(name)]).repository == index.repository


async def test_a_missing_index_is_rejected_with_a_hint(indexes: list[Index], nodes: RemoteNodes) -> None:
    async with serve_node(NodeFixture(*indexes).node) as address:
        with pytest.raises(NotOwner, match="n1 does not hold") as refused:
            await anext(nodes.at(address).index("elsewhere"))
    assert refused.value.hint == "n2:6070"


class Watched:
    """A node whose stream is watched: how much was made of it, and whether it was closed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.made_bytes = 0
        self.is_making = self.is_closed = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._node, name)

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        self.is_making = True
        try:
            async for chunk in self._node.index(repository):
                self.made_bytes += len(chunk)
                self.is_making = False
                yield chunk
                self.is_making = True
        finally:
            self.is_closed = True


async def reader_of(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that requested the large index and reads when the test does."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # or a system's own might hold it all
    reader, writer = await asyncio.open_connection(sock=connection, limit=1 << 16)
    writer.write(b"GET /v1/node/index/large HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def held_up(watched: Watched) -> None:
    """Returns when no further chunk is requested in many iterations of the loop: the last one found no room."""
    rounds = 0
    while rounds < 200:
        await asyncio.sleep(0)
        rounds = 0 if watched.is_making else rounds + 1


def joined(body: bytes) -> bytes:
    """The chunks of a chunked body, put together."""
    parts, at = [], 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + size])
        at = end + size + 4


async def test_a_slow_reader_pauses_the_stream_and_gets_all_of_it(large: Index) -> None:
    watched, whole = Watched(NodeFixture(large).node), b"".join(dump(large))
    async with serve_node(watched) as address:  # type: ignore[arg-type]
        reader, writer = await reader_of(address)
        await held_up(watched)
        assert watched.made_bytes < len(whole) / 2, "no more is made than there is room for"
        rest = await reader.read()
        writer.close()
    assert joined(rest) == whole
    assert watched.made_bytes == len(whole)
    assert watched.is_closed


async def test_a_reader_that_disconnects_ends_the_stream(large: Index) -> None:
    fixture = NodeFixture(large)
    watched = Watched(fixture.node)
    async with serve_node(watched) as address:  # type: ignore[arg-type]
        _, writer = await reader_of(address)
        writer.transport.abort()
        await until(lambda: watched.is_closed)
        assert await fixture.quiesce("large", within_s=TIMEOUT_S)
    assert watched.made_bytes < large.parts[0].segment.content.data.nbytes


async def test_a_reader_that_reads_nothing_times_out(large: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "STALL_S", 0.05)
    watched = Watched(NodeFixture(large).node)
    async with serve_node(watched) as address:  # type: ignore[arg-type]
        reader, writer = await reader_of(address)
        await until(lambda: watched.is_closed)
        assert not (await reader.read()).endswith(b"0\r\n\r\n"), "a stream that was cut must not look whole"
        writer.close()


async def test_the_response_over_http_is_one_msgpack_body(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    async with (
        serve_node(fixture.node) as address,
        aiohttp.ClientSession() as session,
        session.post(
            f"http://{address}{protocol.SEARCH_PATH}", data=pack(search_request("r:beta", "beta"))
        ) as response,
    ):
        assert response.headers["content-type"] == "application/msgpack"
        answer = unpack(await response.read(), SearchResult)
    assert plain(answer) == plain(await fixture.node.search(search_request("r:beta", "beta")))
