"""The role `assigner`: assigns publishers to the indexers of a pool, and hands them off from frozen ones."""

import asyncio
import signal

from starlette.applications import Starlette

from argosy import __version__
from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.app.process import Process
from argosy.base import logs
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid
from argosy.base.http import EXCEPTION_HANDLERS
from argosy.ipni.assigner.http import assigner_routes
from argosy.ipni.assigner.runtime import Assigner
from argosy.ipni.settings import AssignerSettings

log = logs.get("app")


async def assigner(process: Process) -> None:
    """Sets up an assigner. It reloads a changed pool file by itself, and at once on SIGHUP."""
    settings = process.loaded.get(AssignerSettings)
    if settings.pool_file is None and not settings.forward_urls:
        raise Invalid(
            "no indexers configured; set assigner.pool_file, or assigner.forward_urls to only forward announcements"
        )
    assigning = Assigner(settings, clock=SystemClock(), random=system_random(), metrics=process.metrics)
    process.closing.push_async_callback(assigning.close)
    process.tasks.append(assigning.run())
    process.ready.append(assigning.service.is_ready)
    # The set holds references, because the event loop holds its tasks only weakly.
    loop, reading = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def reload_pool() -> None:
        task = asyncio.ensure_future(assigning.reload_if_changed())
        reading.add(task)
        task.add_done_callback(reading.discard)

    loop.add_signal_handler(signal.SIGHUP, reload_pool)
    process.closing.callback(loop.remove_signal_handler, signal.SIGHUP)
    routes = assigner_routes(
        assigning.service, admin_token=process.this.admin_token, reload=assigning.reload, version=__version__
    )
    listener = bind_listener(settings.host, settings.port, settings="assigner.host or assigner.port")
    process.closing.callback(listener.close)
    listener.listen()
    process.tasks.append(serve_app(Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS), listener))
    log.info("assigner up", url=f"http://{listener_address(listener)}")
