"""`argosy up`: serves the given repositories on one host, in one process or with search nodes as child processes.

The start checks fast things before slow ones: arguments, port, state directory, catalog, nodes. A failed start restores
the catalog and removes the directories that it created.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from argosy.app.console import open_display
from argosy.app.http_server import bind_listener, open_port
from argosy.app.local_fleet import LocalFleet, total_budget
from argosy.app.process import Process, Role, run
from argosy.app.readiness import WorkingSetReadiness
from argosy.app.served_catalog import CatalogChange, add_to_catalog, forget_set_aside, set_catalog, undo
from argosy.app.settings import LogSettings, NodeSettings, user_data_dir, with_state_dir
from argosy.app.startup import Display
from argosy.app.stores import connect_registry
from argosy.app.working_sets import (
    CATALOG,
    RunningUp,
    WorkingSet,
    list_running,
    open_named_set,
    open_set,
)
from argosy.base import logs
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid
from argosy.base.settings import Loaded
from argosy.ipni.settings import IndexerHttpSettings, SyncSettings
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.registry.ports import RegistryStore
from argosy.registry.settings import RegistrySettings
from argosy.search.catalog.addresses import Address
from argosy.search.settings import FetchSettings, SearchSettings

LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANNOUNCE_S = 10.0  # announce interval: a node may start before the indexer, and repeated announcements are cheap
INDEXER_PORT = "ipni_http.port"
STOPPED = 128 + signal.SIGTERM

T = TypeVar("T")

log = logs.get("app")


@dataclass(frozen=True)
class UpOptions:
    """The command-line options."""

    nodes: int | None = None
    port: int | None = None
    data: str | None = None  # the state directory
    name: str | None = None  # of the one repository
    resume: bool = False  # also serve the previous content of the working set's catalog
    is_verbose: bool = False  # print the log instead of progress bars


def run_up(
    loaded: Loaded, addresses: Sequence[Address], options: UpOptions, *, started_at: float | None = None
) -> None:
    """Serves the repositories until a signal."""
    # A repository that is named twice is served once.
    addresses = list({address.url: address for address in addresses}.values())
    if options.name is not None and len(addresses) != 1:
        raise Invalid(f"--name requires a single path or URL; got {len(addresses)}")
    with ExitStack() as closing:
        up = _open(loaded, addresses, options, closing)
        reporting = open_display(
            loaded.get(LogSettings), up.log_folder, is_verbose=options.is_verbose, started_at=started_at
        )
        try:
            # Ctrl-C is blocked until the display can print "stopped"; otherwise its bar would stay on the screen.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                display = closing.enter_context(reporting)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            up.start(display)
        finally:
            if not up.is_up:  # an error, or a signal
                up.discard()


def _open(loaded: Loaded, addresses: Sequence[Address], options: UpOptions, closing: ExitStack) -> "_Up":
    """Opens the port and the state directory."""
    # As an exception, so that a start that is terminated is undone like one that fails.
    previous = signal.signal(signal.SIGTERM, _exit)  # until the process handles signals itself
    closing.callback(signal.signal, signal.SIGTERM, previous)
    data, given_by = user_data_dir(loaded), loaded.sources.get(("node", "port"))
    node = loaded.get(NodeSettings)
    if options.port is not None:
        node, given_by = replace(node, port=options.port), "--port"
    # The port before the directory: a port in use should be the first error, and nothing has been created then.
    port = open_port(node, given_by=given_by, running=list_running(data))
    closing.callback(port.listener.close)
    listeners = {"node.port": port.listener}
    if advertises(loaded):
        listeners[INDEXER_PORT] = closing.enter_context(_open_indexer_port(loaded))
        loaded = with_content_index(loaded, listeners[INDEXER_PORT].getsockname()[1])
    # Last, because only the run removes the directory after a failure.
    working_set = closing.enter_context(_open_working_set(data, addresses, options))
    node = replace(node, port=port.listener.getsockname()[1], data_dir=str(working_set.directory))
    loaded = loaded.with_sections(
        {
            NodeSettings: node,
            # Local paths are allowed: the user of this command can read whatever its process reads.
            FetchSettings: replace(loaded.get(FetchSettings), allow_local=True),
        }
    )
    loaded = _with_catalog_of(with_state_dir(loaded, str(working_set.directory)), data, addresses, options)
    return _Up(loaded, addresses, options, listeners, working_set, data, port.note)


def _open_working_set(data: Path, addresses: Sequence[Address], options: UpOptions) -> WorkingSet:
    if options.data is not None:
        return open_named_set(Path(os.path.abspath(os.path.expanduser(options.data))))
    if not addresses:
        return open_set(data, ())
    first = min(addresses, key=lambda each: each.url)
    return open_set(data, [each.url for each in addresses], name=first.name.rpartition("/")[2])


def _with_catalog_of(loaded: Loaded, data: Path, addresses: Sequence[Address], options: UpOptions) -> Loaded:
    """Without addresses, selects the user's default catalog, which several processes may serve."""
    if addresses or options.data is not None or ("registry", "url") in loaded.sources:
        return loaded
    registry = replace(loaded.get(RegistrySettings), url=f"sqlite:///{data / CATALOG}")
    return loaded.with_sections({RegistrySettings: registry})


