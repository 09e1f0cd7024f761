"""A process and its roles. Each role builds its components from the settings and adds them to the `Process`.

    hold      owns units that its settings name: leases only
    search    bids for repositories, indexes them in memory and searches them
    jobs      owns and serves shards of the job broker
    indexer   follows publishers and resolves content to providers
    assigner  assigns publishers to the indexers of a pool
    content   answers finds over all indexers of a pool
    keyspace  stores a partition of all multihashes, for indexers that write to such nodes
    gateway   serves APIs and web pages over all search nodes

A process may have several roles; search and gateway in one process communicate without a network.
"""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from argosy.app.http_server import (
    TraceContextMiddleware,
    alive_route,
    listen,
    metrics_route,
    node_address,
    serve,
    with_defaults,
)
from argosy.app.settings import LogSettings, NodeSettings, TracingSettings
from argosy.app.startup import Display, LogDisplay, Status, watch_startup
from argosy.app.stores import connect_registry, connect_store
from argosy.app.uvicorn_checks import can_upgrade
from argosy.base import logs
from argosy.base.http import ErrorPage
from argosy.base.metrics import Metrics
from argosy.base.settings import Loaded
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.settings import OwnershipSettings
from argosy.registry.settings import RegistrySettings

if TYPE_CHECKING:
    from argosy.gateway.service import Gateway
    from argosy.ipni.ports import FindApi
    from argosy.ownership.node_service import OwnershipNode
    from argosy.registry.ports import RegistryStore
    from argosy.search.catalog.watcher import CatalogWatcher
    from argosy.search.fleet.ports import Node


# Settings of Python's garbage collection. Answers consist of thousands of small objects that live for a millisecond and
# are freed by reference counts. By default a collection runs after every 700 of them, and a full one also visits all
# imported modules; that took a tenth of all CPU time under load.
YOUNG_OBJECTS_MAX = 20_000
OLD_GENERATIONS = (10, 10)

log = logs.get("app")


class Role(StrEnum):
    HOLD = "hold"
    SEARCH = "search"
    JOBS = "jobs"
    INDEXER = "indexer"
    ASSIGNER = "assigner"
    CONTENT = "content"
    KEYSPACE = "keyspace"
    GATEWAY = "gateway"


class FleetMember(Protocol):
    """A member of a fleet, which can be drained."""

    async def run(self) -> None: ...

    async def drain(self) -> None: ...


@dataclass
class Process:
    """The components that the roles of a process share, and what each role adds to it."""

    loaded: Loaded
    this: NodeSettings
    store: OwnershipStore
    metrics: Metrics
    tracer: Tracer
    closing: AsyncExitStack  # closes everything that roles open
    node_address: str = ""  # the address for searches from gateways and other nodes
    listeners: Mapping[str, socket.socket] = field(
        default_factory=dict
    )  # opened before the start, by the setting that names the port
    display: Display = field(default_factory=LogDisplay)
    routes: list[BaseRoute] = field(default_factory=list)
    tasks: list[Coroutine[Any, Any, None]] = field(default_factory=list)
    ready: list[Callable[[], bool]] = field(default_factory=list)
    node: "OwnershipNode | None" = None  # the process ends when it has left the fleet
    members: list["FleetMember"] = field(default_factory=list)  # further members; the process ends when all have left
    registry: "RegistryStore | None" = None
    catalog: "CatalogWatcher | None" = None
    indexer: "FindApi | None" = None  # the finds of the content indexer in this process
    local_node: "Node | None" = None  # the search node of this process, called without a network
    gateway: "Gateway | None" = None
    status: Status | None = None  # of the repositories, as the gateway of this process sees them
    on_up: list[Callable[[], None]] = field(default_factory=list)  # called when the process serves requests
    error_page: ErrorPage | None = None  # for browsers, if this process has web pages

    def is_ready(self) -> bool:
        return all(ready() for ready in self.ready)


RoleSetup = Callable[[Process], Awaitable[None]]


