"""A find is answered in the connection byte for byte as by ASGI, and only if it is a plain one."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.ipni.formats import cid, metadata, multihash, privacy
from argosy.ipni.formats.bases import base58
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import results
from argosy.ipni.web.app import indexer_app
from argosy.ipni.web.find_fast_path import FIND_SECONDS, RESULTS_MAX
from tests.ipni.web.builders import CONTENT, A, B, result
from tests.ipni.web.double import IndexerDouble
from tests.ipni.web.wire import HOST, WITHIN_S, ServedApp, served, until

HIT, MISS = f"/multihash/{base58(CONTENT)}", f"/multihash/{base58(multihash.of(b'nobody has this'))}"
CID = f"/cid/{cid.of(b'content-0')}"
SECOND = base58(privacy.second_hash(CONTENT))
END = b"GET /health HTTP/1.1\r\nhost: end\r\nconnection: close\r\n\r\n"


def request_bytes_of(
    path: str = HIT, *headers: str, method: str = "GET", version: str = "1.1", body: str = ""
) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "host: here", *headers, "", body]).encode("latin-1")


@dataclass
class BothServers:
    """The same indexer's HTTP APIs on two ports, each with its own metrics."""

    connection: ServedApp
    asgi: ServedApp
    connection_metrics: Metrics
    asgi_metrics: Metrics

    async def send_all(self, *packets: bytes, in_turn: bool = False) -> bytes:
        """The answer of both, which must be equal."""
        send_all = await self.connection.send_all(packets, in_turn=in_turn)
        assert send_all == await self.asgi.send_all(packets, in_turn=in_turn)
        return send_all

    @property
    def by_asgi(self) -> list[str]:
        """Requests at the port with finds in the connection that ASGI handled nevertheless."""
        return [each for each in self.connection.by_asgi if each != "GET /health"]

    def counted(self) -> list[tuple[float, float]]:
        """By surface and outcome: finds measured in the connection, and on ASGI."""
        kinds = [(surface, found) for surface in ("find", "encrypted") for found in ("yes", "no")]
        return [
            (
                self.connection_metrics.value(FIND_SECONDS, surface=surface, found=found),
                self.asgi_metrics.value(FIND_SECONDS, surface=surface, found=found),
            )
            for surface, found in kinds
        ]


@pytest.fixture
async def both(indexer: IndexerDouble) -> AsyncIterator[BothServers]:
    indexer.results[CONTENT] = (result(A, b"ctx-1"), result(B, b"ctx-2", metadata.http(), "/dns4/b.org/tcp/443/https"))
    indexer.known = {A: Provider(A)}
    stats = Metrics(), Metrics()
    apps = [indexer_app(indexer, clock=SystemClock(), metrics=each) for each in stats]
    async with served(apps[0], in_connection=True) as connection, served(apps[1], in_connection=False) as asgi:
        yield BothServers(connection, asgi, *stats)


