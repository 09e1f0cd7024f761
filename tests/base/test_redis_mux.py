"""One socket for many callers: order, cancellation, deadlines, bounds, reconnecting. The server is a scripted one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from argosy.base.backends.redis import connection as redis_connection
from argosy.base.backends.redis.connection import RedisConnection, connect
from argosy.base.backends.redis.errors import ReplyError
from argosy.base.backends.redis.mux import RedisMux, Script
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Unavailable

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def command(reader: asyncio.StreamReader) -> list[bytes]:
    """One command as a client sends it."""
    count = int((await reader.readuntil(b"\r\n"))[1:])
    args = []
    for _ in range(count):
        size = int((await reader.readuntil(b"\r\n"))[1:])
        args.append((await reader.readexactly(size + 2))[:-2])
    return args


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """A scripted server; yields the port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Returns the last argument of each command."""
    while True:
        last = (await command(reader))[-1]
        writer.write(b"$%d\r\n%s\r\n" % (len(last), last))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def wired(port: int, *, call_s: float = 5.0) -> RedisConnection:
    return await connect("test", ("127.0.0.1", port), None, connect_s=5.0, call_s=call_s)


def muxed(port: int, **given: Any) -> RedisMux:
    target = parse_redis_url(f"redis://127.0.0.1:{port}")
    return RedisMux(target, clock=SystemClock(), random=seeded_random(1), **given)


async def test_replies_go_to_their_callers_in_order() -> None:
    async with serving(echo) as port:
        wire = await wired(port)
        replies = await asyncio.gather(*(wire.send("ECHO", str(n)) for n in range(500)))
        assert replies == [str(n).encode() for n in range(500)]
        wire.abort("done")


async def test_requests_of_one_turn_are_written_together() -> None:
    reads: list[bytes] = []

    async def gathering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reads.append(await reader.read(1 << 20))
        writer.write(b"+OK\r\n" * 50)
        await reader.read()

    async with serving(gathering) as port:
        wire = await wired(port)
        await asyncio.gather(*(wire.send("PING") for _ in range(50)))
        assert [read.count(b"PING") for read in reads] == [50]
        wire.abort("done")


async def test_a_cancelled_caller_does_not_shift_the_replies_of_others() -> None:
    is_open = asyncio.Event()

    async def reply_after_three(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands_seen = [await command(reader) for _ in range(3)]
        await is_open.wait()
        for args in commands_seen:
            writer.write(b"$1\r\n%s\r\n" % args[-1])
        await reader.read()

    async with serving(reply_after_three) as port:
        wire = await wired(port)
        first, second, third = (asyncio.ensure_future(wire.send("ECHO", letter)) for letter in "abc")
        await asyncio.sleep(0)
        second.cancel()
        is_open.set()
        assert [await first, await third] == [b"a", b"c"]
        assert second.cancelled()
        wire.abort("done")


async def test_an_overdue_answer_fails_the_connection_and_all_waiting_callers() -> None:
    async with serving(silent) as port:
        wire = await wired(port, call_s=0.05)
        outcomes = await asyncio.gather(wire.send("GET", "a"), wire.send("GET", "b"), return_exceptions=True)
        assert [type(each) for each in outcomes] == [Unavailable, Unavailable]
        assert "no answer within 0.05 s" in str(outcomes[0])
        assert "may or may not have taken effect" in str(outcomes[0])
        assert not wire.is_alive
        with pytest.raises(Unavailable) as refused:
            await wire.send("GET", "c")
        assert "may or may not" not in str(refused.value)


async def test_a_lost_connection_fails_calls_in_flight() -> None:
    async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await command(reader)

    async with serving(hanging_up) as port:
        wire = await wired(port)
        with pytest.raises(Unavailable, match="may or may not have taken effect"):
            await wire.send("INCR", "x")


async def test_callers_past_the_bound_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_connection, "IN_FLIGHT_MAX", 4)
    most = 0
    async with serving(echo) as port:
        mux = muxed(port)
        wire = await mux.connection()

        async def call(n: int) -> bytes:
            nonlocal most
            reply: bytes = await mux.call("ECHO", str(n))
            most = max(most, len(wire._waiting))
            return reply

        replies = await asyncio.gather(*(call(n) for n in range(100)))
        assert sorted(map(int, replies)) == list(range(100))
        assert most <= 4
        await mux.close()


async def test_a_caller_waiting_too_long_for_room_gets_an_error_that_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_connection, "IN_FLIGHT_MAX", 1)
    async with serving(silent) as port:
        wire = await wired(port, call_s=0.05)
        sent = asyncio.ensure_future(wire.send("GET", "a"))
        sent.add_done_callback(lambda future: future.exception())
        wire._timeout_s = 0.01
        with pytest.raises(Unavailable, match="1 requests are in flight") as refused:
            await wire.wait_capacity()
        assert "may or may not" not in str(refused.value)
        wire.abort("done")


async def test_a_server_that_is_not_redis_is_reported() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with serving(web) as port:
        wire = await wired(port)
        with pytest.raises(Unavailable, match="does not speak the protocol of Redis"):
            await wire.send("PING")


async def test_an_error_reply_is_raised_with_the_servers_text() -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await command(reader)
        writer.write(b"-WRONGTYPE of key\r\n")
        await reader.read()

    async with serving(refusing) as port:
        wire = await wired(port)
        with pytest.raises(ReplyError) as refused:
            await wire.send("GET", "x")
        assert refused.value.code == "WRONGTYPE"
        wire.abort("done")


# -- reconnecting -----------------------------------------------------------------------------------------------------


async def test_a_lost_connection_is_reopened_and_callers_share_the_attempt() -> None:
    connections = 0

    async def close_after_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        while True:
            args = await command(reader)
            if args[-1] == b"break" and number == 1:
                return
            writer.write(b"+OK\r\n")

    async with serving(close_after_first) as port:
        mux = muxed(port)
        with pytest.raises(Unavailable):
            await mux.call("SET", "break")
        assert await asyncio.gather(*(mux.call("PING") for _ in range(20))) == [b"OK"] * 20
        assert connections == 2
        await mux.close()


async def test_a_cancelled_caller_does_not_cancel_the_shared_attempt() -> None:
    is_open = asyncio.Event()

    async def slow_to_greet(wire: RedisConnection) -> None:
        await is_open.wait()

    async with serving(echo) as port:
        mux = muxed(port, on_connect=slow_to_greet)
        first, second = asyncio.ensure_future(mux.call("ECHO", "a")), asyncio.ensure_future(mux.call("ECHO", "b"))
        await asyncio.sleep(0)
        first.cancel()
        is_open.set()
        assert await second == b"b"
        assert first.cancelled()
        await mux.close()


async def test_a_closed_client_raises() -> None:
    async with serving(echo) as port:
        mux = muxed(port)
        await mux.call("ECHO", "a")
        sibling = mux.sibling(call_timeout_s=1.0)
        await sibling.call("ECHO", "b")
        await mux.close()
        for closed in (mux, sibling):
            with pytest.raises(Unavailable, match="has been closed"):
                await closed.call("ECHO", "a")


async def test_a_script_the_server_forgot_is_loaded_and_run_once() -> None:
    seen: list[bytes] = []

    async def lose_scripts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            args = await command(reader)
            seen.append(args[0])
            is_unknown = args[0] == b"EVALSHA" and b"SCRIPT" not in seen
            writer.write(b"-NOSCRIPT No matching script\r\n" if is_unknown else b"+OK\r\n")

    async with serving(lose_scripts) as port:
        mux = muxed(port)
        assert await mux.script(Script("x", "return 1"), ("k",), ("a",)) == b"OK"
        assert seen == [b"CLIENT", b"EVALSHA", b"SCRIPT", b"EVALSHA"]
        await mux.close()


async def test_a_moved_reply_is_followed_to_the_named_node() -> None:
    async with serving(echo) as right:

        async def wrong_node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                is_key = (await command(reader))[0] == b"ECHO"
                writer.write(b"-MOVED 42 127.0.0.1:%d\r\n" % right if is_key else b"+OK\r\n")

        async with serving(wrong_node) as wrong:
            mux = muxed(wrong)
            assert await mux.call("ECHO", "found") == b"found"
            await mux.close()

            async def greet(wire: RedisConnection) -> None:
                await wire.send("ECHO", "hello")

            greeted = muxed(wrong, on_connect=greet)
            assert await greeted.call("ECHO", "found") == b"found"
            await greeted.close()


async def test_sentinels_are_queried_for_the_primary_and_again_after_it_became_a_replica() -> None:
    commands_seen = 0

    async def demoted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            is_write = (await command(reader))[0] == b"ECHO"
            writer.write(b"-READONLY You can't write against a read only replica.\r\n" if is_write else b"+OK\r\n")

    async with serving(echo) as new, serving(demoted) as old:

        async def sentinel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal commands_seen
            assert await command(reader) == [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", b"main"]
            commands_seen += 1
            port = b"%d" % (old if commands_seen == 1 else new)
            writer.write(b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n" % (len(port), port))
            await reader.read()

        async with serving(silent) as mute, serving(sentinel) as answering:
            del mute
            target = parse_redis_url(f"redis+sentinel://127.0.0.1:1,127.0.0.1:{answering}/main")
            mux = RedisMux(target, clock=SystemClock(), random=seeded_random(1))
            assert await mux.call("ECHO", "written") == b"written"
            assert commands_seen == 2
            await mux.close()


async def test_sentinels_without_a_primary_are_named() -> None:
    async def without_primary(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await command(reader)
        writer.write(b"*-1\r\n")
        await reader.read()

    async with serving(without_primary) as port:
        target = parse_redis_url(f"redis+sentinel://127.0.0.1:{port}/absent")
        mux = RedisMux(target, clock=SystemClock(), random=seeded_random(1))
        with pytest.raises(Unavailable, match="knows no service 'absent'"):
            await mux.connection()
        await mux.close()
