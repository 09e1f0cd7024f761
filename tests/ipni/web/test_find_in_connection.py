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
from tests.ipni.web.double import IndexerDouble
from tests.ipni.web.making import CONTENT, A, B, result
from tests.ipni.web.wire import HOST, WITHIN_S, Served, served, until

HIT, MISS = f"/multihash/{base58(CONTENT)}", f"/multihash/{base58(multihash.of(b'nobody has this'))}"
CID = f"/cid/{cid.of(b'content-0')}"
SECOND = base58(privacy.second_hash(CONTENT))
END = b"GET /health HTTP/1.1\r\nhost: end\r\nconnection: close\r\n\r\n"


def ask(path: str = HIT, *headers: str, method: str = "GET", version: str = "1.1", body: str = "") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "host: here", *headers, "", body]).encode("latin-1")


@dataclass
class Ways:
    """The same indexer's HTTP APIs on two ports, each with its own metrics."""

    connection: Served
    asgi: Served
    connection_metrics: Metrics
    asgi_metrics: Metrics

    async def told(self, *packets: bytes, in_turn: bool = False) -> bytes:
        """The answer of both, which must be equal."""
        told = await self.connection.told(packets, in_turn=in_turn)
        assert told == await self.asgi.told(packets, in_turn=in_turn)
        return told

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
async def ways(indexer: IndexerDouble) -> AsyncIterator[Ways]:
    indexer.results[CONTENT] = (result(A, b"ctx-1"), result(B, b"ctx-2", metadata.http(), "/dns4/b.org/tcp/443/https"))
    indexer.known = {A: Provider(A)}
    stats = Metrics(), Metrics()
    apps = [indexer_app(indexer, clock=SystemClock(), metrics=each) for each in stats]
    async with served(apps[0], in_connection=True) as connection, served(apps[1], in_connection=False) as asgi:
        yield Ways(connection, asgi, *stats)


PLAIN = {
    "by multihash in base58": ask(HIT),
    "by multihash in hexadecimal": ask(f"/multihash/{CONTENT.hex()}"),
    "by cid": ask(CID),
    "by second hash": ask(f"/multihash/{SECOND}"),
    "what nobody has": ask(MISS),
    "no multihash": ask("/multihash/0"),
    "no cid": ask("/cid/nonsense"),
    "a long name": ask("/multihash/" + "9" * 5000),
    "accept anything": ask(HIT, "accept: */*"),
    "accept both": ask(HIT, "accept: */*", "accept: application/json"),
    "accept json": ask(HIT, "Accept: application/json", "user-agent: one", "x-forwarded-for: 192.0.2.1"),
}
NORMAL = {
    "lines": ask(HIT, "accept: application/x-ndjson"),
    "html": ask(HIT, "accept: text/html"),
    "gibberish accepted": ask(HIT, "accept: gibberish"),
    "nothing accepted": ask(HIT, "accept:"),
    "two accepted": ask(HIT, "accept: */*", "accept: application/x-ndjson"),
    "a list accepted": ask(HIT, "accept: application/json, application/x-ndjson"),
    "a query": ask(HIT + "?cascade=legacy"),
    "a query without name": ask("/multihash/?cascade=legacy"),
    "an escape": ask("/cid/%20" + CID.removeprefix("/cid/")),
    "a deeper path": ask(HIT + "/deeper"),
    "no name": ask("/multihash/"),
    "another host's": ask("http://there" + HIT),
    "by second hashes only": ask(f"/encrypted/multihash/{SECOND}"),
    "head": ask(HIT, method="HEAD"),
    "options": ask(HIT, method="OPTIONS"),
    "post": ask(HIT, "content-length: 2", method="POST", body="{}"),
    "a body": ask(HIT, "content-length: 4", body="body"),
    "an empty body": ask(HIT, "content-length: 0"),
    "a body in chunks": ask(HIT, "transfer-encoding: chunked", body="4\r\nbody\r\n0\r\n\r\n"),
    "a body after a word": ask(HIT, "expect: 100-continue", "content-length: 4", body="body"),
    "a word waited for": ask(HIT, "expect: 100-continue"),
    "another protocol": ask(HIT, "connection: upgrade", "upgrade: h2c"),
    "an upgrade named only": ask(HIT, "upgrade: h2c"),
    "another surface": ask("/providers"),
    "nowhere": ask("/nowhere"),
}
CLOSING = {
    "close": ask(HIT, "connection: close"),
    "old": ask(HIT, version="1.0"),
    "old but staying": ask(HIT, "connection: keep-alive", version="1.0"),
}
BROKEN = {
    "no http": b"hello\r\n\r\n",
    "a header without colon": b"GET " + HIT.encode() + b" HTTP/1.1\r\nnonsense\r\n\r\n",
    "two lengths": ask(HIT, "content-length: 1", "content-length: 2"),
    "a path that is not text": b"GET /cid/\xff\xfe HTTP/1.1\r\nhost: here\r\n\r\n",
    "lines that end too soon": ask(HIT).replace(b"\r\n", b"\n"),
}