PLAIN = {
    "by multihash in base58": request_bytes_of(HIT),
    "by multihash in hexadecimal": request_bytes_of(f"/multihash/{CONTENT.hex()}"),
    "by cid": request_bytes_of(CID),
    "by second hash": request_bytes_of(f"/multihash/{SECOND}"),
    "unknown content": request_bytes_of(MISS),
    "no multihash": request_bytes_of("/multihash/0"),
    "no cid": request_bytes_of("/cid/nonsense"),
    "a long name": request_bytes_of("/multihash/" + "9" * 5000),
    "accept anything": request_bytes_of(HIT, "accept: */*"),
    "accept both": request_bytes_of(HIT, "accept: */*", "accept: application/json"),
    "accept json": request_bytes_of(HIT, "Accept: application/json", "user-agent: one", "x-forwarded-for: 192.0.2.1"),
}
NORMAL = {
    "lines": request_bytes_of(HIT, "accept: application/x-ndjson"),
    "html": request_bytes_of(HIT, "accept: text/html"),
    "gibberish accepted": request_bytes_of(HIT, "accept: gibberish"),
    "nothing accepted": request_bytes_of(HIT, "accept:"),
    "two accepted": request_bytes_of(HIT, "accept: */*", "accept: application/x-ndjson"),
    "a list accepted": request_bytes_of(HIT, "accept: application/json, application/x-ndjson"),
    "a query": request_bytes_of(HIT + "?cascade=legacy"),
    "a query without name": request_bytes_of("/multihash/?cascade=legacy"),
    "an escape": request_bytes_of("/cid/%20" + CID.removeprefix("/cid/")),
    "a deeper path": request_bytes_of(HIT + "/deeper"),
    "no name": request_bytes_of("/multihash/"),
    "another host's": request_bytes_of("http://there" + HIT),
    "by second hashes only": request_bytes_of(f"/encrypted/multihash/{SECOND}"),
    "head": request_bytes_of(HIT, method="HEAD"),
    "options": request_bytes_of(HIT, method="OPTIONS"),
    "post": request_bytes_of(HIT, "content-length: 2", method="POST", body="{}"),
    "a body": request_bytes_of(HIT, "content-length: 4", body="body"),
    "an empty body": request_bytes_of(HIT, "content-length: 0"),
    "a body in chunks": request_bytes_of(HIT, "transfer-encoding: chunked", body="4\r\nbody\r\n0\r\n\r\n"),
    "a body after a word": request_bytes_of(HIT, "expect: 100-continue", "content-length: 4", body="body"),
    "a word waited for": request_bytes_of(HIT, "expect: 100-continue"),
    "another protocol": request_bytes_of(HIT, "connection: upgrade", "upgrade: h2c"),
    "an upgrade named only": request_bytes_of(HIT, "upgrade: h2c"),
    "another surface": request_bytes_of("/providers"),
    "nowhere": request_bytes_of("/nowhere"),
}
CLOSING = {
    "close": request_bytes_of(HIT, "connection: close"),
    "old": request_bytes_of(HIT, version="1.0"),
    "old but staying": request_bytes_of(HIT, "connection: keep-alive", version="1.0"),
}
BROKEN = {
    "no http": b"hello\r\n\r\n",
    "a header without colon": b"GET " + HIT.encode() + b" HTTP/1.1\r\nnonsense\r\n\r\n",
    "two lengths": request_bytes_of(HIT, "content-length: 1", "content-length: 2"),
    "a path that is not text": b"GET /cid/\xff\xfe HTTP/1.1\r\nhost: here\r\n\r\n",
    "lines that end too soon": request_bytes_of(HIT).replace(b"\r\n", b"\n"),
}


@pytest.mark.parametrize("request_bytes", PLAIN.values(), ids=PLAIN)
async def test_a_plain_find_gets_the_same_answer_as_by_asgi(both: BothServers, request_bytes: bytes) -> None:
    send_all = await both.send_all(request_bytes, END)
    assert send_all.count(b"HTTP/1.1 ") == 2
    assert both.by_asgi == []
    assert all(in_connection == on_asgi for in_connection, on_asgi in both.counted())


@pytest.mark.parametrize("request_bytes", NORMAL.values(), ids=NORMAL)
async def test_other_requests_are_handled_by_asgi(both: BothServers, request_bytes: bytes) -> None:
    assert (await both.send_all(request_bytes, END)).startswith(b"HTTP/1.1 ")
    assert len(both.by_asgi) == 1
    assert both.by_asgi == [each for each in both.asgi.by_asgi if each != "GET /health"]


@pytest.mark.parametrize("request_bytes", CLOSING.values(), ids=CLOSING)
async def test_a_request_without_keep_alive_is_answered_and_closed(both: BothServers, request_bytes: bytes) -> None:
    assert b'"MultihashResults"' in await both.send_all(request_bytes)
    assert both.by_asgi == [f"GET {HIT}"]


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN)
async def test_an_invalid_find_is_rejected_as_by_asgi(both: BothServers, request_bytes: bytes) -> None:
    assert (await both.send_all(request_bytes)).startswith(b"HTTP/1.1 400 ")
    assert (await both.send_all(request_bytes_of(), request_bytes, in_turn=True)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN)
async def test_a_find_is_answered_with_anything_pipelined_after_it(both: BothServers, request_bytes: bytes) -> None:
    """By ASGI it would not be: the server rejects the second before it has started with the first."""
    send_all = await both.connection.send_all([request_bytes_of() + request_bytes])
    assert [int(each[:3]) for each in send_all.split(b"HTTP/1.1 ")[1:]] == [200, 400]


async def test_a_connection_stays_for_finds_of_both_kinds(both: BothServers) -> None:
    kinds = [
        request_bytes_of(HIT),
        request_bytes_of(HIT, "accept: application/x-ndjson"),
        request_bytes_of(MISS),
        request_bytes_of("/health"),
        request_bytes_of(CID),
        request_bytes_of("/cid/0"),
    ]
    send_all = await both.send_all(*kinds, *kinds, END, in_turn=True)
    assert send_all.count(b"HTTP/1.1 200 OK") == 9
    assert both.by_asgi == ["GET " + HIT] * 2, "lines"
    assert both.counted() == [(6, 6), (2, 2), (0, 0), (0, 0)]


