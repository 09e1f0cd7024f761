"""The node's desk in frames: an answer goes out when it is done, and only a question that waits becomes a task.

Most searches wait for nothing: they are over when they have begun, and a task would cost more than the way to it.

Whoever calls a question off, or goes away, ends the work on it. Whoever does not take answers is asked no further
questions until they do, and is given up after STALL_S: what waits to be sent is bounded by what was asked already.

The route takes part in an application as any other and only says what to do there; the server that listens hands
connections that ask for it over, by `upgraded`.
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
from argosy.search.fleet import codec
from argosy.search.fleet.frames import wire
from argosy.search.fleet.frames.wire import Frame, Parser, framed, packed_refusal, unpacked_trace

STALL_S = 30.0  # an asker that takes no answer for so long is given up

Handler = Callable[[bytes], Coroutine[Any, Any, bytes]]

log = logs.get("search.frames")


class Entrance(Protocol):
    """Lets in those who know the token, and so many questions at a time."""

    def check(self, authorization: bytes) -> None: ...

    def entered(self) -> AbstractContextManager[None]: ...


class FramesRoute(Route):
    """Where connections of frames begin."""

    def __init__(self, handlers: Mapping[int, Handler], entrance: Entrance, tracer: Tracer) -> None:
        """`handlers` by the kind of question. A handler is not in a task before it first waits for something."""
        super().__init__(wire.FRAMES_PATH, _not_here, methods=["GET"])
        self._handlers = handlers
        self._entrance = entrance
        self._tracer = tracer

    def upgrade(self, connections: set[Any]) -> asyncio.Protocol:
        """One connection; it is among `connections` from its beginning to its end, to be told to `shutdown`."""
        return _Connection(self._handlers, self._entrance, self._tracer, connections)


async def _not_here(_: Request) -> Response:
    told = f"this is for connections in frames: ask for an upgrade to {wire.LANGUAGE}, of a server that hands it over"
    return error_response(Invalid(told))


class _Connection(asyncio.Protocol):
    """One asker."""

    def __init__(
        self, handlers: Mapping[int, Handler], entrance: Entrance, tracer: Tracer, connections: set[Any]
    ) -> None:
        self._handlers = handlers
        self._entrance = entrance
        self._tracer = tracer
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._greeting = b""
        self._parser: Parser | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._giving_up: asyncio.TimerHandle | None = None
        self._is_ending = False

    # -- asyncio's ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            if self._parser is not None:
                self._hear(self._parser, data)
            else:
                self._greet(data)
        except Invalid as error:
            log.warning("frames not understood", why=str(error))
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for task in self._tasks.values():
            task.cancel()
        self._has_room.set()
        if self._giving_up is not None:
            self._giving_up.cancel()

    def pause_writing(self) -> None:
        self._has_room.clear()
        self._transport.pause_reading()
        self._giving_up = self._loop.call_later(STALL_S, self._transport.abort)

    def resume_writing(self) -> None:
        self._has_room.set()
        if self._giving_up is not None:
            self._giving_up.cancel()
        if not self._is_ending:
            self._transport.resume_reading()

    # -- the server's ------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Questions that have come are answered; none are taken any more."""
        if not self._is_ending:
            self._is_ending = True
            if self._has_room.is_set():
                self._transport.pause_reading()
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_ending and not self._tasks:
            self._transport.close()

    # -- questions ---------------------------------------------------------------------------------------------------

    def _greet(self, data: bytes) -> None:
        self._greeting += data
        said = wire.said(self._greeting)
        if said is None:
            return
        try:
            self._entrance.check(said.headers.get("authorization", b""))
        except ArgosyError as error:
            self._transport.write(wire.not_welcome(error.status, str(error)))
            self._transport.close()
            return
        if not said.is_in_frames:
            self._transport.write(wire.not_welcome(426, f"ask for an upgrade to {wire.LANGUAGE}"))
            self._transport.close()
            return
        self._transport.write(wire.WELCOME)
        self._greeting, self._parser = b"", Parser(codec.QUESTION_BYTES_MAX)
        self._hear(self._parser, said.rest)

    def _hear(self, parser: Parser, data: bytes) -> None:
        for frame in parser.feed(data):
            if frame.kind == wire.CALLED_OFF:
                if (task := self._tasks.get(frame.call)) is not None:
                    task.cancel()
            elif frame.call in self._tasks:
                raise Invalid(f"call {frame.call} is under way already")
            else:
                self._begin(frame)

    def _begin(self, frame: Frame) -> None:
        work, context = self._serve(frame), copy_context()
        try:
            waits_for = context.run(work.send, None)
        except (StopIteration, asyncio.CancelledError):
            return
        task = self._loop.create_task(_Begun(work, waits_for), context=context)
        self._tasks[frame.call] = task
        task.add_done_callback(partial(self._forget, frame.call))

    def _forget(self, call: int, _: asyncio.Task[None]) -> None:
        # Not at the end of the task itself: one that is called off before its first step never gets there.
        del self._tasks[call]
        self._end_if_idle()

    async def _serve(self, frame: Frame) -> None:
        kind, body = wire.REFUSED, b""
        try:
            with self._entrance.entered():
                body = await self._answer(frame)
                kind = wire.ANSWERED
        except ArgosyError as error:
            body = packed_refusal(error)
        except Exception as error:
            log.error("a question failed", kind=frame.kind, exc_info=error)
            body = packed_refusal(ArgosyError("something went wrong here, and is in this node's log"))
        while not self._has_room.is_set():
            await self._has_room.wait()
        if not self._transport.is_closing():
            self._transport.write(framed(frame.call, kind, body))

    async def _answer(self, frame: Frame) -> bytes:
        handler = self._handlers.get(frame.kind)
        if handler is None:
            raise Invalid(f"nobody here knows a question of kind {frame.kind}: is the asker's version ours?")
        if frame.trace:
            with self._tracer.extract(unpacked_trace(frame.trace)):
                body = await handler(frame.body)
        else:
            body = await handler(frame.body)
        if len(body) > codec.ANSWER_BYTES_MAX:
            raise Unavailable(f"the answer has {len(body)} bytes, more than {codec.ANSWER_BYTES_MAX}: ask for less")
        return body


class _Begun(Coroutine[Any, Any, None]):
    """Work that was begun outside of a task, for a task to go on with: first that wants to know what it waits for."""

    def __init__(self, work: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._work = work
        self._waits_for: list[Any] = [waits_for]

    def send(self, value: Any) -> Any:
        return self._waits_for.pop() if self._waits_for else self._work.send(value)

    def throw(self, kind: Any, error: BaseException | object = None, traceback: TracebackType | None = None, /) -> Any:
        self._waits_for.clear()
        return self._work.throw(error if isinstance(error, BaseException) else kind)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work.__await__()
