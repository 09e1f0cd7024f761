"""The HTTP client of the load: its requests, which responses it accepts, and which connections it uses again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from argosy.bench.fleet.http_load import Address, LoadConnections, encode_post
from argosy.bench.processes import wait_until

WITHIN_S = 10.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"


class ScriptedServer:
    """Responds to each request with the next list of pieces, each sent by itself; an empty one closes the
    connection."""

    def __init__(self, answers: Sequence[Sequence[bytes]]) -> None:
        self.answers = iter(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.address: Address = ("", 0)
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        while head := await _head(reader):
            self.requests.append(head + await reader.readexactly(4))
            for piece in next(self.answers):
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Empty if the client has closed the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def serve_script(*answers: Sequence[bytes]) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = listening.sockets[0].getsockname()[:2]
    async with listening:
        yield server
        await asyncio.gather(*[task for task in server.tasks if task is not None])


@asynccontextmanager
async def open_client(response_s_max: float = 30.0) -> AsyncIterator[LoadConnections]:
    connections = LoadConnections(response_s_max=response_s_max)
    yield connections
    connections.close()


def encode_request(server: ScriptedServer) -> bytes:
    return encode_post(f"http://127.0.0.1:{server.address[1]}/v1/search", b"1234", "text/plain")[1]


def test_a_request_has_host_type_and_length() -> None:
    address, request = encode_post("http://gateway:70/v1/search", b"{}", "application/json")
    assert address == ("gateway", 70)
    assert request == (
        b"POST /v1/search HTTP/1.1\r\nhost: gateway:70\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )


async def test_a_connection_is_used_for_one_request_after_the_other() -> None:
    async with serve_script([ANSWER], [ANSWER]) as server, open_client() as connections:
        assert [await connections.post(server.address, encode_request(server)) for _ in range(2)] == [
            (200, b"body")
        ] * 2
        assert server.requests == [encode_request(server)] * 2
        assert server.connections == 1


async def test_concurrent_requests_have_a_connection_each() -> None:
    async with serve_script([ANSWER], [ANSWER]) as server, open_client() as connections:
        await asyncio.gather(*(connections.post(server.address, encode_request(server)) for _ in range(2)))
        assert server.connections == 2


async def test_a_response_in_pieces_is_joined() -> None:
    pieces = [ANSWER[i : i + 1] for i in range(len(ANSWER))]
    async with (
        serve_script(pieces, [b"HTTP/1.1 503 No\r\ncontent-length:0\r\n\r\n"]) as server,
        open_client() as connections,
    ):
        assert await connections.post(server.address, encode_request(server)) == (200, b"body")
        assert await connections.post(server.address, encode_request(server)) == (503, b"")


async def test_a_closed_connection_is_not_used_again() -> None:
    closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    async with serve_script([closing], [ANSWER, b""], [ANSWER]) as server, open_client() as connections:
        assert await connections.post(server.address, encode_request(server)) == (200, b"ok")
        assert await connections.post(server.address, encode_request(server)) == (200, b"body")
        assert server.connections == 2
        [idle] = connections._idle[server.address]
        await wait_until(lambda: idle.is_closed, WITHIN_S, "the connection is closed")
        assert await connections.post(server.address, encode_request(server)) == (200, b"body")
        assert server.connections == 3


@pytest.mark.parametrize("answer", [[b""], [ANSWER[:-1], b""], [b"HTTP/1.1 200 OK\r\n\r\nbody"], [b"?" + ANSWER]])
async def test_an_incomplete_response_is_an_error_and_closes_the_connection(answer: list[bytes]) -> None:
    async with serve_script(answer, [ANSWER]) as server, open_client() as connections:
        with pytest.raises(OSError, match=r"connection was closed|no content-length|no response"):
            await connections.post(server.address, encode_request(server))
        assert await connections.post(server.address, encode_request(server)) == (200, b"body")
        assert server.connections == 2


async def test_a_missing_response_times_out() -> None:
    async with serve_script([], [ANSWER]) as server, open_client(response_s_max=0.01) as connections:
        with pytest.raises(TimeoutError):
            await connections.post(server.address, encode_request(server))
        assert not connections._idle[server.address]


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with serve_script([], [ANSWER]) as server, open_client() as connections:
        posting = asyncio.ensure_future(connections.post(server.address, encode_request(server)))
        await wait_until(lambda: bool(server.requests), WITHIN_S, "the server has the request")
        posting.cancel()
        await asyncio.wait([posting])
        assert await connections.post(server.address, encode_request(server)) == (200, b"body")
        assert server.connections == 2
