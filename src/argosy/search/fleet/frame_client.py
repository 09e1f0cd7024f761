"""The client side of frames: one connection per address and lane, opened on the first request and shared by all.

Searches have a lane of their own, so that none of them waits behind a long file. Cancelling a call sends a cancel
frame. A late call closes the connection if nothing at all was received since the call was sent: a dead host sends
nothing, not even a reset, and the next request must not wait for it. The kernel detects other dead peers (PEER_GONE_S).

A request on an open connection needs no task: it is a future that completes when its response arrives, see
`PendingCall`.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar, cast

from argosy.base.errors import Invalid
from argosy.search.fleet import protocol
from argosy.search.fleet.protocol import Frame, Parser, encode_frame

PEER_GONE_S = 10  # data unacknowledged by the peer's kernel for so long ends the connection
# The first probe after 5 s, then one every 2 s: a dead host is detected after about as long as PEER_GONE_S.
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": PEER_GONE_S * 1000}

TIMER_SLACK_S = 0.001  # a timer may fire so much early: event loops count milliseconds

Address = tuple[str, int]
T = TypeVar("T")


class FrameConnectionClosed(OSError):
    """The connection ended before the response: whether the request was processed is unknown."""


class UpgradeRejected(Exception):
    """The server rejected the upgrade to frames; status 0: it sent something that is not HTTP."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the upgrade was answered with status {status}" if status else "the response is not HTTP")
        self.status = status


class FrameConnections:
    """Connections by address and lane. Belongs to the event loop it is first used in."""

    def __init__(self, headers: Mapping[str, str], *, answer_bytes_max: int, connect_s: float) -> None:
        """`headers` are sent with the upgrade request of each connection."""
        self._headers = headers
        self._answer_bytes_max = answer_bytes_max
        self._connect_s = connect_s
        self._open: dict[tuple[Address, str], FrameConnection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Task[FrameConnection]] = {}

    async def request(
        self, address: Address, lane: str, kind: int, body: bytes, trace: bytes, within_s: float
    ) -> Frame:
        """TimeoutError if the response is late, OSError if the address is unreachable, FrameConnectionClosed if the
        connection ended before the response."""
        connection = self._open.get((address, lane))
        if connection is None:
            connection = await self._connect_shared(address, lane)
        return await connection.request(kind, body, trace, within_s)

    def idle(self, address: Address, lane: str) -> "FrameConnection | None":
        """An open connection that takes a request without waiting, if there is one."""
        connection = self._open.get((address, lane))
        return connection if connection is not None and connection.can_send() else None

    def count(self) -> int:
        """Open connections."""
        return len(self._open)

    async def close(self) -> None:
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in list(self._open.values()):
            connection.close()

    async def _connect_shared(self, address: Address, lane: str) -> "FrameConnection":
        """Concurrent first requests share one connection attempt; cancelling one of them does not cancel it."""
        key = address, lane
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.ensure_future(self._connect(address, lane))
            opening.add_done_callback(lambda done: self._on_attempt_end(key, done))
        return await asyncio.shield(opening)

    def _on_attempt_end(self, key: tuple[Address, str], opening: "asyncio.Task[FrameConnection]") -> None:
        del self._opening[key]
        if not opening.cancelled():
            opening.exception()  # retrieved, so that asyncio does not log it when all waiting requests were cancelled

    async def _connect(self, address: Address, lane: str) -> "FrameConnection":
        loop = asyncio.get_running_loop()
        key = address, lane
        connection = FrameConnection(loop, self._answer_bytes_max, lambda ended: self._on_close(key, ended))
        try:
            async with asyncio.timeout(self._connect_s):
                await loop.create_connection(lambda: connection, *address)
                await connection.upgrade(_host_header(address), self._headers)
        except TimeoutError:
            connection.close()
            # Not TimeoutError, which would mean that the address was reached and the response is late.
            raise OSError(f"no connection within {self._connect_s:g} s") from None
        except BaseException:
            connection.close()
            raise
        self._open[key] = connection
        return connection

    def _on_close(self, key: tuple[Address, str], connection: "FrameConnection") -> None:
        # A connection that is replaced already may close late: only its own entry is removed.
        if self._open.get(key) is connection:
            del self._open[key]


