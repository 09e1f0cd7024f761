"""The processes of the benchmark that are not `argosy serve`: a publisher, and a gateway with nothing else.

    python -m argosy.bench.ipni.programs publishers CODEC SEED CHAINS ADS CHUNKS CHUNK
    python -m argosy.bench.ipni.programs gateway URL...

`publishers` serves chains over HTTP from memory, each below a path of its own (`/0`, `/1`, …). When all are built it
prints a line of JSON with its address, and the publisher and the advertisements of each chain. `gateway` queries the
indexers at these URLs, caches nothing, and prints its address. Both serve until they are killed.
"""

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import uvloop

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.bench.ipni.chains import ChainShape, PublishedChain, build_chain
from argosy.gateway.content.http import content_app
from argosy.gateway.content.model import Backend
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HOST = "127.0.0.1"
SETTINGS = "nothing; the system chooses a free port"  # what the error of a port in use would name


class ChainApp:
    """The chains as an ASGI application.

    Without a framework and without parsing the request: it shares the machine with the indexer that is measured.
    """

    def __init__(self, chains: list[PublishedChain]) -> None:
        self._bodies: dict[str, bytes] = {}
        for number, chain in enumerate(chains):
            base = f"/{number}/ipni/v1/ad/"
            self._bodies[f"{base}head"] = chain.signed_head()
            self._bodies.update((base + name, block) for name, block in chain.blocks.items())

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        found = self._bodies.get(scope["path"])
        status, body = (200, found) if found is not None else (404, b"")
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def serve_publishers(codec: str, seed: int, chains: int, shape: ChainShape) -> None:
    built = [build_chain(seed + number, shape, codec) for number in range(chains)]
    listener = bind_listener(HOST, 0, settings=SETTINGS)
    listener.listen()
    described = [{"publisher": each.publisher, "ads": [str(cid) for cid in each.ads]} for each in built]
    _print_line(json.dumps({"address": listener_address(listener), "chains": described}))
    await serve_app(ChainApp(built), listener)


async def serve_gateway(urls: list[str]) -> None:
    # Without a cache: a cached response would measure the cache and not the fan-out.
    gateway = ContentGateway([Backend.at(url) for url in urls], ContentSettings(cache_entries=0))
    listener = bind_listener(HOST, 0, settings=SETTINGS)
    listener.listen()
    _print_line(f"http://{listener_address(listener)}")
    try:
        await serve_app(content_app(gateway), listener)
    finally:
        await gateway.close()


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    program, *arguments = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if program == "gateway":
            runner.run(serve_gateway(arguments))
        else:
            codec, *numbers = arguments
            seed, chains, ads, chunks, chunk = map(int, numbers)
            runner.run(serve_publishers(codec, seed, chains, ChainShape(ads, chunks, chunk)))
