"""The composition root: settings become components, components become a running node.

Only here is the environment read, are signals caught and backends chosen. Nothing falls back: a store that cannot be
reached is tried a bounded number of times and then ends the start with an error.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from argosy.base import logs
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid, Unavailable
from argosy.base.metrics import CONTENT_TYPE, Metrics
from argosy.base.retry import Backoff, retry
from argosy.base.settings import Loaded, load, setting
from argosy.base.tracing import NO_TRACER
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.ownership.backends.opening import open_store
from argosy.ownership.model import Lease, Space, Unit, UnitSpec
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings
from argosy.registry.settings import RegistrySettings
from argosy.throttle.settings import ThrottleSettings

# A store is asked five times within about eight seconds: enough for one that starts beside us, and soon noticed.
STORE_ATTEMPTS = Backoff(first_s=0.5, ceiling_s=4.0, attempts_max=5)

if TYPE_CHECKING:
    from argosy.base.backends.otel import OtelTracer

log = logs.get("app")


@dataclass(frozen=True)
class NodeSettings:
    """This process."""

    SECTION: ClassVar[str] = "node"

    id: str | None = setting(None, doc="the node's name in the fleet; by default host name and port")
    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(6070, min=0, max=65535, doc="port to listen on; 0 takes a free one")
    address: str | None = setting(None, doc="what other nodes and clients are told; by default host:port")
    memory_limit_bytes: int | None = setting(
        None, min=1, doc="memory this process may use; by default what the machine or container allows"
    )
    admin_token: str | None = setting(None, secret=True, doc="bearer token for admin routes, closed without it")


@dataclass(frozen=True)
class LogSettings:
    """What is written to stderr."""

    SECTION: ClassVar[str] = "log"

    level: str = setting("info", choices=("debug", "info", "warning", "error"), doc="the least that is written")
    format: str = setting("text", choices=("text", "json"), doc="text for people, json for machines")

    @property
    def is_json(self) -> bool:
        return self.format == "json"


@dataclass(frozen=True)
class TracingSettings:
    """OpenTelemetry; off unless there is an endpoint."""

    SECTION: ClassVar[str] = "tracing"

    endpoint: str | None = setting(None, doc="OTLP/HTTP address of a collector, such as http://127.0.0.1:4318/v1/traces")
    service_name: str = setting("argosy", doc="the name spans carry")


SECTIONS: tuple[type, ...] = (
    NodeSettings,
    OwnershipSettings,
    RegistrySettings,
    ThrottleSettings,
    LogSettings,
    TracingSettings,
)


def load_settings(path: Path | None) -> Loaded:
    """Defaults, then the file, then the environment; nobody else looks at the environment."""
    return load(SECTIONS, path=path, environ=os.environ)


class WishList:
    """A catalog written down in the settings."""

    def __init__(self, names: Iterable[str]) -> None:
        self._specs = [UnitSpec(name) for name in dict.fromkeys(names)]

    async def units(self) -> list[UnitSpec]:
        return self._specs


class BareHolding:
    """The workload of a node that has no plane to serve: it holds its units, and they take no memory."""

    async def warm(self, lease: Lease) -> int:
        return 0

    async def drop(self, unit: Unit) -> None:
        return None


async def reach_store(settings: OwnershipSettings, *, space: str | None = None) -> OwnershipStore:
    """Opens the configured store, with a bounded number of attempts; the last error says how many there were."""
    clock, random = SystemClock(), system_random()
    where = Space(space or settings.space, is_auctioned=settings.placement == "auction")

    async def attempt() -> OwnershipStore:
        try:
            return await open_store(
                settings.store, where, clock=clock, random=random, grace_s=settings.grace, namespace=settings.namespace
            )
        except Unavailable as why:
            log.warning("store away", why=str(why))
            raise

    try:
        return await retry(attempt, STORE_ATTEMPTS, clock=clock, random=random)
    except Unavailable as why:
        raise Unavailable(f"{why} (tried {STORE_ATTEMPTS.attempts_max} times; there is no other store to use)") from why


def run_up(loaded: Loaded) -> None:
    """Runs a node until it is told to stop; the signals' first mention drains, the second ends at once."""
    settings = loaded.get(LogSettings)
    logs.configure(level=settings.level, format="json" if settings.is_json else "text")
    for name in loaded.ignored:
        log.warning("setting ignored: no such section", variable=name)
    asyncio.run(_up(loaded))


