"""Asking in frames: one connection to each address and lane, opened when it is needed and used by all.

Searches have a lane of their own, so that none of them waits behind a long file. A call that is called off is told to
the other side. One that is late closes the connection if nothing at all has come meanwhile: a machine that is gone
says nothing, and who asks next must not wait for it. What the kernel can notice of that it notices (PEER_GONE_S).
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import cast

from argosy.base.errors import Invalid
from argosy.search.fleet.frames import wire
from argosy.search.fleet.frames.wire import Frame, Parser, framed

PEER_GONE_S = 10                        # what was sent and not even received after so long never will be
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": PEER_GONE_S * 1000}

Address = tuple[str, int]


class Closed(OSError):
    """The connection ended before the answer: nothing is known of the question."""


class NotWelcome(Exception):
    """The other side would not have the connection; status 0: it is none of ours."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the connection was answered with {status}" if status else "this is no answer")
        self.status = status


class Lines:
    """Connections by address and lane. Belongs to the event loop it is first used in."""

    def __init__(self, headers: Mapping[str, str], *, answer_bytes_max: int, connect_s: float) -> None:
        """`headers` are sent with each connection's greeting."""
        self._headers = headers
        self._answer_bytes_max = answer_bytes_max
        self._connect_s = connect_s
        self._open: dict[tuple[Address, str], _Line] = {}
        self._opening: dict[tuple[Address, str], asyncio.Task[_Line]] = {}

    async def ask(self, address: Address, lane: str, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        """TimeoutError if there is no answer in time, OSError if nobody is there, Closed if they went away."""
        line = self._open.get((address, lane))
        if line is None:
            line = await self._opened(address, lane)
        return await line.ask(kind, body, trace, within_s)

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

    async def _opened(self, address: Address, lane: str) -> "_Line":
        """Whoever asks while the connection is being made waits for the same one."""
        key = address, lane
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.ensure_future(self._made(address, lane))
            opening.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(opening)

    def _forget(self, key: tuple[Address, str], opening: "asyncio.Task[_Line]") -> None:
        del self._opening[key]
        if not opening.cancelled():
            opening.exception()             # seen, also when nobody waits for it any more

    async def _made(self, address: Address, lane: str) -> "_Line":
        loop = asyncio.get_running_loop()
        line = _Line(loop, self._answer_bytes_max, lambda line: self._lost((address, lane), line))
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

    def _lost(self, key: tuple[Address, str], line: "_Line") -> None:
        if self._open.get(key) is line:
            del self._open[key]


def _host(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer_bytes_max: int, gone: Callable[["_Line"], None]) -> None:
        self._loop = loop
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._greeting = b""
        self._welcome: asyncio.Future[None] = loop.create_future()
        self._parser = Parser(answer_bytes_max)
        self._calls: dict[int, asyncio.Future[Frame]] = {}
        self._next_call = 0
        self._heard = 0                     # pieces of data so far
        self._room: asyncio.Future[None] | None = None

    async def greet(self, host: str, headers: Mapping[str, str]) -> None:
        """NotWelcome if the other side does not speak in frames with us."""
        if self._transport is not None:
            self._transport.write(wire.greeting(host, headers))
        await self._welcome

    async def ask(self, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        while self._room is not None:
            async with asyncio.timeout(within_s):
                await asyncio.shield(self._room)
        transport = self._transport
        if transport is None or transport.is_closing():
            raise Closed("the connection was closed")
        call = self._next_call
        self._next_call = (call + 1) % wire.CALLS_MAX
        answer: asyncio.Future[Frame] = self._loop.create_future()
        self._calls[call] = answer
        late = self._loop.call_later(within_s, self._late, call, self._heard)
        transport.write(framed(call, kind, body, trace))
        try:
            return await answer
        finally:
            late.cancel()
            if self._calls.pop(call, None) is not None and not transport.is_closing():
                transport.write(framed(call, wire.CALLED_OFF))

    def _late(self, call: int, heard: int) -> None:
        answer = self._calls.get(call)
        if answer is not None and not answer.done():
            answer.set_exception(TimeoutError())
            if self._heard == heard:
                self.close()

    def close(self) -> None:
        """At once; nobody is given this connection any more."""
        self._gone(self)
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)        # uvloop's is one in all but its class
        _keep_alive(self._transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._heard += 1
        try:
            if not self._welcome.done():
                data = self._welcomed(data)
            for frame in self._parser.feed(data) if data else ():
                answer = self._calls.pop(frame.call, None)
                if answer is not None and not answer.done():
                    answer.set_result(frame)
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
        said = wire.said(self._greeting)
        if said is None:
            return b""
        if said.status != 101 or not said.is_in_frames:
            self._fail(NotWelcome(said.status))
            return b""
        self._welcome.set_result(None)
        self._greeting = b""
        return said.rest

    def _fail(self, error: Exception) -> None:
        if not self._welcome.done():
            self._welcome.set_exception(error)
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(error)
        self._calls.clear()
        self.close()


def _keep_alive(connection: socket.socket) -> None:
    """The kernel finds out when the other machine is gone. Not every system has all of these."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
