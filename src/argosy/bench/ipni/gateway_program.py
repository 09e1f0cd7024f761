"""A process that is nothing but the content index's front door, so that its own share can be told.

    python -m argosy.bench.ipni.gateway_program URL...

It asks the indexers at these URLs and keeps no answers. It prints where it listens, and serves until it is ended.
"""

import asyncio
import sys

import uvloop

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.gateway.content.http import content_app
from argosy.gateway.content.model import Backend
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings

HOST = "127.0.0.1"


async def serve(urls: list[str]) -> None:
    gateway = ContentGateway([Backend.at(url) for url in urls], ContentSettings(cache_entries=0))
    listener = bind_listener(HOST, 0, settings="nothing: the port is free")
    listener.listen()
    sys.stdout.write(f"http://{listener_address(listener)}\n")
    sys.stdout.flush()
    try:
        await serve_app(content_app(gateway), listener)
    finally:
        await gateway.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1:]))