def run(
    loaded: Loaded,
    roles: Sequence[Role],
    *,
    listeners: Mapping[str, socket.socket] | None = None,
    extend: Callable[[Process], None] | None = None,
    display: Display | None = None,
) -> None:
    """Runs a process until a signal: the first one drains it, the second one stops it immediately.

    `listeners` are opened already, by the setting that names their port. `extend` is called after all roles and may add
    tasks and readiness conditions. A `display` has configured the log, and a signal during the start raises
    KeyboardInterrupt; without one, the log goes to stderr, and the process does not wait for its repositories.
    """
    settings = loaded.get(LogSettings)
    if display is None:
        logs.configure(level=settings.level, format="json" if settings.is_json else "text")
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            try:
                runner.run(_run(loaded, roles, listeners or {}, extend, display))
            except asyncio.CancelledError:  # by a signal during the start
                if display is not None:
                    raise KeyboardInterrupt from None
            finally:
                # Blocked before the loop closes and restores the default action, which would kill a drained process.
                signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    finally:
        # Closing the loop restores the default action of SIGTERM. A SIGTERM that arrives now, while Python exits, must
        # not turn the exit code of a drained process into a failure.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed, which serves about twice as many requests per second."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def _run(
    loaded: Loaded,
    roles: Sequence[Role],
    listeners: Mapping[str, socket.socket],
    extend: Callable[[Process], None] | None,
    display: Display | None,
) -> None:
    reporter = display or LogDisplay()
    cancel_on_signal(reporter)
    listener = listeners.get("node.port") or listen(loaded.get(NodeSettings))
    async with AsyncExitStack() as closing:
        # First, so that it is closed last, after everything that may still use it.
        closing.callback(listener.close)
        this = with_defaults(loaded.get(NodeSettings), listener)
        store = await connect_store(loaded.get(OwnershipSettings))
        closing.push_async_callback(store.close)
        tracer = _tracer(loaded.get(TracingSettings), closing)
        # Only search nodes serve frames.
        upgrades = Role.SEARCH not in roles or await can_upgrade()
        address = node_address(this, in_frames=upgrades)
        process = Process(loaded, this, store, Metrics(), tracer, closing, address, listeners, reporter)
        closing.callback(_close_coroutines, process.tasks)
        for role in sorted(
            roles, key=list(Role).index
        ):  # in this order: the gateway uses the components of the roles before it
            await _load_role(role)(process)
        if extend is not None:
            extend(process)
        process.routes += [metrics_route(process.metrics), _ready_route(process), alive_route()]
        middleware = [] if tracer is NO_TRACER else [Middleware(TraceContextMiddleware, tracer=tracer)]
        serving = serve(process.routes, listener, middleware, upgrades=upgrades, error_page=process.error_page)
        status = None if display is None else process.status
        process.tasks += [serving, watch_startup(reporter, process.is_ready, status)]
        listener.listen()  # before the address is published; connections wait in the backlog until the server runs
        # A process without members of a fleet ends at the first signal.
        is_over = asyncio.Event()

        members = [member for member in (process.node, *process.members) if member is not None]

        async def drain() -> None:
            is_over.set()
            await asyncio.gather(*(member.drain() for member in members))

        await run_until_signal(
            _run_all(members) if members else _wait(is_over),
            process.tasks,
            drain=drain,
            on_up=lambda: _report_up(process),
            display=reporter,
        )


