"""The query layer of the content index: the role `keyspace`, the indexer's store on it, and its query frontend."""

from pathlib import Path

from starlette.types import ASGIApp

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.app.process import Process
from argosy.base import logs
from argosy.base.clock import SystemClock, system_random
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.keyspace.http import keyspace_app
from argosy.ipni.keyspace.runtime import IngestStore, KeyspaceFrontend, KeyspaceNode
from argosy.ipni.ports import IndexStore
from argosy.ipni.settings import IndexerSettings, KeyspaceSettings
from argosy.ipni.web.app import find_app

log = logs.get("app")


async def keyspace(process: Process) -> None:
    """Sets up a query node."""
    settings = process.loaded.get(KeyspaceSettings)
    node = await KeyspaceNode.open(settings, clock=SystemClock())
    process.closing.push_async_callback(node.close)
    process.tasks.append(node.run())
    listener = bind_listener(settings.host, settings.port, settings="keyspace.host or keyspace.port")
    process.closing.callback(listener.close)
    listener.listen()
    app = keyspace_app(node.service, token=settings.token, call_s=settings.call_s)
    process.tasks.append(serve_app(app, listener))
    log.info("query node up", name=settings.node, url=f"http://{listener_address(listener)}")


async def open_index_store(process: Process) -> IndexStore:
    """The store of an indexer: its own disk, or with a layout file the query nodes, and its own rows on its disk."""
    settings, layer = process.loaded.get(IndexerSettings), process.loaded.get(KeyspaceSettings)
    local = await RocksStore.open(Path(settings.dir), is_double_hashed=settings.is_double_hashed)
    if layer.layout_file is None:
        return local
    return await IngestStore.open(layer, local, clock=SystemClock(), random=system_random())


async def open_query_frontend(process: Process) -> ASGIApp | None:
    """The application that answers finds from the query layer; None if the settings name none."""
    settings = process.loaded.get(KeyspaceSettings)
    if settings.layout_file is None or not settings.indexer_urls:
        return None
    clock = SystemClock()
    layer = await KeyspaceFrontend.open(settings, id=process.this.id or "", clock=clock, random=system_random())
    process.closing.push_async_callback(layer.close)
    process.tasks.append(layer.run())
    return find_app(layer.frontend, clock=clock, metrics=process.metrics)
