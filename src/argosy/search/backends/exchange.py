"""One question and its answer over HTTP/1.1, on connections that stay open.

Only what nodes need of each other: a body there, a body back, nothing followed, nothing kept. A front door asks every
node for every query, and a client for all the world costs it three times as much CPU as this one.

A call that is cancelled closes its connection, by which the other side knows to stop.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import httptools


class Closed(OSError):
    """The connection ended before anything was answered: nothing is known of the question."""


class Broken(OSError):
    """What came back is no answer."""


class TooLong(Exception):
    """The answer has more bytes than were asked for."""


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Bounds:
    """How long an answer may be: one that was asked for, and one that says what is wrong."""

    answer_bytes: int
    error_bytes: int


class Exchange:
    """Connections by host and port. Belongs to the event loop it is first used in."""

    def __init__(self, *, connections_max: int, keep_s: float, connect_s: float) -> None:
        """`connections_max` to each address; one that was idle for `keep_s` is not used again."""
        self._connections_max = connections_max
        self._keep_s = keep_s
        self._connect_s = connect_s
        self._idle: dict[tuple[str, int], list[_Connection]] = {}
        self._places: dict[tuple[str, int], asyncio.Semaphore] = {}

    async def ask(
        self, address: tuple[str, int], method: str, path: str, headers: Mapping[str, str], body: bytes, bounds: Bounds
    ) -> Reply:
        """OSError if nobody is there, Closed if the connection ended under the question."""
        host, port = address
        lines = [f"{method} {path} HTTP/1.1", f"host: {f'[{host}]' if ':' in host else host}:{port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"content-length: {len(body)}", "", ""]
        places = self._places.get(address)
        if places is None:
            places = self._places[address] = asyncio.Semaphore(self._connections_max)
        async with places:
            connection = self._taken(address) or await self._opened(address)
            reply = await connection.exchange("\r\n".join(lines).encode() + body, bounds)
            if connection.is_open:
                connection.idle_since = connection.loop.time()
                self._idle.setdefault(address, []).append(connection)
            return reply

    def idle(self, address: tuple[str, int]) -> int:
        """Connections that wait for a question."""
        return sum(connection.is_open for connection in self._idle.get(address, ()))

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _taken(self, address: tuple[str, int]) -> "_Connection | None":
        """The one that was used last, if it is fresh enough. The other side ends those that are not needed."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.loop.time() - connection.idle_since < self._keep_s:
                return connection
            connection.close()
        return None

    async def _opened(self, address: tuple[str, int]) -> "_Connection":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_s):
            _, connection = await loop.create_connection(lambda: _Connection(loop), *address)
        return connection


class _Connection(asyncio.Protocol):
    """One exchange after the other. The names of the callbacks are the parser's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._reply = Reply()
        self._parts: list[bytes] = []
        self._size = self._size_max = 0
        self._bounds = Bounds(0, 0)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes, bounds: Bounds) -> Reply:
        if self._transport is None or self._transport.is_closing():
            raise Closed("the connection was closed")
        self._reply, self._parts, self._size, self._bounds = Reply(), [], 0, bounds
        self._parser = httptools.HttpResponseParser(self)
        self._waiting = self.loop.create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        except BaseException:
            self.close()                # cancelled, too: what is still to come is nobody's
            raise
        finally:
            self._waiting = self._parser = None

    # -- asyncio's ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)        # uvloop's is one in all but its class

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.close()                # nobody has asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Broken(f"this is no answer: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._reply.status or self._parts or self._reply.headers:
            self._fail(Broken("the connection ended in the middle of the answer"))
        else:
            self._fail(Closed("the connection was closed before anything was answered"))

    # -- the parser's -------------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._reply.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._reply.status = self._parser.get_status_code()
        self._size_max = self._bounds.answer_bytes if self._reply.status == 200 else self._bounds.error_bytes

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._size_max:
            self._fail(TooLong(f"more than {self._size_max} bytes"))
        else:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self._reply.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(self._reply)

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.close()
