"""An HTTP/1.1 client with keep-alive connections and streamed responses.

It has only what a find needs: no redirects, no compression, no cookies. Every find costs as many requests as there are
indexers, and a general client costs several times as much CPU per request (decision 0028). A reader that does not keep
up pauses the connection. A response abandoned before its end closes its connection, which stops the server's work.
"""

import asyncio
import ssl
from collections import deque
from typing import Self, cast

import httptools

REUSE_S_MAX = 4.0  # less than the 5 s after which uvicorn closes idle connections
# Idle connections per host; a burst of more finds than that opens connections and closes them again.
IDLE_MAX = 64
HELD_BYTES_MAX = 256 * 1024  # of a response not yet consumed; above this, reading pauses
# More than servers send; a head without an end must not fill the memory.
HEAD_BYTES_MAX = 32 * 1024

Address = tuple[str, int, bool]  # host, port, and whether to use TLS


class ConnectionClosed(OSError):
    """The connection closed before a response; whether the request was processed is unknown."""


class MalformedResponse(OSError):
    """The response is malformed or truncated."""


class ResponseTooLong(Exception):
    """The response exceeds the size limit."""


class Http1Client:
    """A pool of connections by host. Bound to the event loop of first use; call `close`."""

    def __init__(self, *, connect_s: float) -> None:
        self._connect_s = connect_s
        self._idle: dict[Address, list[_Http1Connection]] = {}
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False

    async def send(self, address: Address, request: bytes) -> "Http1Response":
        """The response, when its head has arrived; raises OSError if the server is unreachable. Use it as a context."""
        connection = self._pop_idle(address)
        if connection is not None:
            try:
                await connection.send(request)
                return Http1Response(self, address, connection)
            except ConnectionClosed:
                # The server closed the idle connection while the request was on its way. Requests here only read, so
                # it is safe to send it again; a fresh connection that closes is an error.
                pass
        connection = await self._connect(address)
        await connection.send(request)
        return Http1Response(self, address, connection)

    def idle(self, address: Address) -> int:
        """The number of idle connections."""
        return sum(connection.is_open for connection in self._idle.get(address, ()))

    def close(self) -> None:
        self._is_closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def release(self, address: Address, connection: "_Http1Connection") -> None:
        idle = self._idle.setdefault(address, [])
        if self._is_closed or len(idle) >= IDLE_MAX or not connection.is_open:
            connection.close()
        else:
            connection.idle_since = connection.loop.time()
            idle.append(connection)

    def _pop_idle(self, address: Address) -> "_Http1Connection | None":
        """The most recently used idle connection, because the server is least likely to have closed it."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.loop.time() - connection.idle_since < REUSE_S_MAX:
                return connection
            connection.close()
        return None

    async def _connect(self, address: Address) -> "_Http1Connection":
        host, port, is_secure = address
        loop = asyncio.get_running_loop()
        # Loading the system's certificates takes tens of milliseconds, so once, and only if an indexer uses TLS.
        if is_secure and self._tls is None:
            self._tls = ssl.create_default_context()
        async with asyncio.timeout(self._connect_s):
            _, connection = await loop.create_connection(
                lambda: _Http1Connection(loop), host, port, ssl=self._tls if is_secure else None
            )
        return connection


class Http1Response:
    """A response whose head has arrived. Leaving the context returns or closes its connection."""

    def __init__(self, client: Http1Client, address: Address, connection: "_Http1Connection") -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._client = client
        self._address = address
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection.is_complete:
            self._client.release(self._address, self._connection)
        else:
            self._connection.close()

    async def read_part(self) -> bytes:
        """The next bytes of the body; empty at the end."""
        return await self._connection.read_part()

    async def read_all(self, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := await self._connection.read_part():
            size += len(part)
            if size > bytes_max:
                raise ResponseTooLong(f"response exceeds {bytes_max} bytes")
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Http1Connection(asyncio.Protocol):
    """One connection, one exchange at a time. Callback names are asyncio's and the parser's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.idle_since = 0.0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = True
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._parts: deque[bytes] = deque()
        self._held = self._head_bytes = 0
        self._is_paused = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            # Not `close`, which would first send what is buffered, to a server whose response is no longer wanted.
            self._transport.abort()

    async def send(self, request: bytes) -> None:
        """Send a request; returns when the head of the response has arrived."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionClosed("connection closed before the response")
        self.status, self.headers, self.is_complete, self._error = 0, {}, False, None
        self._parts.clear()
        self._held = self._head_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)
        try:
            while not self.status:
                await self._wait()
        except BaseException:
            self.close()  # also on cancellation: the rest of the response must not reach the next request
            raise

    async def read_part(self) -> bytes:
        # Parts that arrived before an error are returned first; `_wait` raises the error after them.
        while not self._parts and not self.is_complete:
            await self._wait()
        if not self._parts:
            return b""
        # One part, the usual case for a find, is passed on without a copy.
        part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        if self._is_paused and self.is_open and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return part

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has the interface but not the class

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.close()  # data without a request in progress would be taken for the next response
            return
        if not self.status:
            self._head_bytes += len(data)
            # One read may contain the end of the head and up to HELD_BYTES_MAX of the body.
            if self._head_bytes > HEAD_BYTES_MAX + HELD_BYTES_MAX:
                self._fail(MalformedResponse(f"response head exceeds {HEAD_BYTES_MAX} bytes"))
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(MalformedResponse(f"not an HTTP response: {error}"))

    def eof_received(self) -> None:
        """A response without length and chunking ends with its connection."""
        if self._parser is not None and self.status and not self._is_framed():
            self.on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.is_complete:
            is_begun = bool(self.status or self._head_bytes)
            self._fail(
                MalformedResponse("connection closed in the middle of the response")
                if is_begun
                else ConnectionClosed("connection closed before the response")
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self._wake()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)
        self._held += len(data)
        if self._held > HELD_BYTES_MAX and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        parser, self._parser = self._parser, None
        self.is_complete = True
        # None after `eof_received`: a body that ends with its connection leaves none to reuse.
        if (parser is None or not parser.should_keep_alive()) and self._transport is not None:
            self._transport.close()
        self._wake()

    def _is_framed(self) -> bool:
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._wake()
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