@pytest.mark.parametrize("request_bytes", PLAIN.values(), ids=PLAIN)
async def test_a_plain_find_gets_the_same_answer_as_by_asgi(ways: Ways, request_bytes: bytes) -> None:
    told = await ways.told(request_bytes, END)
    assert told.count(b"HTTP/1.1 ") == 2
    assert ways.by_asgi == []
    assert all(in_connection == on_asgi for in_connection, on_asgi in ways.counted())


@pytest.mark.parametrize("request_bytes", NORMAL.values(), ids=NORMAL)
async def test_other_requests_are_handled_by_asgi(ways: Ways, request_bytes: bytes) -> None:
    assert (await ways.told(request_bytes, END)).startswith(b"HTTP/1.1 ")
    assert len(ways.by_asgi) == 1
    assert ways.by_asgi == [each for each in ways.asgi.by_asgi if each != "GET /health"]


@pytest.mark.parametrize("request_bytes", CLOSING.values(), ids=CLOSING)
async def test_a_request_without_keep_alive_is_answered_and_closed(ways: Ways, request_bytes: bytes) -> None:
    assert b'"MultihashResults"' in await ways.told(request_bytes)
    assert ways.by_asgi == [f"GET {HIT}"]


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN)
async def test_an_invalid_find_is_rejected_as_by_asgi(ways: Ways, request_bytes: bytes) -> None:
    assert (await ways.told(request_bytes)).startswith(b"HTTP/1.1 400 ")
    assert (await ways.told(ask(), request_bytes, in_turn=True)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN)
async def test_a_find_is_answered_with_anything_pipelined_after_it(ways: Ways, request_bytes: bytes) -> None:
    """By ASGI it would not be: the server rejects the second before it has started with the first."""
    told = await ways.connection.told([ask() + request_bytes])
    assert [int(each[:3]) for each in told.split(b"HTTP/1.1 ")[1:]] == [200, 400]


async def test_a_connection_stays_for_finds_of_both_kinds(ways: Ways) -> None:
    kinds = [ask(HIT), ask(HIT, "accept: application/x-ndjson"), ask(MISS), ask("/health"), ask(CID), ask("/cid/0")]
    told = await ways.told(*kinds, *kinds, END, in_turn=True)
    assert told.count(b"HTTP/1.1 200 OK") == 9
    assert ways.by_asgi == ["GET " + HIT] * 2, "lines"
    assert ways.counted() == [(6, 6), (2, 2), (0, 0), (0, 0)]


async def test_a_request_may_come_in_any_pieces(ways: Ways) -> None:
    whole = ask(HIT, "accept: application/json") + ask(CID)
    letters = [whole[at : at + 1] for at in range(len(whole))]
    told = await ways.told(*letters, END)
    assert told.count(b'"MultihashResults"') == 2
    assert ways.by_asgi == []


