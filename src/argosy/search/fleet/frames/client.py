"""Asking in frames: one connection to each address and lane, opened when it is needed and used by all.

Searches have a lane of their own, so that none of them waits behind a long file. A call that is called off is told to
the other side. One that is late closes the connection if nothing at all has come meanwhile: a machine that is gone
says nothing, and who asks next must not wait for it. What the kernel can notice of that it notices (PEER_GONE_S).

A question on an open connection needs no task: it is a future that ends when its answer comes, see `Reply`.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar, cast

from argosy.base.errors import Invalid
from argosy.search.fleet.frames import wire
from argosy.search.fleet.frames.wire import Frame, Parser, encode_frame

PEER_GONE_S = 10  # what was sent and not even received after so long never will be
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": PEER_GONE_S * 1000}

SOON_S = 0.001  # a timer may go off that much early: event loops count milliseconds

Address = tuple[str, int]
T = TypeVar("T")


class Closed(OSError):
    """The connection ended before the answer: nothing is known of the question."""


class NotWelcome(Exception):
    """The other side would not have the connection; status 0: it is none of ours."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the connection was answered with {status}" if status else "this is no answer")
        self.status = status


class FrameConnections:
    """Connections by address and lane. Belongs to the event loop it is first used in."""

    def __init__(self, headers: Mapping[str, str], *, answer_bytes_max: int, connect_s: float) -> None:
        """`headers` are sent with each connection's greeting."""
        self._headers = headers
        self._answer_bytes_max = answer_bytes_max
        self._connect_s = connect_s
        self._open: dict[tuple[Address, str], FrameConnection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Task[FrameConnection]] = {}

    async def ask(self, address: Address, lane: str, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        """TimeoutError if there is no answer in time, OSError if nobody is there, Closed if they went away."""
        line = self._open.get((address, lane))
        if line is None:
            line = await self._opened(address, lane)
        return await line.ask(kind, body, trace, within_s)

    def idle(self, address: Address, lane: str) -> "FrameConnection | None":
        """A connection that takes a question without being waited for, if there is one."""
        line = self._open.get((address, lane))
        return line if line is not None and line.has_room() else None

    def count(self) -> int:
        """Connections that are open."""
        return len(self._open)

    async def close(self) -> None:
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for line in list(self._open.values()):
            line.close()

    async def _opened(self, address: Address, lane: str) -> "FrameConnection":
        """Whoever asks while the connection is being made waits for the same one."""
        key = address, lane
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.ensure_future(self._made(address, lane))
            opening.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(opening)

    def _forget(self, key: tuple[Address, str], opening: "asyncio.Task[FrameConnection]") -> None:
        del self._opening[key]
        if not opening.cancelled():
            opening.exception()  # seen, also when nobody waits for it any more

    async def _made(self, address: Address, lane: str) -> "FrameConnection":
        loop = asyncio.get_running_loop()
        line = FrameConnection(loop, self._answer_bytes_max, lambda line: self._lost((address, lane), line))
        try:
            async with asyncio.timeout(self._connect_s):
                await loop.create_connection(lambda: line, *address)
                await line.greet(_host(address), self._headers)
        except TimeoutError:
            line.close()
            raise OSError(f"no connection within {self._connect_s:g} s") from None
        except BaseException:
            line.close()
            raise
        self._open[address, lane] = line
        return line

    def _lost(self, key: tuple[Address, str], line: "FrameConnection") -> None:
        if self._open.get(key) is line:
            del self._open[key]


def _host(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Reply(asyncio.Future[T]):
    """What will be answered to one question. Cancelling it calls the question off."""

    __slots__ = ("call", "due_at", "heard", "line")

    call: int
    due_at: float  # by the loop's clock
    heard: int  # what had come on the connection when it was asked
    line: "FrameConnection"

    def take(self, frame: Frame) -> None:
        """The answer has come, and nobody has called it off."""
        raise AssertionError(frame)

    def fail(self, error: Exception) -> None:
        """None will come."""
        self.set_exception(error)

    def cancel(self, msg: object = None) -> bool:
        if not super().cancel(msg):
            return False
        self.line.call_off(self.call)
        return True


class _Said(Reply[Frame]):
    """The answer as it was sent."""

    __slots__ = ()

    def take(self, frame: Frame) -> None:
        self.set_result(frame)


class FrameConnection(asyncio.Protocol):
    """One connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, answer_bytes_max: int, gone: Callable[["FrameConnection"], None]
    ) -> None:
        self._loop = loop
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._greeting = b""
        self._welcome: asyncio.Future[None] = loop.create_future()
        self._parser = Parser(answer_bytes_max)
        self._calls: dict[int, Reply[Any]] = {}
        self._next_call = 0
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = inf  # when the timer goes off
        self._heard = 0  # pieces of data so far
        self._room: asyncio.Future[None] | None = None

    async def greet(self, host: str, headers: Mapping[str, str]) -> None:
        """NotWelcome if the other side does not speak in frames with us."""
        if self._transport is not None:
            self._transport.write(wire.upgrade_request(host, headers))
        await self._welcome

    async def ask(self, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        while self._room is not None:
            async with asyncio.timeout(within_s):
                await asyncio.shield(self._room)
        if not self.has_room():
            raise Closed("the connection was closed")
        reply = _Said(loop=self._loop)
        self.begin(reply, kind, body, trace, within_s)
        return await reply

    def has_room(self) -> bool:
        transport = self._transport
        return self._room is None and transport is not None and not transport.is_closing()

    def begin(self, reply: Reply[Any], kind: int, body: bytes, trace: bytes, within_s: float) -> None:
        """Asks, of a connection that has room; the reply is given what becomes of it."""
        assert self._transport is not None
        call = reply.call = self._next_call
        self._next_call = (call + 1) % wire.CALLS_MAX
        reply.line, reply.heard = self, self._heard
        due_at = reply.due_at = self._loop.time() + within_s
        self._calls[call] = reply
        # A timer that goes off too soon only looks again: one for every question would cost more.
        if due_at < self._looks_at:
            self._look_at(due_at)
        self._transport.write(encode_frame(call, kind, body, trace))

    def call_off(self, call: int) -> None:
        """Nobody waits for it any more."""
        transport = self._transport
        if self._calls.pop(call, None) is not None and transport is not None and not transport.is_closing():
            transport.write(encode_frame(call, wire.CANCEL))

    def _look_at(self, due_at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = due_at
        self._timer = self._loop.call_at(due_at, self._look)

    def _look(self) -> None:
        """Gives up what is late."""
        self._timer, self._looks_at = None, inf
        now = self._loop.time() + SOON_S
        late = [reply for reply in self._calls.values() if reply.due_at <= now]
        is_silent = any(reply.heard == self._heard for reply in late)
        if is_silent:
            self.close()  # its end is told to those who are not late
        for reply in late:
            self.call_off(reply.call)
            reply.fail(TimeoutError())
        if self._calls and not is_silent:
            self._look_at(min(reply.due_at for reply in self._calls.values()))

    def close(self) -> None:
        """At once; nobody is given this connection any more."""
        self._gone(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._looks_at = None, inf
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        _keep_alive(self._transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._heard += 1
        try:
            if not self._welcome.done():
                data = self._welcomed(data)
            for frame in self._parser.feed(data) if data else ():
                reply = self._calls.pop(frame.call, None)
                if reply is not None:
                    reply.take(frame)
        except Invalid as error:
            self._fail(OSError(f"what comes back is no answer: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gone(self)
        self.resume_writing()
        self._fail(Closed("the connection was closed before there was an answer"))

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _welcomed(self, data: bytes) -> bytes:
        """What comes after the welcome, if that is what this is."""
        self._greeting += data
        said = wire.parse_head(self._greeting)
        if said is None:
            return b""
        if said.status != 101 or not said.has_upgrade:
            self._fail(NotWelcome(said.status))
            return b""
        self._welcome.set_result(None)
        self._greeting = b""
        return said.rest

    def _fail(self, error: Exception) -> None:
        if not self._welcome.done():
            self._welcome.set_exception(error)
        calls, self._calls = self._calls, {}
        for reply in calls.values():
            reply.fail(error)
        self.close()


def _keep_alive(connection: socket.socket) -> None:
    """The kernel finds out when the other machine is gone. Not every system has all of these."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
