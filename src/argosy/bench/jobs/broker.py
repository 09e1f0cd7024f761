"""The broker as a process: `argosy serve --role jobs` in a new directory, with default settings and fsync."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.processes import UP_S_MAX, ServerProcess, wait_until, wait_until_seen
from argosy.jobs import JobsClient
from argosy.jobs.sdk.links import SILO, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo

NODE_INFO = RpcMethod(SILO, "GetNodeInfo", silo.GetNodeInfoResponse)


@asynccontextmanager
async def start_broker(directory: Path, **settings: object) -> AsyncIterator[tuple[ServerProcess, str]]:
    """The process and its gRPC address, once all its shards are served; it is killed when the block ends."""
    await asyncio.to_thread(directory.mkdir, parents=True)
    broker_settings = {
        "jobs_url": f"file://{directory}/jobs",
        # An acknowledged job is never lost (JOB-1), also when the machine fails: without fsync it would be another
        # test.
        "jobs_store_fsync": "always",
        "jobs_grpc_port": 0,
        "node_data_dir": directory,
        **settings,
    }
    process = ServerProcess("broker", "jobs", directory, broker_settings)
    try:
        await wait_until(process.is_up, UP_S_MAX, "the broker is up")
        address = str(next(process.log_events("jobs up"))["grpc"])
        async with JobsClient.connect(address) as client:

            async def is_served() -> bool:
                """The shard map names a node as soon as it has the lease; the node lists a shard only once it is
                open."""
                try:
                    shards = await client.shards()
                    node = await client.router.call(address, NODE_INFO, silo.GetNodeInfoRequest())
                except ArgosyError:
                    return False
                served = {shard.shard_id for shard in node.owned_shards}
                return bool(shards) and all(shard.address and shard.id in served for shard in shards)

            await wait_until_seen(is_served, UP_S_MAX, "all shards are served")
        yield process, address
    finally:
        process.stop()
