"""The whole broker in one process, without a server: for one machine, tests of applications, a laptop.

async with open_broker("file:///var/lib/app/jobs") as broker:
    await broker.shard(broker.shard_of("-")).enqueue([NewJob("mail")])
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.jobs.backends.shard_map_store import open_shard_map_store
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.settings import EMBEDDED, SPACE, JobsSettings, ShardStoreSettings
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import Space
from argosy.throttle.limits.factory import open_limiter
from argosy.throttle.limits.ports import RateLimiter

SHARDS = 1  # of a new embedded broker: one process gains nothing from more
READY_S_MAX = 60.0  # a shard replays its write-ahead log when it opens: 0.4 s for 100,000 rows
POLL_S = 0.01


@asynccontextmanager
async def open_broker(
    url: str,
    settings: JobsSettings | None = None,
    stored: ShardStoreSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[JobsNode]:
    """A broker that serves all shards of a location alone; Conflict if another process has the directory."""
    # No waits for other nodes: there are none.
    settings = settings or JobsSettings(shards=SHARDS, handoff_wait_s=0.0, quiesce_s=0.0)
    stored, environ = stored or ShardStoreSettings(), environ or {}
    with lock_dir(url):
        store = await SlateShardStore.open(url, stored, environ=environ)
        limiter = await open_limits(settings, metrics=metrics)
        clock, random = SystemClock(), system_random()
        # The ownership of a cluster, with a store in memory: the code path is the one of a node in a fleet.
        node = JobsNode(
            MemoryOwnershipStore(Space(SPACE, is_auctioned=False), clock=clock, random=random),
            store,
            open_shard_map_store(url, stored, environ),
            limiter,
            node_id=EMBEDDED,
            address="",
            settings=replace(settings, url=url),
            metrics=metrics,
        )
        try:
            await node.start()
            running = asyncio.ensure_future(node.run())
            try:
                await _until_served(node, running)
                yield node
            finally:
                # Drained and not cancelled: staged changes become durable before the store is closed.
                await node.drain()
                await running
        finally:
            await limiter.close()
            await store.close()


async def open_limits(settings: JobsSettings, *, metrics: Metrics | None = None) -> RateLimiter:
    """The rate limiter of the settings."""
    url = "memory://" if settings.limits == EMBEDDED else settings.limits
    return await open_limiter(url, clock=SystemClock(), metrics=metrics)


@contextmanager
def lock_dir(url: str) -> Iterator[None]:
    """Locks the directory. Two embedded brokers would fence each other again and again, because each has a lease of its
    own in its own memory; so the second one is rejected."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        yield
        return
    folder = Path(unquote(parts.path))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # flock, because the kernel releases it when the process ends, however it ends.
        handle = os.open(folder / ".alone", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Invalid(f"cannot use directory {folder} for jobs: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Conflict(f"directory {folder} is in use by another process; connect to it, or stop it first") from error
    finally:
        os.close(handle)


async def _until_served(node: JobsNode, running: "asyncio.Future[None]") -> None:
    try:
        async with asyncio.timeout(READY_S_MAX):
            while len(node.local()) < len(node.topology().shards):
                # A node that has failed would never serve: its error is raised instead of the timeout.
                if running.done():
                    running.result()
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise Unavailable(f"timed out after {READY_S_MAX:g} s opening the shards; see the log") from error