async def _up(loaded: Loaded) -> None:
    listener = _listen(loaded.get(NodeSettings))
    this = _named(loaded.get(NodeSettings), listener)
    settings = loaded.get(OwnershipSettings)
    metrics = Metrics()
    tracer = _tracer(loaded.get(TracingSettings))
    store = await reach_store(settings)
    node = OwnershipNode(
        store,
        WishList(settings.units),
        BareHolding(),
        CgroupMemory(limit_bytes=this.memory_limit_bytes),
        node_id=this.id or "",
        address=this.address or "",
        settings=settings,
        metrics=metrics,
        tracer=tracer or NO_TRACER,
    )
    try:
        await _run_until_told(node, listener, this, metrics)
    finally:
        listener.close()
        await store.close()
        if tracer is not None:
            tracer.close()


async def _run_until_told(
    node: OwnershipNode, listener: socket.socket, this: NodeSettings, metrics: Metrics
) -> None:
    running = asyncio.ensure_future(node.run())
    serving = asyncio.ensure_future(_serve(node, listener, this, metrics))
    draining: list[asyncio.Task[None]] = []

    def told() -> None:
        if draining:
            log.warning("stopping at once: what is held expires by itself")
            running.cancel()
        else:
            log.info("draining; tell again to stop at once")
            draining.append(asyncio.ensure_future(node.drain()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    _greet(node, this)
    try:
        await asyncio.wait([running, serving], return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and not serving.cancelled():
            serving.result()
        with suppress(asyncio.CancelledError):
            await running
    finally:
        for task in (running, serving, *draining):
            task.cancel()
        await asyncio.gather(running, serving, *draining, return_exceptions=True)


async def _serve(node: OwnershipNode, listener: socket.socket, this: NodeSettings, metrics: Metrics) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    from argosy.base.http import EXCEPTION_HANDLERS
    from argosy.ownership.http import ownership_routes

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("OK\n")

    async def readyz(_: Request) -> Response:
        is_ready = node.is_ready()
        return JSONResponse({"ready": is_ready, "node": node.node_id}, 200 if is_ready else 503)

    async def exposition(_: Request) -> Response:
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    routes = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", exposition)]
    routes += ownership_routes(node, admin_token=this.admin_token)
    web = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    config = uvicorn.Config(web, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are ours: the first one drains."""
            yield

    await Server(config).serve(sockets=[listener])


def _tracer(settings: TracingSettings) -> "OtelTracer | None":
    if settings.endpoint is None:
        return None
    from argosy.base.backends.otel import otel_tracer

    return otel_tracer(settings.endpoint, settings.service_name)


def _listen(this: NodeSettings) -> socket.socket:
    """Binds before anything else, so that a taken port is an error and not a node that nobody reaches."""
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


def _named(this: NodeSettings, listener: socket.socket) -> NodeSettings:
    """Fills in what depends on the port that was taken."""
    port = listener.getsockname()[1]
    host = f"[{this.host}]" if ":" in this.host else this.host
    return replace(
        this, port=port, id=this.id or f"{socket.gethostname()}-{port}", address=this.address or f"{host}:{port}"
    )


def _greet(node: OwnershipNode, this: NodeSettings) -> None:
    log.info("node up", node=node.node_id, address=this.address)
    if sys.stderr.isatty():
        url = f"http://{this.address}"
        sys.stderr.write(f"\n  argosy is up at {url}   ready: {url}/readyz   leases: {url}/v1/leases\n")
        sys.stderr.write(f"  metrics: {url}/metrics   scale: {url}/scale   Ctrl-C drains and stops\n\n")
