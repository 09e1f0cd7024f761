"""The server side of frames: a result is sent when it is ready, and only a request that awaits becomes a task.

Most searches never await: they finish on their first step, and a task would cost more than they do.

A cancel frame or a disconnect cancels the work. While a client does not read its responses, no further requests of it
are read, and after STALL_S it is disconnected: unsent responses are bounded by the requests already received.

The route is mounted like any other; the listening server hands upgraded connections over by `upgraded`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Protocol, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.base import logs
from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.base.http import error_response
from argosy.base.tracing import Tracer
from argosy.search.fleet import protocol
from argosy.search.fleet.protocol import Frame, Parser, decode_trace, encode_frame, encode_refusal

STALL_S = 30.0  # a client that reads no response for so long is disconnected

Handler = Callable[[bytes], Coroutine[Any, Any, bytes]]

log = logs.get("search.frames")


class RequestGate(Protocol):
    """Checks the fleet token and bounds concurrent requests."""

    def check(self, authorization: bytes) -> None: ...

    def enter(self) -> AbstractContextManager[None]: ...


class FramesRoute(Route):
    """The route whose connections are upgraded to frames."""

    def __init__(self, handlers: Mapping[int, Handler], gate: RequestGate, tracer: Tracer) -> None:
        """`handlers` by request kind. A handler runs outside a task until it first awaits."""
        super().__init__(protocol.FRAMES_PATH, _require_upgrade, methods=["GET"])
        self._handlers = handlers
        self._gate = gate
        self._tracer = tracer

    def upgrade(self, connections: set[Any]) -> asyncio.Protocol:
        """The protocol of one connection; in `connections` while open, so that the server can shut it down."""
        return _ServerConnection(self._handlers, self._gate, self._tracer, connections)


async def _require_upgrade(_: Request) -> Response:
    text = (
        f"this is for connections in frames: ask for an upgrade to {protocol.LANGUAGE}, of a server that hands it over"
    )
    return error_response(Invalid(text))


class _ServerConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(
        self, handlers: Mapping[int, Handler], gate: RequestGate, tracer: Tracer, connections: set[Any]
    ) -> None:
        self._handlers = handlers
        self._gate = gate
        self._tracer = tracer
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._head = b""
        self._parser: Parser | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._stall_timer: asyncio.TimerHandle | None = None
        self._is_shutting_down = False

    # -- asyncio's ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport implements it without inheriting from it
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            if self._parser is not None:
                self._receive(self._parser, data)
            else:
                self._accept(data)
        except Invalid as error:
            log.warning("invalid frame", why=str(error))
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for task in self._tasks.values():
            task.cancel()
        self._can_write.set()
        if self._stall_timer is not None:
            self._stall_timer.cancel()

    def pause_writing(self) -> None:
        self._can_write.clear()
        self._transport.pause_reading()
        self._stall_timer = self._loop.call_later(STALL_S, self._transport.abort)

    def resume_writing(self) -> None:
        self._can_write.set()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        if not self._is_shutting_down:
            self._transport.resume_reading()

    # -- the server's ------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Answers the requests received so far and reads no more."""
        if not self._is_shutting_down:
            self._is_shutting_down = True
            # Reading is paused already while the client does not read.
            if self._can_write.is_set():
                self._transport.pause_reading()
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_shutting_down and not self._tasks:
            self._transport.close()

    # -- requests ----------------------------------------------------------------------------------------------------

    def _accept(self, data: bytes) -> None:
        self._head += data
        head = protocol.parse_head(self._head)
        if head is None:
            return
        try:
            self._gate.check(head.headers.get("authorization", b""))
        except ArgosyError as error:
            self._transport.write(protocol.rejection(error.status, str(error)))
            self._transport.close()
            return
        if not head.has_upgrade:
            self._transport.write(protocol.rejection(426, f"ask for an upgrade to {protocol.LANGUAGE}"))
            self._transport.close()
            return
        self._transport.write(protocol.UPGRADED)
        self._head, self._parser = b"", Parser(protocol.REQUEST_BYTES_MAX)
        self._receive(self._parser, head.rest)

    def _receive(self, parser: Parser, data: bytes) -> None:
        for frame in parser.feed(data):
            if frame.kind == protocol.CANCEL:
                if (task := self._tasks.get(frame.call)) is not None:
                    task.cancel()
            elif frame.call in self._tasks:
                raise Invalid(f"duplicate call id {frame.call}")
            else:
                self._begin(frame)

    def _begin(self, frame: Frame) -> None:
        # A context for each request, because its first step runs outside a task.
        work, context = self._serve(frame), copy_context()
        try:
            awaited = context.run(work.send, None)
        except (StopIteration, asyncio.CancelledError):
            return
        task = self._loop.create_task(_StartedCoroutine(work, awaited), context=context)
        self._tasks[frame.call] = task
        task.add_done_callback(partial(self._forget, frame.call))

    def _forget(self, call: int, _: asyncio.Task[None]) -> None:
        # As a callback of the task: one that is cancelled before its first step never runs its own end.
        del self._tasks[call]
        self._end_if_idle()

    async def _serve(self, frame: Frame) -> None:
        kind, body = protocol.ERROR, b""
        try:
            with self._gate.enter():
                body = await self._answer(frame)
                kind = protocol.RESULT
        except ArgosyError as error:
            body = encode_refusal(error)
        # The other requests of this connection go on, so a bug must not close it.
        except Exception as error:
            log.error("request failed", kind=frame.kind, exc_info=error)
            body = encode_refusal(ArgosyError("internal error; see this node's log"))
        # Again after each wake: several responses may have waited, and the first of them can fill the buffer again.
        while not self._can_write.is_set():
            await self._can_write.wait()
        if not self._transport.is_closing():
            self._transport.write(encode_frame(frame.call, kind, body))

    async def _answer(self, frame: Frame) -> bytes:
        handler = self._handlers.get(frame.kind)
        if handler is None:
            raise Invalid(f"unknown request kind {frame.kind}: client and node are of different versions")
        if frame.trace:
            with self._tracer.extract(decode_trace(frame.trace)):
                body = await handler(frame.body)
        else:
            body = await handler(frame.body)
        if len(body) > protocol.ANSWER_BYTES_MAX:
            raise Unavailable(f"result too large: {len(body)} bytes, limit {protocol.ANSWER_BYTES_MAX}; request less")
        return body


class _StartedCoroutine(Coroutine[Any, Any, None]):
    """A coroutine whose first step ran outside a task. Its first `send` returns what that step awaits."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        self._awaited: list[Any] = [awaited]

    def send(self, value: Any) -> Any:
        return self._awaited.pop() if self._awaited else self._work.send(value)

    def throw(self, kind: Any, error: BaseException | object = None, traceback: TracebackType | None = None, /) -> Any:
        self._awaited.clear()
        return self._work.throw(error if isinstance(error, BaseException) else kind)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work.__await__()
