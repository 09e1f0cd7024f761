"""One socket to a Redis server that many callers share.

Requests of one turn of the loop are written together, and replies are matched to them in order; that is what makes it
several times as fast as a connection per caller. A caller that is cancelled leaves its place in the queue, and the
reply that comes for it is thrown away. Replies come in order, so one timer on the oldest request is a deadline for
all: a server that owes an answer for too long is given up, with everything in flight.
"""

import asyncio
import ssl
from collections import deque
from typing import Any, cast

import hiredis

from argosy.registry.backends.redis_errors import Refused, away
from argosy.registry.backends.redis_url import Address

IN_FLIGHT_MAX = 1024  # requests without an answer yet; further callers wait, so nothing piles up
OUT_BYTES_MAX = 4096  # gathered before they are written at once, so that the server begins meanwhile
UNHEARD_MAX = 1024  # messages a subscriber may be behind
READ_BYTES_MAX = 1 << 20  # kept between reads; hiredis gives back what is more


class Wire(asyncio.Protocol):
    """Made by `connect`. All errors are `Unavailable`, but for the server's own replies, which are `Refused`."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=Refused)
        self._reader.setmaxbuf(READ_BYTES_MAX)
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self.closed = asyncio.Event()  # the socket is no more
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._lost: object = None  # why it ended
        self.pushed: asyncio.Queue[Any] | None = None  # a subscriber's messages, which answer nothing; None is the end
        self.is_behind = False  # more came than the subscriber took

    @property
    def is_alive(self) -> bool:
        return self._transport is not None and self._lost is None

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= IN_FLIGHT_MAX

    async def room(self) -> None:
        """Returns when there is room for one more request; a dead wire has room, for it answers at once."""
        while self.is_full and self.is_alive:
            self._room.clear()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._room.wait()
            except TimeoutError:
                cause = f"{IN_FLIGHT_MAX} requests are in flight already"
                raise away(self._name, cause, may_have_happened=False) from None

    @property
    def is_ready(self) -> bool:
        return self._lost is None and len(self._waiting) < IN_FLIGHT_MAX

    def send(self, *args: str | bytes | int) -> asyncio.Future[Any]:
        """The reply to come. The caller has seen to it that there is room."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._lost is not None:
            future.set_exception(away(self._name, self._lost, may_have_happened=False))
            return future
        if not self._out:
            self._loop.call_soon(self._flush)
        packed = hiredis.pack_command(args)  # type: ignore[arg-type]
        self._out.append(packed)
        self._out_bytes += len(packed)
        if self._out_bytes > OUT_BYTES_MAX:
            self._flush()
        self._waiting.append((future, self._loop.time() + self._timeout_s))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look_at_oldest)
        return future

    def _flush(self) -> None:
        if self._out and self._transport is not None and self._lost is None:
            self._transport.write(b"".join(self._out))
        self._out.clear()
        self._out_bytes = 0

    def _look_at_oldest(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        left = self._waiting[0][1] - self._loop.time()
        if left <= 0:
            self.end(f"no answer within {self._timeout_s} s")
        else:
            self._timer = self._loop.call_later(left, self._look_at_oldest)

    def end(self, cause: object) -> None:
        """Gives the connection up; what is in flight may or may not have happened."""
        if self._lost is not None:
            return
        self._lost = cause
        if self._transport is not None:
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        self._room.set()
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(away(self._name, cause, may_have_happened=True))
        self._waiting.clear()
        if self.pushed is not None:
            self.pushed.put_nowait(None)

    # -- what the loop calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.end(error or "the server closed the connection")
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._answer(reply)
        except hiredis.ProtocolError as error:
            self.end(f"it does not speak the protocol of Redis: {error}")
        if not self.is_full:
            self._room.set()

    def _answer(self, reply: Any) -> None:
        if not self._waiting:
            self._push(reply)
            return
        future, _ = self._waiting.popleft()
        if future.done():
            return
        if isinstance(reply, Refused):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def _push(self, message: Any) -> None:
        if self.pushed is None or self._lost is not None:
            return
        if self.pushed.qsize() >= UNHEARD_MAX:
            self.is_behind = True
            self.end(f"its listener is {UNHEARD_MAX} messages behind")
        else:
            self.pushed.put_nowait(message)


async def connect(name: str, address: Address, tls: ssl.SSLContext | None, *, connect_s: float, call_s: float) -> Wire:
    """A new wire to one server."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(connect_s):
            _, wire = await loop.create_connection(lambda: Wire(name, call_s), *address, ssl=tls)
    except TimeoutError:
        raise away(name, f"no connection within {connect_s} s", may_have_happened=False) from None
    except OSError as error:
        raise away(name, error, may_have_happened=False) from error
    return wire
