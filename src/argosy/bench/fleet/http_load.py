"""A minimal HTTP client for load: requests encoded in advance, over connections that stay open.

The load generator shares the machine with the fleet, so each microsecond spent here is missing there. Only status,
length and body of a response are read; a response without a content-length is an error.
"""

import asyncio
import re
import time
from collections import deque
from typing import cast
from urllib.parse import urlsplit

KEEP_ALIVE_S = 4.0  # less than the 5 s after which uvicorn closes an idle connection

Address = tuple[str, int]

_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close *\r\n", re.IGNORECASE)


def encode_post(url: str, body: bytes, content_type: str) -> tuple[Address, bytes]:
    """The address to connect to, and the bytes of the whole request."""
    parts = urlsplit(url)
    head = f"POST {parts.path or '/'} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: {content_type}\r\n"
    encoded = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    return (parts.hostname or "", parts.port or 80), encoded


class LoadConnections:
    """Connections by address, each with one request at a time.

    The connection used last is used next, so that only as many stay open as are needed and the others reach their
    keep-alive limit.
    """

    def __init__(self, *, response_s_max: float) -> None:
        self._response_s_max = response_s_max
        self._idle: dict[Address, deque[_LoadConnection]] = {}

    async def post(self, address: Address, request: bytes) -> tuple[int, bytes]:
        """Status and body of the response; OSError if there is none, TimeoutError if it is late."""
        idle = self._idle.setdefault(address, deque())
        connection = _pop_open(idle)
        if connection is None:
            async with asyncio.timeout(self._response_s_max):
                connection = await _connect(address)
        response = await connection.post(request, self._response_s_max)
        if not connection.is_closed:
            connection.idle_since = time.monotonic()
            idle.append(connection)
        return response

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()


async def _connect(address: Address) -> "_LoadConnection":
    _, connection = await asyncio.get_running_loop().create_connection(_LoadConnection, *address)
    return connection


def _pop_open(idle: "deque[_LoadConnection]") -> "_LoadConnection | None":
    """A connection that the server has not closed and is not about to close."""
    while idle:
        connection = idle.pop()
        if not connection.is_closed and time.monotonic() - connection.idle_since < KEEP_ALIVE_S:
            return connection
        connection.close()
    return None


class _LoadConnection(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_closed = False
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._response: asyncio.Future[tuple[int, bytes]] | None = None
        self._received = b""
        self._needed = 0  # bytes of the response, once its head is complete

    async def post(self, request: bytes, within_s: float) -> tuple[int, bytes]:
        self._response, self._received, self._needed = self._loop.create_future(), b"", 0
        late = self._loop.call_later(within_s, self._fail, TimeoutError())
        self._transport.write(request)
        try:
            return await self._response
        finally:
            late.cancel()
            if self._response.cancelled():
                self.close()  # its response would else be taken for that of the next request

    def close(self) -> None:
        self.is_closed = True
        self._transport.close()

    # -- called by asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._needed and (end := self._received.find(_END)) >= 0:
            length = _LENGTH.search(self._received, 0, end + 2)
            if length is None:
                self._fail(OSError("a response has no content-length"))
                return
            self._needed = end + len(_END) + int(length[1])
        if 0 < self._needed <= len(self._received):
            self._finish()

    def _finish(self) -> None:
        end, status = self._received.find(_END), _STATUS.match(self._received)
        if status is None or self._response is None or self._response.done():
            self._fail(OSError("received bytes that are no response to a request"))
            return
        if _CLOSE.search(self._received, 0, end + 2):
            self.close()
        self._response.set_result((int(status[1]), self._received[end + len(_END) : self._needed]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._fail(exc if isinstance(exc, OSError) else OSError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
        self.close()
