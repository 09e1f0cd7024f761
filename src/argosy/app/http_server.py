"""Listeners, and uvicorn serving applications on them.

A listener is bound before anything else starts, so that a port in use is an error of the start and not a process that
nothing can reach. The process handles signals itself, because it drains before its server stops.
"""

import asyncio
import errno
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Protocol, cast, runtime_checkable

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.app.settings import NodeSettings
from argosy.app.working_sets import RunningUp
from argosy.base import logs
from argosy.base.errors import Invalid
from argosy.base.http import ErrorPage, exception_handlers
from argosy.base.metrics import CONTENT_TYPE, Metrics
from argosy.base.tracing import Tracer

# Clients of a drained process retry elsewhere, so a slow download is cut rather than delaying the exit.
SHUTDOWN_S = 2  # time for requests in progress when the process stops
START_POLL_S = 0.01
SIGNALS = (signal.SIGINT, signal.SIGTERM)

TRACE_HEADERS = ("traceparent", "tracestate")

log = logs.get("app")


def bind_listener(host: str, port: int, *, settings: str) -> socket.socket:
    """Binds a listener; `settings` names the settings to change if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm, which delays small responses, only if the protocol is given explicitly.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A restart must not wait until connections of the previous process have timed out.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Invalid(f"cannot listen on {host}:{port}: {error.strerror}; set {settings}") from error
    return listener


def listener_address(listener: socket.socket) -> str:
    """`host:port`, as in a URL."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, because the process drains first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_app(app: ASGIApp, listener: socket.socket, *, http: Any = "auto") -> None:
    """Serves requests until this task is cancelled."""
    # No access log: a line per search would cost more than many searches. No lifespan: `Process` starts and stops
    # the components itself.
    config = uvicorn.Config(
        app, http=http, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_S
    )
    if keeps_signals():
        await _Server(config).serve(sockets=[listener])
    else:
        await _serve_restoring_signals(uvicorn.Server(config), listener)


@lru_cache(maxsize=1)
def keeps_signals() -> bool:
    """Whether overriding the undocumented `capture_signals` prevents uvicorn from installing signal handlers."""

    class Entered(Exception):
        pass

    class Probe(uvicorn.Server):
        def capture_signals(self) -> Any:
            raise Entered

    serving = Probe(uvicorn.Config(_no_app, log_config=None, lifespan="off")).serve(sockets=[])
    try:
        serving.send(None)  # the first step, which would install the handlers
    except Entered:
        return True
    except BaseException as error:  # for any change in uvicorn: the fallback uses its public API only
        reason = f"{type(error).__name__}: {error}"
    else:
        reason = "capture_signals is not called first"
    finally:
        serving.close()
    log.warning("uvicorn private api changed, restoring signal handlers after its start", reason=reason)
    return False


async def _serve_restoring_signals(server: uvicorn.Server, listener: socket.socket) -> None:
    """uvicorn installs its signal handlers when it starts; ours are restored right afterwards."""
    ours = {number: signal.getsignal(number) for number in SIGNALS}
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(START_POLL_S)
        # After its start, because uvicorn offers no way to keep the handlers of the process.
        for number, handler in ours.items():
            if handler is not None:  # None: not installed from Python, so it cannot be restored
                signal.signal(number, handler)
        await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _no_app(_scope: object, _receive: object, _send: object) -> None: ...


def listen(this: NodeSettings) -> socket.socket:
    return bind_listener(this.host, this.port, settings="node.host or node.port, or pass --port")


def with_defaults(this: NodeSettings, listener: socket.socket) -> NodeSettings:
    """The settings with defaults that depend on the bound port: id and address."""
    port = listener.getsockname()[1]
    host = f"[{this.host}]" if ":" in this.host else this.host
    return replace(
        this, port=port, id=this.id or f"{socket.gethostname()}-{port}", address=this.address or f"{host}:{port}"
    )


def node_address(this: NodeSettings, *, in_frames: bool) -> str:
    """The address for searches. Nodes are called over HTTP, without an upgrade to frames, if it is a URL."""
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