async def test_a_request_may_come_in_any_pieces(both: BothServers) -> None:
    whole = request_bytes_of(HIT, "accept: application/json") + request_bytes_of(CID)
    letters = [whole[at : at + 1] for at in range(len(whole))]
    send_all = await both.send_all(*letters, END)
    assert send_all.count(b'"MultihashResults"') == 2
    assert both.by_asgi == []


async def test_pipelined_finds_are_answered_in_order_and_the_first_at_once(both: BothServers) -> None:
    paths = [HIT, MISS, "/cid/0", CID, MISS]
    send_all = await both.send_all(b"".join(map(request_bytes_of, paths)) + END)
    answers = [int(each[:3]) for each in send_all.split(b"HTTP/1.1 ")[1:]]
    assert answers == [200, 404, 400, 200, 404, 200]
    assert both.by_asgi == [f"GET {path}" for path in paths[1:]], "other tasks run in between"


async def test_a_find_pipelined_after_a_long_answer_waits_for_it(both: BothServers, indexer: IndexerDouble) -> None:
    indexer.known = {f"peer-{number}": Provider(f"peer-{number}") for number in range(1000)}
    send_all = await both.send_all(request_bytes_of("/providers"), request_bytes_of(HIT), request_bytes_of(MISS), END)
    assert send_all.index(b"peer-999") < send_all.index(b'"MultihashResults"') < send_all.index(b"no results")


async def test_a_truncated_answer_reports_it(both: BothServers, indexer: IndexerDouble) -> None:
    indexer.results[CONTENT] = (result(),) * (RESULTS_MAX + 1)
    assert b"\r\nx-argosy-truncated: %d\r\n" % (RESULTS_MAX + 1) in await both.send_all(request_bytes_of(), END)
    assert both.by_asgi == []


async def test_a_find_that_waits_is_handled_by_asgi_and_counts_once(
    both: BothServers, indexer: IndexerDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        await asyncio.sleep(0)
        return [indexer.results.get(each, ()) for each in multihashes]

    monkeypatch.setattr(indexer, "find", slow)
    assert b'"MultihashResults"' in await both.send_all(request_bytes_of(HIT), request_bytes_of(MISS), END)
    assert both.by_asgi == [f"GET {HIT}", f"GET {MISS}"]
    assert both.counted()[:2] == [(1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("error", "ends", "status"), [(Unavailable("no store"), [END], 503), (RuntimeError("a bug"), [], 500)]
)
async def test_a_failing_find_is_reported_as_by_asgi(
    both: BothServers,
    indexer: IndexerDouble,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    ends: list[bytes],
    status: int,
) -> None:
    async def failing(_: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        raise error

    monkeypatch.setattr(indexer, "find", failing)
    assert (await both.send_all(request_bytes_of(), *ends)).startswith(b"HTTP/1.1 %d " % status)


async def test_an_idle_connection_is_closed(both: BothServers) -> None:
    async with served(both.connection.app, in_connection=True, keep_alive_s=0) as hasty:
        assert b'"MultihashResults"' in await hasty.send_all([request_bytes_of()])
    assert hasty.by_asgi == []


async def test_an_answered_connection_ends_with_the_server(both: BothServers) -> None:
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection(HOST, both.connection.port)
        writer.write(request_bytes_of(MISS))
        await reader.readuntil(b"no results for query")
        [connection] = both.connection.state.connections
        connection.shutdown()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_an_asker_who_does_not_read_fills_no_memory(both: BothServers, indexer: IndexerDouble) -> None:
    """Kernels buffer some megabytes; beyond them only one answer and uvicorn's own buffer are held."""
    indexer.results[CONTENT] = tuple(result(A, b"%d" % number) for number in range(4000))
    one_bytes = len(results.encode_json([(CONTENT, indexer.results[CONTENT])]))
    loop, paths = asyncio.get_running_loop(), 30
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.setblocking(False)
        async with asyncio.timeout(WITHIN_S):
            await loop.sock_connect(silent, (HOST, both.connection.port))
            await loop.sock_sendall(silent, request_bytes_of())
            await until(lambda: both.connection.received_bytes > 0)
            [connection] = both.connection.state.connections
            sent_bytes = len(request_bytes_of())
            for _ in range(paths - 1):
                await loop.sock_sendall(silent, request_bytes_of())
                sent_bytes += len(request_bytes_of())
                while both.connection.received_bytes < sent_bytes and not connection.flow.read_paused:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                assert connection.transport.get_write_buffer_size() < 2 * one_bytes
            assert connection.flow.write_paused
            await loop.sock_sendall(silent, END)
            received = bytearray()
            while piece := await loop.sock_recv(silent, 1 << 20):
                received += piece
                assert connection.transport.get_write_buffer_size() < 2 * one_bytes
    assert received.count(b'"MultihashResults"') == paths
    assert 0 < len(both.by_asgi) < paths