class _Up:
    """One run, which has its port and state directory."""

    def __init__(
        self,
        loaded: Loaded,
        addresses: Sequence[Address],
        options: UpOptions,
        listeners: Mapping[str, socket.socket],
        working_set: WorkingSet,
        data: Path,
        note: str,
    ) -> None:
        self.is_up = False
        self.log_folder = working_set.directory / "logs"
        self._note = note
        self._loaded = loaded
        self._addresses = addresses
        self._options = options
        self._listeners = listeners
        self._working_set = working_set
        self._data = data
        self._change = CatalogChange()
        self._fleet: LocalFleet | None = None

    def start(self, display: Display) -> None:
        """Serves until a signal."""
        if self._note:
            display.note(self._note)
        # Before the process starts: its watcher must not see the catalog of the previous run first.
        self._change = self._with_registry(self._set_catalog)
        self._write_record()
        if self._change.set_aside:
            names = ", ".join(self._change.set_aside)
            display.note(f"not serving repositories added in earlier runs ({names}); use --resume to serve them")
        loaded = self._loaded
        indexers = [Role.INDEXER] if loaded.get(SearchSettings).advertise else []
        if self._options.nodes is None:
            roles = [Role.SEARCH, *indexers, Role.GATEWAY]
            run(loaded, roles, listeners=self._listeners, extend=self._extend, display=display)
            return
        display.set_step(f"starting {self._options.nodes} search nodes")
        free_bytes = CgroupMemory(limit_bytes=loaded.get(NodeSettings).memory_limit_bytes).free_bytes()
        self._fleet = LocalFleet(
            loaded,
            self._options.nodes,
            state_dir=self._working_set.directory,
            budget_bytes=total_budget(loaded.get(SearchSettings), free_bytes),
            clock=SystemClock(),
            random=system_random(),
        )
        with self._fleet as fleet:
            display.set_children(fleet.children)
            roles = [*indexers, Role.GATEWAY]
            run(fleet.loaded, roles, listeners=self._listeners, extend=self._extend, display=display)

    def discard(self) -> None:
        """Undoes the changes of a failed start."""
        if self._change != CatalogChange() and not self._has_own_catalog_in_new_directory():
            self._with_registry(lambda registry: undo(registry, self._change))
        self._working_set.discard()

    def _extend(self, process: Process) -> None:
        gateway, catalog = process.gateway, process.catalog
        assert gateway is not None, "the role gateway sets it"
        assert catalog is not None, "the role gateway opens it"
        readiness = WorkingSetReadiness(gateway, lambda: catalog.specs, SystemClock())
        process.ready.append(lambda: readiness.is_complete)
        process.tasks.append(readiness.run())
        process.on_up.append(self._on_up)
        if self._fleet is not None:
            process.tasks.append(self._fleet.supervise())

    def _on_up(self) -> None:
        self.is_up = True
        # Only now: a start that failed must leave the list for the next one.
        if self._options.resume:
            forget_set_aside(self._working_set.directory)

    async def _set_catalog(self, registry: RegistryStore) -> CatalogChange:
        if self._catalog_file() is None or not self._addresses:
            return await add_to_catalog(registry, self._addresses, self._options.name)
        folder, options = self._working_set.directory, self._options
        return await set_catalog(registry, self._addresses, options.name, folder, resume=options.resume)

    def _with_registry(self, call: Callable[[RegistryStore], Awaitable[T]]) -> T:
        async def run_with_registry() -> T:
            registry = await connect_registry(self._loaded.get(RegistrySettings))
            try:
                return await call(registry)
            finally:
                await registry.close()

        return asyncio.run(run_with_registry())

    def _catalog_file(self) -> str | None:
        """The file of the catalog; None if the settings name a registry."""
        if ("registry", "url") in self._loaded.sources:
            return None
        return self._loaded.get(RegistrySettings).url.removeprefix("sqlite:///")

    def _has_own_catalog_in_new_directory(self) -> bool:
        file = self._catalog_file()
        return self._working_set.is_new and file == str(self._working_set.directory / CATALOG)

    def _write_record(self) -> None:
        node = self._loaded.get(NodeSettings)
        host = f"[{node.host}]" if ":" in node.host else node.host
        record = RunningUp(
            pid=os.getpid(),
            address=node.address or f"{host}:{node.port}",
            data_dir=str(self._working_set.directory),
            catalog=self._catalog_file(),
            sources=tuple(address.url for address in self._addresses),
            started_at=time.time(),
        )
        self._working_set.write_record(self._data, record)


def _exit(*_: object) -> None:
    raise SystemExit(STOPPED)


def advertises(loaded: Loaded) -> bool:
    """Whether nodes advertise to an indexer in this process, which is the default."""
    return loaded.get(SearchSettings).advertise or ("search", "advertise") not in loaded.sources


def _open_indexer_port(loaded: Loaded) -> socket.socket:
    """Binds the configured port, else any free one, because users do not need it and 3000 is often taken."""
    http = loaded.get(IndexerHttpSettings)
    listener = bind_listener(
        http.host, http.port if ("ipni_http", "port") in loaded.sources else 0, settings=INDEXER_PORT
    )
    listener.listen()
    return listener


def with_content_index(loaded: Loaded, port: int) -> Loaded:
    """The settings for nodes that advertise to an indexer in this process, on `port`."""
    search, sync = loaded.get(SearchSettings), loaded.get(SyncSettings)
    http = replace(loaded.get(IndexerHttpSettings), port=port)
    ingest_port = http.port if http.ingest_port is None else http.ingest_port
    if ingest_port == 0:
        raise Invalid("argosy up announces to its own indexer; set ipni_http.ingest_port to a port other than 0")
    host = f"[{http.host}]" if ":" in http.host else http.host
    here = f"http://{host}:{ingest_port}"
    announcing = replace(
        search,
        advertise=True,
        announce_urls=(*search.announce_urls, here),
        announce_s=min(search.announce_s, ANNOUNCE_S),
    )
    # The publishers are on this host. With another listener address, remote clients could announce private addresses.
    reading = replace(sync, allow_private=sync.allow_private or http.host in LOOPBACK)
    return loaded.with_sections({SearchSettings: announcing, IndexerHttpSettings: http, SyncSettings: reading})
