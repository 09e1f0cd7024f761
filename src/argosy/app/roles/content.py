"""The role `content`: answers finds over many indexers, on a port of its own or as routes of a gateway."""

import asyncio
import signal

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.app.process import Process
from argosy.app.roles.keyspace import open_query_frontend
from argosy.base import logs
from argosy.base.clock import SystemClock
from argosy.base.errors import Invalid
from argosy.gateway.content.http import content_app
from argosy.gateway.content.pool_file import PoolFileWatcher
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings

log = logs.get("app")


async def content(process: Process) -> None:
    """Sets up the content gateway over the indexers of the settings, or over their query layer."""
    settings = process.loaded.get(ContentSettings)
    app = await open_query_frontend(process)
    if app is None:
        content_gateway = open_content_gateway(process)
        if content_gateway is None:
            raise Invalid("no indexers configured; set content.backends, content.pool_file or keyspace.layout_file")
        app = content_app(content_gateway)
    listener = bind_listener(settings.host, settings.port, settings="content.host or content.port")
    process.closing.callback(listener.close)
    # Before other roles start, so that clients that connect meanwhile wait instead of being refused.
    listener.listen()
    process.tasks.append(serve_app(app, listener))
    log.info("content gateway up", url=f"http://{listener_address(listener)}")


def open_content_gateway(process: Process) -> ContentGateway | None:
    """The content gateway, which watches the pool file; None if the settings name neither indexers nor a pool file."""
    settings = process.loaded.get(ContentSettings)
    if not settings.backends and settings.pool_file is None:
        return None
    content_gateway = ContentGateway(settings=settings, metrics=process.metrics, tracer=process.tracer)
    process.closing.push_async_callback(content_gateway.close)
    watcher = PoolFileWatcher(content_gateway, settings, SystemClock())
    if settings.pool_file is not None:
        process.tasks.append(watcher.run())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, watcher.reload_if_changed)
        process.closing.callback(loop.remove_signal_handler, signal.SIGHUP)
    return content_gateway