class TraceContextMiddleware:
    """Continues the trace of the request's headers."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        with self._tracer.extract({name: headers[name] for name in TRACE_HEADERS if name in headers}):
            await self._app(scope, receive, send)


@runtime_checkable
class UpgradeRoute(Protocol):
    """A route that takes over the connections of its clients."""

    path: str

    def upgrade(self, connections: set[Any]) -> asyncio.Protocol: ...


def http_protocol(routes: Iterable[BaseRoute]) -> Any:
    """The `http` argument of uvicorn: HTTP, except for connections that start with a request for an `UpgradeRoute`.

    This uses uvicorn's private API; `uvicorn_checks.can_upgrade` tests whether it works. Without such routes: "auto".
    """
    upgrading = {f"GET {route.path} ".encode(): route for route in routes if isinstance(route, UpgradeRoute)}
    if not upgrading:
        return "auto"
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    http: Any = AutoHTTPProtocol

    class ConnectionSwitch(asyncio.Protocol):
        """Reads the first line of a connection, then switches it to the protocol for it."""

        def __init__(self, *, server_state: Any, **of_uvicorn: Any) -> None:
            self._http = partial(http, server_state=server_state, **of_uvicorn)
            self._connections: set[Any] = server_state.connections
            self._transport: asyncio.Transport
            self._received = b""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast(asyncio.Transport, transport)
            # uvicorn closes all connections in this set when it stops, also those that have sent nothing yet.
            self._connections.add(self)

        def data_received(self, data: bytes) -> None:
            self._received += data
            for line, route in upgrading.items():
                # A request line may arrive in pieces, at worst byte by byte.
                if line.startswith(self._received):
                    return  # the line is incomplete
                if self._received.startswith(line):
                    self._switch_to(route.upgrade(self._connections))
                    return
            self._switch_to(self._http())

        def _switch_to(self, protocol: asyncio.Protocol) -> None:
            self._connections.discard(self)
            self._transport.set_protocol(protocol)
            protocol.connection_made(self._transport)
            protocol.data_received(self._received)

        def connection_lost(self, exc: Exception | None) -> None:
            self._connections.discard(self)

        def shutdown(self) -> None:
            self._transport.close()

    return ConnectionSwitch


async def serve(
    routes: Sequence[BaseRoute],
    listener: socket.socket,
    middleware: Sequence[Middleware] = (),
    *,
    upgrades: bool = True,
    error_page: ErrorPage | None = None,
) -> None:
    """Serves requests until this task is cancelled; with `upgrades`, routes may take over connections."""
    web = Starlette(routes=routes, middleware=middleware, exception_handlers=exception_handlers(error_page))
    await serve_app(web, listener, http=http_protocol(routes) if upgrades else "auto")


PORT_TRIES_MAX = 50  # ports after the default one; then the system selects one


@dataclass(frozen=True)
class OpenPort:
    listener: socket.socket
    note: str = ""  # to show to the user


def open_port(node: NodeSettings, *, given_by: str | None, running: Sequence[RunningUp] = ()) -> OpenPort:
    """Listens on the port of the settings; `given_by` names the source of the port, None for the default."""
    try:
        return OpenPort(_listen(node.host, node.port))
    except OSError as error:
        # A configured port is where clients connect: another one would be a silent failure (decision 0036).
        if given_by is not None or error.errno != errno.EADDRINUSE:
            raise _listen_error(node, error, given_by, running) from error
    # After the next ports any free one, so that `argosy up` starts on a host with dozens of servers too.
    for port in [*range(node.port + 1, min(node.port + 1 + PORT_TRIES_MAX, 65536)), 0]:
        try:
            listener = _listen(node.host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise _listen_error(node, error, given_by, running) from error
            continue
        used = listener.getsockname()[1]
        return OpenPort(listener, f"port {node.port} is in use by {_user_of(node.port, running)}; using {used}")
    raise Invalid(f"no free port on {node.host}; set node.host, or pass --port")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm, which delays small responses, only if the protocol is given explicitly.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # At once: on Linux two sockets may be bound to one port until one of them listens (decision 0036).
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _listen_error(node: NodeSettings, error: OSError, given_by: str | None, running: Sequence[RunningUp]) -> Invalid:
    if error.errno == errno.EADDRINUSE:
        user = _user_of(node.port, running)
        return Invalid(
            f"port {node.port}, set by {given_by}, is in use by {user}; choose another one, or 0 for any free one"
        )
    return Invalid(
        f"cannot listen on {node.host}:{node.port}: {error.strerror}; set node.host or node.port, or pass --port"
    )


def _user_of(port: int, running: Sequence[RunningUp]) -> str:
    here = any(each.address.rpartition(":")[2] == str(port) for each in running)
    return "another argosy" if here else "another program"
