"""HTTP as little as a load needs: requests made beforehand, over connections that stay open.

What asks shares the machine with what answers, so every microsecond spent here is missing there. Nothing is read of an
answer but its status, its length and its body; an answer that does not say how long it is, is none.
"""

import asyncio
import re
import time
from collections import deque
from typing import cast
from urllib.parse import urlsplit

KEEP_ALIVE_S = 4.0  # less than the 5 s after which uvicorn closes what is idle

Address = tuple[str, int]

_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close *\r\n", re.IGNORECASE)


def request(url: str, body: bytes, kind: str) -> tuple[Address, bytes]:
    """Whom to ask, and the whole of what to send."""
    parts = urlsplit(url)
    head = f"POST {parts.path or '/'} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: {kind}\r\n"
    sent = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    return (parts.hostname or "", parts.port or 80), sent


class Connections:
    """Those to every address, each used for one request at a time; the one used last is used next."""

    def __init__(self, *, answer_s_max: float) -> None:
        self._answer_s_max = answer_s_max
        self._idle: dict[Address, deque[_Connection]] = {}

    async def post(self, address: Address, sent: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer; OSError if there is none, TimeoutError if not in time."""
        idle = self._idle.setdefault(address, deque())
        connection = _still_open(idle)
        if connection is None:
            async with asyncio.timeout(self._answer_s_max):
                connection = await _connected(address)
        answer = await connection.post(sent, self._answer_s_max)
        if not connection.is_closed:
            connection.idle_since = time.monotonic()
            idle.append(connection)
        return answer

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()


async def _connected(address: Address) -> "_Connection":
    _, connection = await asyncio.get_running_loop().create_connection(_Connection, *address)
    return connection


def _still_open(idle: "deque[_Connection]") -> "_Connection | None":
    """One that the other side has not closed and will not close just now."""
    while idle:
        connection = idle.pop()
        if not connection.is_closed and time.monotonic() - connection.idle_since < KEEP_ALIVE_S:
            return connection
        connection.close()
    return None


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_closed = False
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._heard = b""
        self._needed = 0  # bytes of the answer, once it has said how many

    async def post(self, sent: bytes, within_s: float) -> tuple[int, bytes]:
        self._answer, self._heard, self._needed = self._loop.create_future(), b"", 0
        late = self._loop.call_later(within_s, self._fail, TimeoutError())
        self._transport.write(sent)
        try:
            return await self._answer
        finally:
            late.cancel()
            if self._answer.cancelled():
                self.close()

    def close(self) -> None:
        self.is_closed = True
        self._transport.close()

    # -- asyncio's ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if not self._needed and (end := self._heard.find(_END)) >= 0:
            length = _LENGTH.search(self._heard, 0, end + 2)
            if length is None:
                self._fail(OSError("an answer does not say how long it is"))
                return
            self._needed = end + len(_END) + int(length[1])
        if 0 < self._needed <= len(self._heard):
            self._end()

    def _end(self) -> None:
        end, status = self._heard.find(_END), _STATUS.match(self._heard)
        if status is None or self._answer is None or self._answer.done():
            self._fail(OSError("this is no answer to what was asked"))
            return
        if _CLOSE.search(self._heard, 0, end + 2):
            self.close()
        self._answer.set_result((int(status[1]), self._heard[end + len(_END) : self._needed]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._fail(exc if isinstance(exc, OSError) else OSError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()
