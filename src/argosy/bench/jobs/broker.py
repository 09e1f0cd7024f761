"""The broker as a process: `argosy serve --role jobs` on a new folder, with the settings as they come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.fleet.members import UP_S_MAX, Member, until, until_seen
from argosy.jobs import JobsClient
from argosy.jobs.sdk.links import SILO, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo

NODE = RpcMethod(SILO, "GetNodeInfo", silo.GetNodeInfoResponse)


@asynccontextmanager
async def broker_in(folder: Path, **settings: object) -> AsyncIterator[tuple[Member, str]]:
    """The process and where it speaks gRPC, when all its shards are served; it ends with the block."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    told = {
        "jobs_url": f"file://{folder}/jobs",
        "jobs_store_fsync": "always",
        "jobs_grpc_port": 0,
        "node_data_dir": folder,
        **settings,
    }
    member = Member("broker", "jobs", folder, told)
    try:
        await until(member.is_up, UP_S_MAX, "the broker is up")
        address = str(next(member.told("jobs up"))["grpc"])
        async with JobsClient.connect(address) as client:

            async def is_served() -> bool:
                """The map names a node from the moment it has the lease; the node lists a shard once it is open."""
                try:
                    places = await client.shards()
                    node = await client.router.call(address, NODE, silo.GetNodeInfoRequest())
                except ArgosyError:
                    return False
                served = {shard.shard_id for shard in node.owned_shards}
                return bool(places) and all(place.address and place.id in served for place in places)

            await until_seen(is_served, UP_S_MAX, "all shards are served")
        yield member, address
    finally:
        member.end()
