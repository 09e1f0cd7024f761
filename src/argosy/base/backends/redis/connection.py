"""One socket to a Redis server, shared by many callers.

Requests of one turn of the event loop are written together, and replies are matched to them in order; that makes it
several times as fast as a connection per caller. A caller that is cancelled keeps its place in the queue, and its
reply is dropped on arrival. Because replies come in order, one timer on the oldest request is a deadline for all: if
a reply is overdue, the connection is aborted with everything in flight.
"""

import asyncio
import ssl
from collections import deque
from typing import Any, TypeAlias, cast

import hiredis

from argosy.base.backends.redis.errors import ReplyError, unreachable
from argosy.base.backends.redis.url import Address

IN_FLIGHT_MAX = 1024  # requests without a reply; further callers wait, so that a slow server does not fill the memory
OUT_BYTES_MAX = 4096  # collected before they are written at once, so that the server begins meanwhile
MESSAGES_MAX = 1024  # of a channel, that a subscriber may be behind
READ_BYTES_MAX = 1 << 20  # buffer that hiredis keeps between reads; what is more is freed

Arg: TypeAlias = str | bytes | int


class RedisConnection(asyncio.Protocol):
    """Created by `connect`. All errors are `Unavailable`, except error replies, which are `ReplyError`."""

    def __init__(self, name: str, address: Address, timeout_s: float, encoding: str | None = None) -> None:
        """With an `encoding` replies are text, otherwise bytes."""
        self.address = address
        self._name = name
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        if encoding is None:
            self._reader = hiredis.Reader(replyError=ReplyError)
        else:
            self._reader = hiredis.Reader(replyError=ReplyError, encoding=encoding, errors="replace")
        self._reader.setmaxbuf(READ_BYTES_MAX)
        # In the order of sending, which is the order of the replies.
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self.closed = asyncio.Event()  # set when the socket is closed
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._abort_cause: object = None
        self.messages: asyncio.Queue[Any] | None = None  # of a subscriber; None is put last, when the connection ends
        self.is_behind = False  # more messages came than the subscriber read

    @property
    def is_alive(self) -> bool:
        return self._transport is not None and self._abort_cause is None

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= IN_FLIGHT_MAX

    @property
    def is_ready(self) -> bool:
        return self._abort_cause is None and len(self._waiting) < IN_FLIGHT_MAX

    async def wait_capacity(self) -> None:
        """Returns when one more request may be sent, or when the connection has ended and `send` fails at once."""
        while self.is_full and self.is_alive:
            self._has_capacity.clear()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._has_capacity.wait()
            except TimeoutError:
                cause = f"{IN_FLIGHT_MAX} requests are in flight already"
                raise unreachable(self._name, cause, may_have_happened=False) from None

    def send(self, *args: Arg) -> asyncio.Future[Any]:
        """Sends a command and returns the future of its reply. The caller has checked `is_full`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._abort_cause is not None:
            future.set_exception(unreachable(self._name, self._abort_cause, may_have_happened=False))
            return future
        # Written at the end of this turn of the loop: all requests of the turn share one system call.
        if not self._out:
            self._loop.call_soon(self._flush)
        packed = hiredis.pack_command(args)  # type: ignore[arg-type]
        self._out.append(packed)
        self._out_bytes += len(packed)
        if self._out_bytes > OUT_BYTES_MAX:
            self._flush()
        # Also of a caller that is cancelled later: its place must stay, because replies are matched by order.
        self._waiting.append((future, self._loop.time() + self._timeout_s))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._check_oldest)
        return future

    def abort(self, cause: object) -> None:
        """Ends the connection; requests in flight may or may not have taken effect."""
        if self._abort_cause is not None:
            return
        self._abort_cause = cause
        if self._transport is not None:
            # `abort` and not `close`: what is still buffered must not be sent after its callers have received an error.
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        # Wakes callers that wait for room, so that they see the end of the connection at once.
        self._has_capacity.set()
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(unreachable(self._name, cause, may_have_happened=True))
        self._waiting.clear()
        # After the messages that have arrived, so that the subscriber reads those first.
        if self.messages is not None:
            self.messages.put_nowait(None)

    def _flush(self) -> None:
        if self._out and self._transport is not None and self._abort_cause is None:
            self._transport.write(b"".join(self._out))
        self._out.clear()
        self._out_bytes = 0

    def _check_oldest(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        left = self._waiting[0][1] - self._loop.time()
        # Replies come in order: if the oldest one is overdue, none of the later ones can arrive before it.
        if left <= 0:
            self.abort(f"no answer within {self._timeout_s} s")
        else:
            self._timer = self._loop.call_later(left, self._check_oldest)

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.abort(error or "the server closed the connection")
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._on_reply(reply)
        # After a malformed reply it is unknown where the next one begins, so the connection cannot be used any more.
        except hiredis.ProtocolError as error:
            self.abort(f"it does not speak the protocol of Redis: {error}")
        if not self.is_full:
            self._has_capacity.set()

    def _on_reply(self, reply: Any) -> None:
        if not self._waiting:
            self._on_message(reply)
            return
        future, _ = self._waiting.popleft()
        # The caller was cancelled; its reply is read and dropped, which keeps the others in step.
        if future.done():
            return
        if isinstance(reply, ReplyError):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def _on_message(self, message: Any) -> None:
        """A message of a subscription, which answers no request."""
        if self.messages is None or self._abort_cause is not None:
            return
        # A subscriber that lost messages must know it and read the state again, so the connection ends instead.
        if self.messages.qsize() >= MESSAGES_MAX:
            self.is_behind = True
            self.abort(f"its subscriber is {MESSAGES_MAX} messages behind")
        else:
            self.messages.put_nowait(message)


async def connect(
    name: str,
    address: Address,
    tls: ssl.SSLContext | None,
    *,
    connect_s: float,
    call_s: float,
    encoding: str | None = None,
) -> RedisConnection:
    """A new connection to one server."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(connect_s):
            _, connection = await loop.create_connection(
                lambda: RedisConnection(name, address, call_s, encoding), *address, ssl=tls
            )
    except TimeoutError:
        raise unreachable(name, f"no connection within {connect_s} s", may_have_happened=False) from None
    except OSError as error:
        raise unreachable(name, error, may_have_happened=False) from error
    return connection
