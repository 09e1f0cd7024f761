"""A process that serves chains over HTTP, from memory and without looking at what it is asked with.

    python -m argosy.bench.ipni.publisher_program CODEC SEED CHAINS ADS CHUNKS CHUNK

When all is made it prints a line of JSON: where it listens, and of each chain the publisher and the advertisements.
Each chain lies under a path of its own, `/0`, `/1` and so on. It serves until it is ended.
"""

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import uvloop

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.bench.ipni.chains import Chain, Shape, made

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HOST = "127.0.0.1"


class Served:
    """The chains as an application."""

    def __init__(self, chains: list[Chain]) -> None:
        self._bodies: dict[str, bytes] = {}
        for number, chain in enumerate(chains):
            base = f"/{number}/ipni/v1/ad/"
            self._bodies[f"{base}head"] = chain.signed_head()
            self._bodies.update((base + name, block) for name, block in chain.blocks.items())

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        body = self._bodies.get(scope["path"])
        status, told = (200, body) if body is not None else (404, b"")
        headers = [(b"content-length", b"%d" % len(told))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": told})


def main() -> None:
    codec, *numbers = sys.argv[1:]
    seed, chains, ads, chunks, chunk = map(int, numbers)
    shape = Shape(ads, chunks, chunk)
    all_made = [made(seed + number, shape, codec) for number in range(chains)]
    listener = bind_listener(HOST, 0, settings="nothing: the port is free")
    listener.listen()
    told = [{"publisher": each.publisher, "ads": [str(cid) for cid in each.ads]} for each in all_made]
    sys.stdout.write(json.dumps({"address": listener_address(listener), "chains": told}) + "\n")
    sys.stdout.flush()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_app(Served(all_made), listener))


if __name__ == "__main__":
    main()