def _close_coroutines(tasks: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Closes coroutines that never ran because a role failed; Python would warn about them."""
    for task in tasks:
        task.close()


async def _wait(is_over: asyncio.Event) -> None:
    await is_over.wait()


async def _run_all(members: Sequence[FleetMember]) -> None:
    await asyncio.gather(*(member.run() for member in members))


# By name, not by import: a job broker must start without loading numba, and a gateway without a storage engine.
_ROLES = {
    Role.HOLD: "argosy.app.roles.hold:hold",
    Role.SEARCH: "argosy.app.roles.search:search",
    Role.JOBS: "argosy.app.roles.jobs:jobs",
    Role.INDEXER: "argosy.app.roles.indexer:indexer",
    Role.ASSIGNER: "argosy.app.roles.assigner:assigner",
    Role.CONTENT: "argosy.app.roles.content:content",
    Role.KEYSPACE: "argosy.app.roles.keyspace:keyspace",
    Role.GATEWAY: "argosy.app.roles.gateway:gateway",
}


def _load_role(role: Role) -> RoleSetup:
    """Imports the module of the role, so that a process loads only what its roles need."""
    module, _, name = _ROLES[role].partition(":")
    setup: RoleSetup = getattr(import_module(module), name)
    return setup


async def with_catalog(process: Process) -> "CatalogWatcher":
    """The watched catalog of this process, opened by the first role that needs it."""
    from argosy.search.catalog.watcher import CatalogWatcher

    # One watcher for all roles: the gateway and the search node of a process must see the same catalog.
    if process.catalog is None:
        process.registry = await connect_registry(process.loaded.get(RegistrySettings))
        process.closing.push_async_callback(process.registry.close)
        process.catalog = CatalogWatcher(process.registry)
        process.tasks.append(process.catalog.run())
    return process.catalog


def _ready_route(process: Process) -> Route:
    async def readyz(_: Request) -> Response:
        is_ready = process.is_ready()
        return JSONResponse({"ready": is_ready, "node": process.this.id}, 200 if is_ready else 503)

    return Route("/readyz", readyz)


def _tracer(settings: TracingSettings, closing: AsyncExitStack) -> Tracer:
    if settings.endpoint is None:
        return NO_TRACER
    from argosy.base.backends.otel import otel_tracer

    tracer = otel_tracer(settings.endpoint, settings.service_name)
    closing.callback(tracer.close)
    return tracer


def _report_up(process: Process) -> None:
    _tune_garbage_collection()
    url = f"http://{process.this.address}"
    log.info("node up", node=process.this.id, address=process.this.address, url=url)
    process.display.set_url(url)
    for call in process.on_up:
        call()


def _tune_garbage_collection() -> None:
    """Called once when the process is set up: what exists now lives as long as the process, so collections skip it."""
    gc.collect()
    # Frozen objects are not visited by later collections; collected before, so that no garbage is kept forever.
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, *OLD_GENERATIONS)


INTERRUPTED = 130  # the exit code that shells report after SIGINT


def cancel_on_signal(display: Display) -> None:
    """A process that is starting owns nothing, so the first signal cancels this task; a second one exits.

    The exit does not wait for threads, because a thread that compiles kernels cannot be interrupted.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    signals: list[int] = []

    def on_signal(number: int) -> None:
        # Not `sys.exit`: it would wait for threads, and one of them may be compiling kernels for a minute.
        if signals:
            os._exit(INTERRUPTED)
        signals.append(number)
        log.info("interrupted while starting")
        display.show_stopping()
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


async def run_until_signal(
    main: Coroutine[Any, Any, None],
    background: Sequence[Coroutine[Any, Any, None]],
    *,
    drain: Callable[[], Awaitable[None]],
    on_up: Callable[[], None],
    display: Display,
) -> None:
    """Runs `main` and the background tasks until `main` ends, then cancels the others.

    A signal calls `drain`, which must make `main` end; a second signal cancels `main`. A background task that fails
    fails the process.
    """
    running = asyncio.ensure_future(main)
    others = [asyncio.ensure_future(other) for other in background]
    draining: list[asyncio.Future[None]] = []

    def on_signal() -> None:
        if draining:
            log.warning("stopping immediately; leases expire after their TTL")
            display.show_stopping()
            running.cancel()
        else:
            log.info("draining; send the signal again to stop immediately")
            display.show_draining()
            draining.append(asyncio.ensure_future(drain()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    on_up()
    try:
        # The first that ends decides: a background task ends only by failing.
        done, _ = await asyncio.wait([running, *others], return_when=asyncio.FIRST_COMPLETED)
        for ended in done:
            if ended is not running:
                ended.result()
        # Cancelled by the second signal: an immediate stop is what the user wanted and no failure.
        with suppress(asyncio.CancelledError):
            await running
    finally:
        tasks = [running, *others, *draining]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
