"""The HTTP client: connections used again, servers that disconnect, trickle, send garbage or are unreachable."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.throttle.limits import wire
from argosy.throttle.limits.backends import http as client_module
from argosy.throttle.limits.backends.http import HttpLimiter
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.model import RateLimitResponse
from tests.servers.valkey import free_port
from tests.throttle.limits.stage import HOST, PATIENCE_S, HandClock, request, served_http

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Reads one complete request."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    return head + await reader.readexactly(length)


@asynccontextmanager
async def scripted_server(script: Script) -> AsyncIterator[str]:
    """A server with scripted answers."""
    talks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            talks.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, HOST, 0)
    yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    server.close()
    for task in list(talks):
        task.cancel()
    await asyncio.gather(*talks, return_exceptions=True)
    await server.wait_closed()


def answer_all(answer: bytes) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(answer)

    return script


async def test_a_connection_is_used_again() -> None:
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await answer_all(reply(wire.write_responses([RateLimitResponse(remaining=5)])))(reader, writer)

    async with scripted_server(script) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        answers = [(await client.check([request(1)]))[0].remaining for _ in range(20)]
        await client.close()
    assert answers == [5] * 20
    assert connections <= client_module.CONNECTIONS_MAX


@pytest.mark.parametrize("headers", [(), ("connection: close",)], ids=["unsaid", "said"])
async def test_a_server_that_closes_after_each_answer_is_reconnected(headers: tuple[str, ...]) -> None:
    gone = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(reply(wire.write_responses([RateLimitResponse(remaining=5)]), "200 OK", *headers))
        writer.close()
        await writer.wait_closed()
        gone.set()

    async with scripted_server(script) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        for _ in range(12):
            assert (await client.check([request(1)]))[0].remaining == 5
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
            gone.clear()
        await client.close()


async def test_an_answer_in_chunks_is_read() -> None:
    body = wire.write_responses([RateLimitResponse(remaining=5)])
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:])) + b"0\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
    async with scripted_server(answer_all(answer)) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        assert await client.check([request(1)]) == [RateLimitResponse(remaining=5)]
        await client.close()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (reply(wire.write_error(11, "too many"), "400 Bad Request"), Invalid, "rejected the batch: too many"),
        (reply(wire.write_error(14, "gone"), "503 Service Unavailable"), Unavailable, "returned 503.*gone"),
        (reply(b"<html>proxy</html>", "502 Bad Gateway"), Unavailable, "returned 502.*proxy"),
        (reply(b"<html>hello</html>"), Unavailable, "is not a Gubernator"),
        (reply(b'{"responses": [{"status": "MAYBE"}]}'), Unavailable, "is not a Gubernator"),
        (reply(b'{"responses": [{"status": 7}]}'), Unavailable, "unknown status 7"),
        (reply(b'{"responses": []}'), Unavailable, "returned 0 responses to 1 requests"),
        (b"nonsense\r\n\r\n", Unavailable, "unreachable"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", Unavailable, "the response ends 98 bytes too early"),
    ],
)
async def test_an_invalid_answer_is_reported(answer: bytes, kind: type[Exception], message: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)

    async with scripted_server(script) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        with pytest.raises(kind, match=message):
            await client.check([request(1)])
        await client.close()


async def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "REPLY_BYTES_MAX", 1000)
    async with scripted_server(answer_all(reply(b" " * 1001))) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        with pytest.raises(Unavailable, match="the response is larger than 1000 bytes"):
            await client.check([request(1)])
        await client.close()


async def test_a_silent_server_times_out() -> None:
    hung_up = asyncio.Event()

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        assert await reader.read() == b""
        hung_up.set()

    async with scripted_server(script) as url:
        client = HttpLimiter(url, call_timeout_s=0.2)
        with pytest.raises(Unavailable, match=r"timed out after 0\.2 s; the hits may or may not have been counted"):
            await client.check([request(1)])
        await asyncio.wait_for(hung_up.wait(), PATIENCE_S)
        await client.close()


async def test_closing_ends_a_call_under_way() -> None:
    waiting = asyncio.Event()

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        waiting.set()
        await reader.read()

    async with scripted_server(script) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        call = asyncio.create_task(client.check([request(1)]))
        await asyncio.wait_for(waiting.wait(), PATIENCE_S)
        await client.close()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(call, PATIENCE_S)
        with pytest.raises(Unavailable, match="is closed; open a new one"):
            await client.check([request(1)])


async def test_a_cancelled_call_is_cancelled() -> None:
    waiting = asyncio.Event()

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        waiting.set()
        await reader.read()

    async with scripted_server(script) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        call = asyncio.create_task(client.check([request(1)]))
        await asyncio.wait_for(waiting.wait(), PATIENCE_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await client.close()


async def test_an_address_without_a_listener_is_unavailable() -> None:
    client = HttpLimiter(f"http://{HOST}:{free_port()}", call_timeout_s=PATIENCE_S)
    with pytest.raises(Unavailable, match="check that it is running"):
        await client.check([request(1)])
    with pytest.raises(Unavailable, match="unreachable"):
        await client.ping()
    await client.close()


async def test_a_server_that_is_not_healthy_is_unavailable(clock: HandClock) -> None:
    class UnavailableLimiter(MemoryLimiter):
        async def ping(self) -> None:
            raise Unavailable("the store is unreachable")

    async with served_http(UnavailableLimiter(clock=clock)) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        with pytest.raises(Unavailable, match="is unhealthy: the store is unreachable"):
            await client.ping()
        await client.close()


async def test_more_callers_than_connections_wait_their_turn(clock: HandClock) -> None:
    async with served_http(MemoryLimiter(clock=clock)) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        calls = [client.check([request(1, limit=100)]) for _ in range(5 * client_module.CONNECTIONS_MAX)]
        answers = [answer.remaining for (answer,) in await asyncio.gather(*calls)]
        await client.close()
    assert sorted(answers) == list(range(60, 100))


@pytest.mark.parametrize("url", ["ftp://host", "http://", "host:1050", "http://user:hidden@host"])
def test_a_url_that_names_no_limiter_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not a limiter URL") as raised:
        HttpLimiter(url)
    assert "hidden" not in str(raised.value)
