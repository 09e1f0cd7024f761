"""The load's own HTTP: what it sends, what it takes for an answer, and which connections it uses again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from argosy.bench.fleet.http_load import Address, Connections, request
from argosy.bench.fleet.members import until

WITHIN_S = 10.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"


class Server:
    """Answers every request with the next of some pieces, each piece sent by itself; an empty one closes."""

    def __init__(self, answers: Sequence[Sequence[bytes]]) -> None:
        self.answers = iter(answers)
        self.heard: list[bytes] = []
        self.connections = 0
        self.address: Address = ("", 0)
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        while head := await _head(reader):
            self.heard.append(head + await reader.readexactly(4))
            for piece in next(self.answers):
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Nothing if the asker has gone."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def serving(*answers: Sequence[bytes]) -> AsyncIterator[Server]:
    server = Server(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = listening.sockets[0].getsockname()[:2]
    async with listening:
        yield server
        await asyncio.gather(*[task for task in server.tasks if task is not None])


@asynccontextmanager
async def opened(answer_s_max: float = 30.0) -> AsyncIterator[Connections]:
    connections = Connections(answer_s_max=answer_s_max)
    yield connections
    connections.close()


def sent(server: Server) -> bytes:
    return request(f"http://127.0.0.1:{server.address[1]}/v1/search", b"1234", "text/plain")[1]


def test_a_request_says_where_what_and_how_long() -> None:
    address, told = request("http://door:70/v1/search", b"{}", "application/json")
    assert address == ("door", 70)
    assert told == (
        b"POST /v1/search HTTP/1.1\r\nhost: door:70\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )


async def test_one_connection_is_used_for_one_request_after_the_other() -> None:
    async with serving([ANSWER], [ANSWER]) as server, opened() as connections:
        assert [await connections.post(server.address, sent(server)) for _ in range(2)] == [(200, b"body")] * 2
        assert server.heard == [sent(server)] * 2
        assert server.connections == 1


async def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async with serving([ANSWER], [ANSWER]) as server, opened() as connections:
        await asyncio.gather(*(connections.post(server.address, sent(server)) for _ in range(2)))
        assert server.connections == 2


async def test_an_answer_in_pieces_is_put_together() -> None:
    pieces = [ANSWER[i : i + 1] for i in range(len(ANSWER))]
    async with serving(pieces, [b"HTTP/1.1 503 No\r\ncontent-length:0\r\n\r\n"]) as server, opened() as connections:
        assert await connections.post(server.address, sent(server)) == (200, b"body")
        assert await connections.post(server.address, sent(server)) == (503, b"")


async def test_a_connection_that_was_closed_is_not_used_again() -> None:
    closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    async with serving([closing], [ANSWER, b""], [ANSWER]) as server, opened() as connections:
        assert await connections.post(server.address, sent(server)) == (200, b"ok")
        assert await connections.post(server.address, sent(server)) == (200, b"body")
        assert server.connections == 2
        [idle] = connections._idle[server.address]
        await until(lambda: idle.is_closed, WITHIN_S, "the connection is closed")
        assert await connections.post(server.address, sent(server)) == (200, b"body")
        assert server.connections == 3


@pytest.mark.parametrize("answer", [[b""], [ANSWER[:-1], b""], [b"HTTP/1.1 200 OK\r\n\r\nbody"], [b"?" + ANSWER]])
async def test_what_is_no_whole_answer_is_an_error_and_ends_the_connection(answer: list[bytes]) -> None:
    async with serving(answer, [ANSWER]) as server, opened() as connections:
        with pytest.raises(OSError, match=r"connection was closed|how long it is|no answer"):
            await connections.post(server.address, sent(server))
        assert await connections.post(server.address, sent(server)) == (200, b"body")
        assert server.connections == 2


async def test_nobody_waits_for_ever() -> None:
    async with serving([], [ANSWER]) as server, opened(answer_s_max=0.01) as connections:
        with pytest.raises(TimeoutError):
            await connections.post(server.address, sent(server))
        assert not connections._idle[server.address]


async def test_whoever_goes_away_takes_the_connection_along() -> None:
    async with serving([], [ANSWER]) as server, opened() as connections:
        asking = asyncio.ensure_future(connections.post(server.address, sent(server)))
        await until(lambda: bool(server.heard), WITHIN_S, "the server was asked")
        asking.cancel()
        await asyncio.wait([asking])
        assert await connections.post(server.address, sent(server)) == (200, b"body")
        assert server.connections == 2
