"""The HTTP client: reused connections, responses read in parts, and every way to fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from argosy.gateway.content.http1_client import (
    HELD_BYTES_MAX,
    Address,
    ConnectionClosed,
    Http1Client,
    MalformedResponse,
    ResponseTooLong,
)

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Some: Thing\r\n\r\nok"


class Server(asyncio.Protocol):
    """Answers with whatever `respond` returns; None closes the connection."""

    def __init__(self, respond: Callable[[], bytes | None], connections: list["Server"]) -> None:
        self._says = respond
        self.transport: asyncio.Transport
        self.requests = 0
        connections.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.requests += 1
        response = self._says()
        if response is None:
            self.transport.close()
        else:
            self.transport.write(response)


@asynccontextmanager
async def serve(respond: Callable[[], bytes | None]) -> AsyncIterator[tuple[Http1Client, Address, list[Server]]]:
    connections: list[Server] = []
    server = await asyncio.get_running_loop().create_server(lambda: Server(respond, connections), "127.0.0.1", 0)
    client = Http1Client(connect_s=5.0)
    try:
        yield client, ("127.0.0.1", server.sockets[0].getsockname()[1], False), connections
    finally:
        client.close()
        for each in connections:
            each.transport.abort()
        server.close()
        await server.wait_closed()


async def test_a_connection_is_reused_after_its_response_was_read() -> None:
    async with serve(lambda: OK) as (client, address, connections):
        for _ in range(3):
            with await client.send(address, REQUEST) as reply:
                assert (reply.status, reply.headers["x-some"], await reply.read_all(10)) == (200, "Thing", b"ok")
        assert (len(connections), connections[0].requests, client.idle(address)) == (1, 3, 1)


async def test_a_request_on_a_closing_connection_is_retried_once() -> None:
    answers: list[bytes | None] = [OK, None, OK]
    async with serve(lambda: answers.pop(0)) as (client, address, connections):
        for _ in range(2):
            with await client.send(address, REQUEST) as reply:
                assert await reply.read_all(10) == b"ok"
        assert len(connections) == 2
    async with serve(lambda: None) as (client, address, connections):
        with pytest.raises(ConnectionClosed):
            await client.send(address, REQUEST)
        assert len(connections) == 1, "a new connection that closes at once respond enough"


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ],
)
async def test_an_invalid_response_is_an_error(response: bytes) -> None:
    async with serve(lambda: response) as (client, address, _):
        with pytest.raises(MalformedResponse):
            await client.send(address, REQUEST)
        assert client.idle(address) == 0


async def test_a_truncated_response_is_an_error() -> None:
    async with serve(lambda: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf") as (client, address, connections):
        with await client.send(address, REQUEST) as reply:
            assert await reply.read_part() == b"half"
            connections[0].transport.close()
            with pytest.raises(MalformedResponse):
                await reply.read_part()


async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    async with serve(lambda: b"HTTP/1.1 200 OK\r\n\r\nall of it") as (client, address, connections):
        with await client.send(address, REQUEST) as reply:
            assert await reply.read_part() == b"all of it"
            connections[0].transport.close()
            assert await reply.read_part() == b""
        assert client.idle(address) == 0


async def test_a_response_above_the_limit_is_not_read() -> None:
    async with serve(lambda: OK) as (client, address, _):
        with pytest.raises(ResponseTooLong), await client.send(address, REQUEST) as reply:
            await reply.read_all(1)


async def test_chunks_arrive_one_by_one_and_an_abandoned_response_closes_its_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n"
    async with serve(lambda: head) as (client, address, connections):
        with await client.send(address, REQUEST) as reply:
            assert await reply.read_part() == b"one"
            connections[0].transport.write(b"3\r\ntwo\r\n")
            assert await reply.read_part() == b"two"
        assert client.idle(address) == 0
        with await client.send(address, REQUEST) as reply:
            assert await reply.read_part() == b"one"
            connections[1].transport.write(b"0\r\n\r\n")
            assert await reply.read_part() == b""
        assert client.idle(address) == 1


async def test_a_slow_reader_pauses_the_server() -> None:
    size = 64 * HELD_BYTES_MAX
    large = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)
    async with serve(lambda: large) as (client, address, connections):
        with await client.send(address, REQUEST) as reply:
            for _ in range(200):
                await asyncio.sleep(0)
            assert connections[0].transport.get_write_buffer_size() > 0, "most of it is still on the other side"
            assert len(await reply.read_all(size)) == size


async def test_an_unreachable_server_is_an_os_error() -> None:
    async with serve(lambda: OK) as (_, address, _made):
        pass
    client = Http1Client(connect_s=5.0)
    with pytest.raises(ConnectionRefusedError):
        await client.send(address, REQUEST)