async def test_pipelined_finds_are_answered_in_order_and_the_first_at_once(ways: Ways) -> None:
    asked = [HIT, MISS, "/cid/0", CID, MISS]
    told = await ways.told(b"".join(map(ask, asked)) + END)
    answers = [int(each[:3]) for each in told.split(b"HTTP/1.1 ")[1:]]
    assert answers == [200, 404, 400, 200, 404, 200]
    assert ways.by_asgi == [f"GET {path}" for path in asked[1:]], "other tasks run in between"


async def test_a_find_pipelined_after_a_long_answer_waits_for_it(ways: Ways, indexer: IndexerDouble) -> None:
    indexer.known = {f"peer-{number}": Provider(f"peer-{number}") for number in range(1000)}
    told = await ways.told(ask("/providers"), ask(HIT), ask(MISS), END)
    assert told.index(b"peer-999") < told.index(b'"MultihashResults"') < told.index(b"no results")


async def test_a_truncated_answer_reports_it(ways: Ways, indexer: IndexerDouble) -> None:
    indexer.results[CONTENT] = (result(),) * (RESULTS_MAX + 1)
    assert b"\r\nx-argosy-truncated: %d\r\n" % (RESULTS_MAX + 1) in await ways.told(ask(), END)
    assert ways.by_asgi == []


async def test_a_find_that_waits_is_handled_by_asgi_and_counts_once(
    ways: Ways, indexer: IndexerDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        await asyncio.sleep(0)
        return [indexer.results.get(each, ()) for each in multihashes]

    monkeypatch.setattr(indexer, "find", slow)
    assert b'"MultihashResults"' in await ways.told(ask(HIT), ask(MISS), END)
    assert ways.by_asgi == [f"GET {HIT}", f"GET {MISS}"]
    assert ways.counted()[:2] == [(1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("error", "ends", "status"), [(Unavailable("no store"), [END], 503), (RuntimeError("a bug"), [], 500)]
)
async def test_a_failing_find_is_reported_as_by_asgi(
    ways: Ways,
    indexer: IndexerDouble,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    ends: list[bytes],
    status: int,
) -> None:
    async def failing(_: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        raise error

    monkeypatch.setattr(indexer, "find", failing)
    assert (await ways.told(ask(), *ends)).startswith(b"HTTP/1.1 %d " % status)


async def test_an_idle_connection_is_closed(ways: Ways) -> None:
    async with served(ways.connection.app, in_connection=True, keep_alive_s=0) as hasty:
        assert b'"MultihashResults"' in await hasty.told([ask()])
    assert hasty.by_asgi == []


async def test_an_answered_connection_ends_with_the_server(ways: Ways) -> None:
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection(HOST, ways.connection.port)
        writer.write(ask(MISS))
        await reader.readuntil(b"no results for query")
        [connection] = ways.connection.state.connections
        connection.shutdown()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_an_asker_who_does_not_read_fills_no_memory(ways: Ways, indexer: IndexerDouble) -> None:
    """Kernels buffer some megabytes; beyond them only one answer and uvicorn's own buffer are held."""
    indexer.results[CONTENT] = tuple(result(A, b"%d" % number) for number in range(4000))
    one_bytes = len(results.encode_json([(CONTENT, indexer.results[CONTENT])]))
    loop, asked = asyncio.get_running_loop(), 30
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.setblocking(False)
        async with asyncio.timeout(WITHIN_S):
            await loop.sock_connect(silent, (HOST, ways.connection.port))
            await loop.sock_sendall(silent, ask())
            await until(lambda: ways.connection.heard_bytes > 0)
            [connection] = ways.connection.state.connections
            sent_bytes = len(ask())
            for _ in range(asked - 1):
                await loop.sock_sendall(silent, ask())
                sent_bytes += len(ask())
                while ways.connection.heard_bytes < sent_bytes and not connection.flow.read_paused:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                assert connection.transport.get_write_buffer_size() < 2 * one_bytes
            assert connection.flow.write_paused
            await loop.sock_sendall(silent, END)
            got = bytearray()
            while piece := await loop.sock_recv(silent, 1 << 20):
                got += piece
                assert connection.transport.get_write_buffer_size() < 2 * one_bytes
    assert got.count(b'"MultihashResults"') == asked
    assert 0 < len(ways.by_asgi) < asked
