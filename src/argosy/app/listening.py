"""The port: bound before anything else, so that a taken one is an error and not a process that nobody reaches."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.app.settings import NodeSettings
from argosy.base.errors import Invalid
from argosy.base.http import EXCEPTION_HANDLERS
from argosy.base.metrics import CONTENT_TYPE, Metrics
from argosy.base.tracing import Tracer

TRACE_HEADERS = ("traceparent", "tracestate")
SHUTDOWN_S = 2          # requests in flight get this long when the process ends


def listen(this: NodeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in this.host else socket.AF_INET
    # With the protocol named, asyncio turns off Nagle's algorithm, which holds small answers back.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((this.host, this.port))
    except OSError as why:
        listener.close()
        raise Invalid(f"cannot listen on {this.host}:{this.port} ({why.strerror}): set node.host or node.port") from why
    return listener


def named(this: NodeSettings, listener: socket.socket) -> NodeSettings:
    """Fills in what depends on the port that was taken."""
    port = listener.getsockname()[1]
    host = f"[{this.host}]" if ":" in this.host else this.host
    return replace(
        this, port=port, id=this.id or f"{socket.gethostname()}-{port}", address=this.address or f"{host}:{port}"
    )


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
        with self._tracer.continued({name: headers[name] for name in TRACE_HEADERS if name in headers}):
            await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: the first one drains."""
        yield


async def serve(routes: Sequence[BaseRoute], listener: socket.socket, middleware: Sequence[Middleware] = ()) -> None:
    """Answers requests until this task is cancelled."""
    web = Starlette(routes=routes, middleware=middleware, exception_handlers=EXCEPTION_HANDLERS)
    config = uvicorn.Config(
        web, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_S
    )
    await _Server(config).serve(sockets=[listener])
