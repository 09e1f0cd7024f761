"""The role `content`: one door over many indexers, on a port of its own; and the same door among a gateway's routes."""

import asyncio
import signal

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.app.process import Process
from argosy.app.roles.keyspace import open_query_frontend
from argosy.base import logs
from argosy.base.clock import SystemClock
from argosy.base.errors import Invalid
from argosy.gateway.content.backends.pool_file import PoolFileWatcher
from argosy.gateway.content.http import content_app
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.content.settings import ContentSettings

log = logs.get("app")


async def content(process: Process) -> None:
    """Makes the process a door to all indexers that its settings name, or to their query layer."""
    settings = process.loaded.get(ContentSettings)
    app = await open_query_frontend(process)
    if app is None:
        door = open_content_gateway(process)
        if door is None:
            raise Invalid("no indexer to ask: set content.backends, content.pool_file or keyspace.layout_file")
        app = content_app(door)
    listener = bind_listener(settings.host, settings.port, settings="content.host or content.port")
    process.closing.callback(listener.close)
    listener.listen()
    process.tasks.append(serve_app(app, listener))
    log.info("content door up", url=f"http://{listener_address(listener)}")


def open_content_gateway(process: Process) -> ContentGateway | None:
    """The door, with its list of indexers followed; None if the settings name neither indexers nor a file of them."""
    settings = process.loaded.get(ContentSettings)
    if not settings.backends and settings.pool_file is None:
        return None
    door = ContentGateway(settings=settings, metrics=process.metrics, tracer=process.tracer)
    process.closing.push_async_callback(door.close)
    followed = PoolFileWatcher(door, settings, SystemClock())
    if settings.pool_file is not None:
        process.tasks.append(followed.run())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, followed.look)
        process.closing.callback(loop.remove_signal_handler, signal.SIGHUP)
    return door
