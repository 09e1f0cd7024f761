"""A folder becomes findable by content: a publisher and an indexer, both in this process, that talk over loopback.

    python examples/publish_a_folder.py [FOLDER]

Each of the two is usable alone: publish to any indexer of the network, or index any publisher.
"""

# ruff: noqa: T201, ASYNC110  (an example prints; uvicorn has no event to wait for)

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from argosy.base.clock import SystemClock, system_random
from argosy.base.metrics import Metrics
from argosy.ipni.backends.disk_usage import DiskUsage
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.formats import multiaddr, multihash
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.files import publish_paths
from argosy.ipni.publish.head_announcer import AnnounceClient, HeadAnnouncer
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher
from argosy.ipni.settings import SyncSettings
from argosy.ipni.sync.client import HttpSources
from argosy.ipni.web.app import indexer_app

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
FOLDER = FOLDER if FOLDER.is_dir() else FOLDER.parent
CONTENT_AT = "/dns4/example.org/tcp/443/https"
THIS_FILE = Path(__file__).read_bytes()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The URL at which the application answers."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await running


async def main() -> None:
    sources = HttpSources(SyncSettings(allow_private=True))  # the publisher is on this machine
    indexer = await IndexerService.open(MemoryIndexStore(), sources, usage=DiskUsage(["."]))
    publisher = await Publisher.open(PrivateKey.generate(), MemoryChain(), addresses=[CONTENT_AT])
    announcer: AnnounceClient | None = None
    try:
        async with (
            serving(indexer_app(indexer, clock=SystemClock(), metrics=Metrics())) as indexer_url,
            serving(publisher_app(publisher)) as chain_url,
        ):
            [published] = await publish_paths([FOLDER], publisher)
            print(f"published {published.files} files, {published.size_bytes} bytes")

            announcer = AnnounceClient([indexer_url], clock=SystemClock(), random=system_random())
            await HeadAnnouncer(publisher, announcer, [multiaddr.from_url(chain_url)], clock=SystemClock()).announce()
            await indexer.wait_idle(publisher.id)  # it reads the chain in its own time

            async with IndexerClient(find_url=indexer_url) as client:
                for content in (THIS_FILE, b"no provider has this"):
                    found = await client.find(multihash.of(content))
                    print("held at", [result.provider.addresses[0] for result in found] or "no place")
    finally:
        if announcer is not None:
            await announcer.close()
        await indexer.close()
        await sources.close()


asyncio.run(main())