def _host_header(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class PendingCall(asyncio.Future[T]):
    """The future response of one request. Cancelling it cancels the request at the node."""

    __slots__ = ("call", "chunks_before", "connection", "due_at")

    call: int
    due_at: float  # by the loop's clock
    chunks_before: int  # received on the connection before the request was sent
    connection: "FrameConnection"

    def on_frame(self, frame: Frame) -> None:
        """The response arrived, and the call was not cancelled before."""
        raise AssertionError(frame)

    def on_error(self, error: Exception) -> None:
        """No response will arrive."""
        self.set_exception(error)

    def cancel(self, msg: object = None) -> bool:
        if not super().cancel(msg):
            return False
        self.connection.cancel(self.call)
        return True


class _FrameCall(PendingCall[Frame]):
    """The response frame as it was sent."""

    __slots__ = ()

    def on_frame(self, frame: Frame) -> None:
        self.set_result(frame)


class FrameConnection(asyncio.Protocol):
    """One connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, answer_bytes_max: int, on_close: Callable[["FrameConnection"], None]
    ) -> None:
        self._loop = loop
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._head = b""  # of the response to the upgrade, so far
        self._upgraded: asyncio.Future[None] = loop.create_future()
        self._parser = Parser(answer_bytes_max)
        self._calls: dict[int, PendingCall[Any]] = {}
        self._next_call = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._chunks = 0  # received so far
        self._writable: asyncio.Future[None] | None = None  # while the transport's buffer is full

    async def upgrade(self, host: str, headers: Mapping[str, str]) -> None:
        """UpgradeRejected if the server does not support our version of frames."""
        if self._transport is not None:
            self._transport.write(protocol.upgrade_request(host, headers))
        await self._upgraded

    async def request(self, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        while self._writable is not None:
            async with asyncio.timeout(within_s):
                # Shared by all requests that wait, so a cancelled one must not cancel it.
                await asyncio.shield(self._writable)
        if not self.can_send():
            raise FrameConnectionClosed("the connection was closed")
        call = _FrameCall(loop=self._loop)
        self.send(call, kind, body, trace, within_s)
        return await call

    def can_send(self) -> bool:
        transport = self._transport
        return self._writable is None and transport is not None and not transport.is_closing()

    def send(self, pending: PendingCall[Any], kind: int, body: bytes, trace: bytes, within_s: float) -> None:
        """Sends a request; `can_send` must be true. `pending` receives the response or the error."""
        assert self._transport is not None
        call = pending.call = self._next_call
        # After a wrap no call of the same id is in progress: there are never so many.
        self._next_call = (call + 1) % protocol.CALLS_MAX
        pending.connection, pending.chunks_before = self, self._chunks
        due_at = pending.due_at = self._loop.time() + within_s
        self._calls[call] = pending
        # One timer for all calls: if it fires too early it only checks again. A timer per call would cost more.
        if due_at < self._timer_at:
            self._set_timer(due_at)
        self._transport.write(encode_frame(call, kind, body, trace))

    def cancel(self, call: int) -> None:
        """Cancels the request at the node, because the response is no longer needed."""
        transport = self._transport
        if self._calls.pop(call, None) is not None and transport is not None and not transport.is_closing():
            transport.write(encode_frame(call, protocol.CANCEL))

    def _set_timer(self, due_at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due_at
        self._timer = self._loop.call_at(due_at, self._expire_calls)

    def _expire_calls(self) -> None:
        self._timer, self._timer_at = None, inf
        now = self._loop.time() + TIMER_SLACK_S
        late = [call for call in self._calls.values() if call.due_at <= now]
        is_silent = any(call.chunks_before == self._chunks for call in late)
        if is_silent:
            self.close()  # fails the other calls with FrameConnectionClosed, which are then sent again elsewhere
        for call in late:
            self.cancel(call.call)
            call.on_error(TimeoutError())
        if self._calls and not is_silent:
            self._set_timer(min(call.due_at for call in self._calls.values()))

    def close(self) -> None:
        """Takes effect at once: no further request is sent on this connection."""
        # First, so that no new request takes this connection.
        self._on_close(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, inf
        if self._transport is not None:
            self._transport.abort()

    # -- callbacks of asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from asyncio's
        _enable_keepalive(self._transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._chunks += 1
        try:
            if not self._upgraded.done():
                data = self._read_upgrade(data)
            for frame in self._parser.feed(data) if data else ():
                call = self._calls.pop(frame.call, None)
                if call is not None:  # else it was cancelled before the response arrived
                    call.on_frame(frame)
        except Invalid as error:
            self._fail(OSError(f"invalid response: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_close(self)
        # Requests that wait until they can be written see then that the connection is closed.
        self.resume_writing()
        self._fail(FrameConnectionClosed("the connection was closed before the response"))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def _read_upgrade(self, data: bytes) -> bytes:
        """Completes the upgrade; returns the bytes that follow the response head."""
        self._head += data
        head = protocol.parse_head(self._head)
        if head is None:
            return b""
        if head.status != 101 or not head.has_upgrade:
            self._fail(UpgradeRejected(head.status))
            return b""
        self._upgraded.set_result(None)
        self._head = b""
        return head.rest

    def _fail(self, error: Exception) -> None:
        if not self._upgraded.done():
            self._upgraded.set_exception(error)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.on_error(error)
        self.close()


def _enable_keepalive(connection: socket.socket) -> None:
    """The kernel detects a dead host. Not every system has all of these options."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
