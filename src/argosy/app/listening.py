"""The port: bound before anything else, so that a taken one is an error and not a process that nobody reaches."""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.app.serving import bound, serve_app
from argosy.app.settings import NodeSettings
from argosy.base.http import ErrorPage, exception_handlers
from argosy.base.metrics import CONTENT_TYPE, Metrics
from argosy.base.tracing import Tracer

TRACE_HEADERS = ("traceparent", "tracestate")


def listen(this: NodeSettings) -> socket.socket:
    return bound(this.host, this.port, settings="node.host or node.port, or give --port")


def named(this: NodeSettings, listener: socket.socket) -> NodeSettings:
    """Fills in what depends on the port that was taken."""
    port = listener.getsockname()[1]
    host = f"[{this.host}]" if ":" in this.host else this.host
    return replace(
        this, port=port, id=this.id or f"{socket.gethostname()}-{port}", address=this.address or f"{host}:{port}"
    )


def node_address(this: NodeSettings, *, in_frames: bool) -> str:
    """What others send searches to: an address that is a URL is asked over HTTP, which needs no upgrade."""
    address = this.address or ""
    return address if in_frames or "://" in address else f"http://{address}"


def metrics_route(metrics: Metrics) -> Route:
    async def exposition(_: Request) -> Response:
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    return Route("/metrics", exposition)


def alive_route() -> Route:
    async def healthz(_: Request) -> Response:
        return PlainTextResponse("OK\n")

    return Route("/healthz", healthz)


class Continued:
    """Whoever asks within a trace is answered within it."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        with self._tracer.extract({name: headers[name] for name in TRACE_HEADERS if name in headers}):
            await self._app(scope, receive, send)


@runtime_checkable
class Upgrading(Protocol):
    """A route that takes over the connections of those who ask for it."""

    path: str

    def upgraded(self, connections: set[Any]) -> asyncio.Protocol: ...


def http_protocol(routes: Iterable[BaseRoute]) -> Any:
    """What uvicorn takes as `http`: HTTP, but for connections that begin with a request for one of these routes.

    This uses uvicorn's private API: `uvicorn_checks.can_upgrade` says whether it works. Without such routes: "auto".
    """
    upgrading = {f"GET {route.path} ".encode(): route for route in routes if isinstance(route, Upgrading)}
    if not upgrading:
        return "auto"
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    http: Any = AutoHTTPProtocol

    class Greeter(asyncio.Protocol):
        """Reads how a connection begins, and hands it on."""

        def __init__(self, *, server_state: Any, **of_uvicorn: Any) -> None:
            self._http = partial(http, server_state=server_state, **of_uvicorn)
            self._connections: set[Any] = server_state.connections
            self._transport: asyncio.Transport
            self._heard = b""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast(asyncio.Transport, transport)
            self._connections.add(self)

        def data_received(self, data: bytes) -> None:
            self._heard += data
            for line, route in upgrading.items():
                if line.startswith(self._heard):
                    return  # more is to come
                if self._heard.startswith(line):
                    self._hand_to(route.upgraded(self._connections))
                    return
            self._hand_to(self._http())

        def _hand_to(self, protocol: asyncio.Protocol) -> None:
            self._connections.discard(self)
            self._transport.set_protocol(protocol)
            protocol.connection_made(self._transport)
            protocol.data_received(self._heard)

        def connection_lost(self, exc: Exception | None) -> None:
            self._connections.discard(self)

        def shutdown(self) -> None:
            self._transport.close()

    return Greeter


async def serve(
    routes: Sequence[BaseRoute],
    listener: socket.socket,
    middleware: Sequence[Middleware] = (),
    *,
    upgrades: bool = True,
    error_page: ErrorPage | None = None,
) -> None:
    """Answers requests until this task is cancelled; with `upgrades`, routes may take connections over."""
    web = Starlette(routes=routes, middleware=middleware, exception_handlers=exception_handlers(error_page))
    await serve_app(web, listener, http=http_protocol(routes) if upgrades else "auto")
