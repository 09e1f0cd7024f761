"""The broker as a process: `argosy serve --role jobs` on a new folder, with the settings as they come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.fleet.members import UP_S_MAX, Member, until, until_seen
from argosy.jobs.sdk import JobsClient


@asynccontextmanager
async def broker_in(folder: Path, **settings: object) -> AsyncIterator[tuple[Member, str]]:
    """The process and where it speaks gRPC, when all its shards are served; it ends with the block."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    told = {
        "jobs_url": f"file://{folder}/jobs", "jobs_store_fsync": "always", "jobs_grpc_port": 0, "node_data_dir": folder,
        **settings,
    }  # fmt: skip
    member = Member("broker", "jobs", folder, told)
    try:
        await until(member.is_up, UP_S_MAX, "the broker is up")
        address = str(next(member.told("jobs up"))["grpc"])
        async with JobsClient.connect(address) as client:

            async def is_served() -> bool:
                try:
                    places = await client.shards()
                except ArgosyError:
                    return False
                return bool(places) and all(place.address for place in places)

            await until_seen(is_served, UP_S_MAX, "all shards are served")
        yield member, address
    finally:
        member.end()
