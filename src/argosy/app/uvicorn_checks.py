"""Checks at start that uvicorn's private API is still what our protocols use of it.

A protocol is exercised once, on a socket pair, beside `http="auto"`: every answer must be the same to the byte. If one
is not, a warning is logged and the public path is used, which gives the same answers and takes longer. Here is the
check of the protocol that hands connections over to frames; without it, search nodes are asked over HTTP. The check of
finds is in `find_protocol.py`.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from argosy.app.http_server import http_protocol
from argosy.base import logs

CHECK_S_MAX = 10.0  # it takes milliseconds; a protocol that never answers must not block the start
ANSWER_BYTES_MAX = 1 << 16
UPGRADED = b"upgraded"

_PAGES = (
    b"GET /page HTTP/1.1\r\nhost: check\r\n\r\n",
    b"POST /page HTTP/1.1\r\nhost: check\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /page HTTP/1.1\r\nhost: check\r\nconnection: close\r\n\r\n",
)

log = logs.get("app")


async def can_upgrade() -> bool:
    """Whether connections can be handed to a route that asks for them."""
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            await _check_upgrades()
    except Exception as error:
        log.warning("uvicorn private api changed, taking searches over http", reason=describe(error))
        return False
    return True


async def _check_upgrades() -> None:
    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.method)

    routes = [Route("/page", page, methods=["GET", "POST"]), _UpgradeRoute("/upgrade", page)]
    app = Starlette(routes=routes)
    protocol = http_protocol(routes)
    compare(await converse(protocol, app, _PAGES), await converse("auto", app, _PAGES))
    [told] = await converse(protocol, app, [b"GET /upgrade HTTP/1.1\r\nhost: check\r\n\r\n"])
    if told != UPGRADED:
        raise ValueError(f"a connection to be handed over was answered {told[:80]!r}")


def compare(got: Sequence[bytes], expected: Sequence[bytes]) -> None:
    """Raises at the first answer that differs."""
    for one, other in zip(got, expected, strict=True):
        if one != other:
            raise ValueError(f"an answer was {one[:80]!r}, expected {other[:80]!r}")


async def converse(http: Any, app: ASGIApp, requests: Sequence[bytes]) -> list[bytes]:
    """The answers to requests on one connection, made as uvicorn's own server makes one; the last closes it."""
    from uvicorn.server import ServerState

    config = uvicorn.Config(app, http=http, log_config=None, access_log=False, lifespan="off")
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    state.default_headers = [(b"server", b"uvicorn")]
    ours, theirs = socket.socketpair()

    def protocol() -> asyncio.Protocol:
        made: Any = config.http_protocol_class
        return cast(asyncio.Protocol, made(config=config, server_state=state, app_state={}, _loop=loop))

    # A socket that has a transport is closed by it: otherwise the loop would go on watching a reused descriptor.
    try:
        transport, _ = await loop.connect_accepted_socket(protocol, theirs)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    try:
        reader, writer = await asyncio.open_connection(sock=ours, limit=ANSWER_BYTES_MAX)
        try:
            answers = []
            for request in requests[:-1]:
                writer.write(request)
                answers.append(await _read_answer(reader))
            writer.write(requests[-1])
            answers.append(await reader.read())
            return answers
        finally:
            writer.close()
    finally:
        transport.abort()


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """A response with its body, whose length is named or which comes in chunks."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), None)
    if length is None:
        return head + await reader.readuntil(b"0\r\n\r\n")
    return head + await reader.readexactly(min(length, ANSWER_BYTES_MAX))


def describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _UpgradeRoute(Route):
    def upgrade(self, connections: set[Any]) -> asyncio.Protocol:
        return _Upgraded(connections)


class _Upgraded(asyncio.Protocol):
    """Confirms that it has the connection, and closes it."""

    def __init__(self, connections: set[Any]) -> None:
        self._connections = connections
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(self)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /upgrade "):
            self._transport.write(UPGRADED)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
