"""Checks at the start that uvicorn's private API works as our protocols expect.

A protocol runs once on a socket pair beside `http="auto"`, and all responses must be identical. If they are not, a
warning is logged and the public API is used, which is slower. This module checks the protocol that switches connections
to frames; without it, search nodes are called over HTTP. `roles/indexer.py` checks the protocol of finds.
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

CHECK_S_MAX = 10.0  # takes milliseconds; a protocol that never responds must not block the start
ANSWER_BYTES_MAX = 1 << 16
UPGRADED = b"upgraded"

# Without a body, with one, and the last one closing: what the protocol has to pass on unchanged.
_PAGES = (
    b"GET /page HTTP/1.1\r\nhost: check\r\n\r\n",
    b"POST /page HTTP/1.1\r\nhost: check\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /page HTTP/1.1\r\nhost: check\r\nconnection: close\r\n\r\n",
)

log = logs.get("app")


async def can_upgrade() -> bool:
    """Whether a route can take over connections."""
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            await _check_upgrades()
    # Any exception: a new version of uvicorn may fail in any way, and the fallback needs none of its private names.
    except Exception as error:
        log.warning("uvicorn private api changed, serving searches over http", reason=describe(error))
        return False
    return True


async def _check_upgrades() -> None:
    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.method)

    routes = [Route("/page", page, methods=["GET", "POST"]), _UpgradeRoute("/upgrade", page)]
    app = Starlette(routes=routes)
    protocol = http_protocol(routes)
    compare(await converse(protocol, app, _PAGES), await converse("auto", app, _PAGES))
    [response] = await converse(protocol, app, [b"GET /upgrade HTTP/1.1\r\nhost: check\r\n\r\n"])
    if response != UPGRADED:
        raise ValueError(f"the upgraded connection returned {response[:80]!r}")


def compare(got: Sequence[bytes], expected: Sequence[bytes]) -> None:
    """Raises ValueError at the first response that differs."""
    for one, other in zip(got, expected, strict=True):
        if one != other:
            raise ValueError(f"response is {one[:80]!r}, expected {other[:80]!r}")


async def converse(http: Any, app: ASGIApp, requests: Sequence[bytes]) -> list[bytes]:
    """The responses to requests on one connection, created as uvicorn's server does; the last request closes it."""
    from uvicorn.server import ServerState

    config = uvicorn.Config(app, http=http, log_config=None, access_log=False, lifespan="off")
    # The private constructor of the protocols is called exactly as `uvicorn.Server` does.
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    # `uvicorn.Server` sets these headers while it runs; without it the two responses would not be comparable.
    state.default_headers = [(b"server", b"uvicorn")]
    ours, theirs = socket.socketpair()

    def protocol() -> asyncio.Protocol:
        protocol_class: Any = config.http_protocol_class
        return cast(asyncio.Protocol, protocol_class(config=config, server_state=state, app_state={}, _loop=loop))

    # A socket with a transport must be closed by it: otherwise the loop would watch a reused descriptor.
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
            # To the end of the stream: the last request closes the connection, and the protocol must do so.
            answers.append(await reader.read())
            return answers
        finally:
            writer.close()
    finally:
        transport.abort()


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """Reads a response with a content length or in chunks."""
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
        return _UpgradedConnection(connections)


class _UpgradedConnection(asyncio.Protocol):
    """Sends `UPGRADED` and closes the connection."""

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
