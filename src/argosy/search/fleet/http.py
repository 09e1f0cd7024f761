"""The server side of a node: frames for the fleet, and HTTP with msgpack bodies, JSON errors and index streams.

A client that disconnects cancels its request within about 20 ms: a gateway that hedges drops the slower of two
requests, which must not occupy a core any longer. Mount the routes in an application that has
`base.http.EXCEPTION_HANDLERS`.
"""

import asyncio
import hmac
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from argosy.base.errors import Invalid, Unauthorized, Unavailable
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.search.fleet import protocol
from argosy.search.fleet.frame_server import FramesRoute
from argosy.search.fleet.model import FileRequest, FolderRequest, SearchRequest
from argosy.search.fleet.ports import Node
from argosy.search.fleet.protocol import pack, pack_answer, unpack

REQUESTS_MAX = 1_000  # concurrent; gateways admit far fewer
STREAMS_MAX = 64  # concurrent index streams: a draining node hands off all its units at once
STALL_S = 30.0  # a reader that takes no chunk for so long is disconnected

_Handler = Callable[[bytes], Coroutine[Any, Any, bytes]]
_T = TypeVar("_T")


def node_routes(node: Node, *, fleet_token: str | None = None, tracer: Tracer = NO_TRACER) -> list[Route]:
    """The routes of a node; with a token, only for clients that send it. `tracer` is for requests in frames, which do
    not pass the tracing middleware."""

    async def search(body: bytes) -> bytes:
        return pack_answer(await node.search(unpack(body, SearchRequest)))

    async def listing(body: bytes) -> bytes:
        return pack(await node.list(unpack(body, SearchRequest)))

    async def file(body: bytes) -> bytes:
        return pack(await node.file(unpack(body, FileRequest)))

    async def folder(body: bytes) -> bytes:
        return pack(await node.folder(unpack(body, FolderRequest)))

    async def status(_: bytes) -> bytes:
        return pack(await node.status())

    # Two gates: index streams last for minutes, and must not use up the places of searches.
    requests, streams = _RequestGate(fleet_token, REQUESTS_MAX), _RequestGate(fleet_token, STREAMS_MAX)
    posted = {
        protocol.SEARCH_PATH: search,
        protocol.LIST_PATH: listing,
        protocol.FILE_PATH: file,
        protocol.FOLDER_PATH: folder,
    }
    in_frames = {
        protocol.SEARCH: search,
        protocol.LIST: listing,
        protocol.FILE: file,
        protocol.FOLDER: folder,
        protocol.STATUS: status,
    }
    return [
        FramesRoute(in_frames, requests, tracer),
        *(Route(path, _RequestRoute(requests, handler), methods=["POST"]) for path, handler in posted.items()),
        Route(protocol.STATUS_PATH, _RequestRoute(requests, status), methods=["GET"]),
        Route(protocol.INDEX_PATH + "{name:path}", _IndexStream(streams, node), methods=["GET"]),
    ]


class _RequestGate:
    """Checks the fleet token and bounds concurrent requests."""

    def __init__(self, token: str | None, concurrent_max: int) -> None:
        self._expected = f"Bearer {token}".encode() if token else None
        self._concurrent_max = concurrent_max
        self._concurrent = 0

    def check(self, authorization: bytes) -> None:
        if self._expected is not None and not hmac.compare_digest(authorization, self._expected):
            raise Unauthorized("missing or wrong fleet token; send 'authorization: Bearer <fleet token>'")

    def check_scope(self, scope: Scope) -> None:
        self.check(next((value for name, value in scope["headers"] if name == b"authorization"), b""))

    def enter(self) -> "_RequestGate":
        return self

    def __enter__(self) -> None:
        if self._concurrent >= self._concurrent_max:
            raise Unavailable(f"too many concurrent requests, limit {self._concurrent_max}; retry")
        self._concurrent += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._concurrent -= 1


class _RequestRoute:
    """One kind of request, as a bare ASGI application: Starlette's objects would double the cost."""

    def __init__(self, gate: _RequestGate, handler: _Handler) -> None:
        self._gate = gate
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate.check_scope(scope)
        with self._gate.enter():
            body = await _body(scope, receive)
            answer = None if body is None else await _run_while_connected(self._handler(body), receive)
        if answer is not None:
            length = (b"content-length", b"%d" % len(answer))
            await send({"type": "http.response.start", "status": 200, "headers": [_TYPE, length]})
            await send({"type": "http.response.body", "body": answer})


class _IndexStream:
    """An index, chunk by chunk: the next is produced when the last has been sent."""

    def __init__(self, gate: _RequestGate, node: Node) -> None:
        self._gate = gate
        self._node = node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate.check_scope(scope)
        with self._gate.enter():
            if await _body(scope, receive) is not None:
                await _run_while_connected(self._stream(_name(scope), send), receive)

    async def _stream(self, name: str, send: Send) -> bool:
        chunks = self._node.index(name)
        assert isinstance(chunks, AsyncGenerator), "a cancelled stream must be closed"
        async with aclosing(chunks):
            chunk = await anext(chunks, b"")  # an error before the first chunk still becomes an error response
            await send({"type": "http.response.start", "status": 200, "headers": [_STREAM_TYPE]})
            while chunk:
                async with asyncio.timeout(STALL_S):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await anext(chunks, b"")
        await send({"type": "http.response.body", "body": b""})
        return True


_TYPE = (b"content-type", protocol.CONTENT_TYPE.encode())
_STREAM_TYPE = (b"content-type", b"application/octet-stream")


def _name(scope: Scope) -> str:
    """The repository's name. `scope["path"]` has lost what is no UTF-8."""
    raw: bytes = scope["raw_path"]
    return unquote(raw.decode("ascii").partition(protocol.INDEX_PATH)[2], errors="surrogateescape")


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body, or None if the client disconnected. One whose content-length is too large is not read."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    _check_size(int(length))
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        size += len(part)
        _check_size(size)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_size(size: int) -> None:
    if size > protocol.REQUEST_BYTES_MAX:
        raise Invalid(f"request too large: {size} bytes, limit {protocol.REQUEST_BYTES_MAX}")


async def _run_while_connected(work: Coroutine[Any, Any, _T], receive: Receive) -> _T | None:
    """The result of the work; None, and the work is cancelled, if the client disconnects."""
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_wait_disconnect(receive))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        disconnect.cancel()
        if not task.done():
            task.cancel()
            # Awaited, so that the gate counts it until it has really ended.
            await asyncio.wait((task,))


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
