"""The node's desk: in frames for the fleet, and over HTTP with questions and answers as msgpack, errors as JSON, an
index as a stream.

Whoever goes away before the answer is there ends the work on it, within about twenty milliseconds: a front door asks
two nodes and drops the slower one, and what it dropped must not keep a core. Mount the routes in an application that
has `base.http.EXCEPTION_HANDLERS`.
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
from argosy.search.fleet import codec
from argosy.search.fleet.codec import pack, pack_answer, unpack
from argosy.search.fleet.frames import wire
from argosy.search.fleet.frames.service import FramesRoute
from argosy.search.fleet.model import FileRequest, FolderRequest, SearchRequest
from argosy.search.fleet.ports import Node

QUESTIONS_MAX = 1_000  # under way at a time; a front door bounds what it lets in long before
STREAMS_MAX = 64  # indexes sent at a time: a fleet that takes over all at once
STALL_S = 30.0  # a reader that takes no chunk for so long is given up

_Handler = Callable[[bytes], Coroutine[Any, Any, bytes]]
_T = TypeVar("_T")


def node_routes(node: Node, *, fleet_token: str | None = None, tracer: Tracer = NO_TRACER) -> list[Route]:
    """The routes by which other processes ask this node; with a token, only those who know it. `tracer` is for the
    questions in frames, which no middleware sees."""

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

    questions, streams = _Door(fleet_token, QUESTIONS_MAX), _Door(fleet_token, STREAMS_MAX)
    posted = {
        codec.SEARCH_PATH: search,
        codec.LIST_PATH: listing,
        codec.FILE_PATH: file,
        codec.FOLDER_PATH: folder,
    }
    in_frames = {wire.SEARCH: search, wire.LIST: listing, wire.FILE: file, wire.FOLDER: folder, wire.STATUS: status}
    return [
        FramesRoute(in_frames, questions, tracer),
        *(Route(path, _Question(questions, handler), methods=["POST"]) for path, handler in posted.items()),
        Route(codec.STATUS_PATH, _Question(questions, status), methods=["GET"]),
        Route(codec.INDEX_PATH + "{name:path}", _IndexStream(streams, node), methods=["GET"]),
    ]


class _Door:
    """Lets in those who know the token, and so many at a time."""

    def __init__(self, token: str | None, inside_max: int) -> None:
        self._expected = f"Bearer {token}".encode() if token else None
        self._inside_max = inside_max
        self._inside = 0

    def check(self, authorization: bytes) -> None:
        if self._expected is not None and not hmac.compare_digest(authorization, self._expected):
            raise Unauthorized("nodes are asked with the header 'authorization: Bearer <fleet token>'")

    def check_scope(self, scope: Scope) -> None:
        self.check(next((value for name, value in scope["headers"] if name == b"authorization"), b""))

    def entered(self) -> "_Door":
        return self

    def __enter__(self) -> None:
        if self._inside >= self._inside_max:
            raise Unavailable(f"{self._inside_max} questions of this kind are under way here: ask again shortly")
        self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inside -= 1


class _Question:
    """One question, as an ASGI application: Starlette's own requests and responses would cost as much as the rest."""

    def __init__(self, door: _Door, handler: _Handler) -> None:
        self._door = door
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._door.check_scope(scope)
        with self._door.entered():
            body = await _body(scope, receive)
            answer = None if body is None else await _unless_gone(self._handler(body), receive)
        if answer is not None:
            length = (b"content-length", b"%d" % len(answer))
            await send({"type": "http.response.start", "status": 200, "headers": [_TYPE, length]})
            await send({"type": "http.response.body", "body": answer})


class _IndexStream:
    """An index, chunk by chunk: the next is made when the last has gone out."""

    def __init__(self, door: _Door, node: Node) -> None:
        self._door = door
        self._node = node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._door.check_scope(scope)
        with self._door.entered():
            if await _body(scope, receive) is not None:
                await _unless_gone(self._stream(_name(scope), send), receive)

    async def _stream(self, name: str, send: Send) -> bool:
        chunks = self._node.index(name)
        assert isinstance(chunks, AsyncGenerator), "a stream that is given up must be closed"
        async with aclosing(chunks):
            chunk = await anext(chunks, b"")  # an error before the first is still an answer
            await send({"type": "http.response.start", "status": 200, "headers": [_STREAM_TYPE]})
            while chunk:
                async with asyncio.timeout(STALL_S):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await anext(chunks, b"")
        await send({"type": "http.response.body", "body": b""})
        return True


_TYPE = (b"content-type", codec.CONTENT_TYPE.encode())
_STREAM_TYPE = (b"content-type", b"application/octet-stream")


def _name(scope: Scope) -> str:
    """The repository's name. `scope["path"]` has lost what is no UTF-8."""
    raw: bytes = scope["raw_path"]
    return unquote(raw.decode("ascii").partition(codec.INDEX_PATH)[2], errors="surrogateescape")


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body, or None if its sender went away. A body that says it is too long is not waited for."""
    told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    _check_size(int(told))
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
    if size > codec.QUESTION_BYTES_MAX:
        raise Invalid(f"a question may have {codec.QUESTION_BYTES_MAX} bytes, not {size}: ask in parts")


async def _unless_gone(work: Coroutine[Any, Any, _T], receive: Receive) -> _T | None:
    """What the work comes to; None, and no more work, once the asker is gone."""
    working = asyncio.ensure_future(work)
    going = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, going), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        going.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
