"""Two real nodes that share shards, each behind its server: a client is redirected to the owner from either."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from uuid import UUID

import grpc
import msgpack

from argosy.base.clock import SystemClock, system_random
from argosy.jobs.api import argosy_jobs_pb2 as api
from argosy.jobs.backends.memory import MemoryShardStore
from argosy.jobs.backends.shard_map_store import MemoryShardMapStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.grpc_services import serve
from argosy.jobs.settings import JobsSettings
from argosy.jobs.silo import silo_pb2 as pb
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import Space
from argosy.ownership.ring import Ring
from argosy.throttle.limits.backends.memory import MemoryLimiter
from tests.jobs.rpc.stage import HOST, PATIENCE_S, Client, code_and_details, rejection

SETTINGS = JobsSettings(shards=8, with_tenants=True, handoff_wait_s=0.0, quiesce_s=0.0)
TENANTS = [f"tenant-{at}" for at in range(30)]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


@asynccontextmanager
async def cluster() -> AsyncIterator[dict[str, Client]]:
    """Clients by address."""
    clock = SystemClock()
    store = MemoryOwnershipStore(Space("shards", is_auctioned=False), clock=clock, random=system_random())
    maps, shards = MemoryShardMapStore(), MemoryShardStore()
    nodes, running, servers, clients = [], [], [], {}
    ids = count(1)  # fixed ids, so that the ring places the shards identically each time
    for name in ("one", "two"):
        address = f"{HOST}:{free_port()}"
        limiter = MemoryLimiter(clock=clock)
        node = JobsNode(
            store,
            shards,
            maps,
            limiter,
            node_id=name,
            address=address,
            settings=SETTINGS,
            new_id=lambda: str(UUID(int=next(ids))),
        )
        await node.start()
        nodes.append(node)
        running.append(asyncio.ensure_future(node.run()))
        servers.append(await serve(node, address, with_tenants=True))
        clients[address] = Client(grpc.aio.insecure_channel(address))
    try:
        yield clients
    finally:
        for client in clients.values():
            await client.channel.close()
        for server in servers:
            await server.stop()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for node in nodes:
            await node.close()


async def wait_settled(client: Client) -> pb.GetClusterInfoResponse:
    """The topology once every shard is where the ring places it, so that none will move."""
    ring = Ring(("one", "two"))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            info: pb.GetClusterInfoResponse = await client("GetClusterInfo")
            if all(owner.node_id == ring.owner(owner.shard_id) for owner in info.shard_owners):
                return info


async def wait_served(client: Client, shard_id: str) -> None:
    """Wait until the owner has opened the shard."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await client("FlushShard", shard=shard_id)
                return
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise


async def test_a_job_reaches_its_shard_from_any_node_and_runs() -> None:
    async with cluster() as clients:
        any_client = next(iter(clients.values()))
        info = await wait_settled(any_client)
        assert (info.num_shards, {member.node_id for member in info.members}) == (8, {"one", "two"})
        redirects = 0
        for tenant in TENANTS:
            redirects += await enqueue_batch(clients, next(iter(clients)), tenant)
        assert 0 < redirects < len(TENANTS), "tenants are spread over both nodes"
        done: set[str] = set()
        for client in clients.values():
            jobs = client.of("argosy.jobs.v1.Jobs")
            while leased := (await jobs("LeaseTasks", worker_id="w", task_group="g", max_tasks=100)).tasks:
                done |= {task.task.tenant_id for task in leased}
                outcomes = [
                    api.TaskOutcome(shard=task.task.shard, task_id=task.task.id, success=b"\xc3") for task in leased
                ]
                answer = await jobs("ReportOutcomes", worker_id="w", outcomes=outcomes)
                assert not any(result.HasField("error") for result in answer.results)
        assert done == set(TENANTS)
        counted = 0
        for owner in info.shard_owners:
            await wait_served(clients[owner.grpc_addr], owner.shard_id)
            sql = "SELECT sum(cnt) AS n FROM tenant_counts WHERE status_kind = 'Succeeded'"
            [row] = (await clients[owner.grpc_addr]("Query", shard=owner.shard_id, sql=sql)).rows
            counted += msgpack.unpackb(row.msgpack)["n"] or 0
        assert counted == len(TENANTS)


async def enqueue_batch(clients: dict[str, Client], address: str, tenant: str) -> bool:
    """Enqueue a batch at `address` or where it redirects to; whether it was redirected."""
    first = address
    async with asyncio.timeout(PATIENCE_S):
        while True:
            jobs = clients[address].of("argosy.jobs.v1.Jobs")
            answer = await jobs("EnqueueBatch", jobs=[api.NewJob(tenant=tenant, id="job", task_group="g")])
            [result] = answer.results
            if result.id:
                return address != first
            assert result.error.code in ("NOT_FOUND", "UNAVAILABLE"), result
            address = result.error.owner_address or address


async def test_a_shard_is_split_over_the_wire() -> None:
    async with cluster() as clients:
        info = await wait_settled(next(iter(clients.values())))
        owner = info.shard_owners[0]
        client = clients[owner.grpc_addr]
        await wait_served(client, owner.shard_id)
        point = f"{int(owner.range_end, 16) // 2:016x}"
        bad = client("RequestSplit", shard_id=owner.shard_id, split_point="f" * 16)
        assert code_and_details(await rejection(bad))[0] == "INVALID_ARGUMENT"
        children = await client("RequestSplit", shard_id=owner.shard_id, split_point=point)
        async with asyncio.timeout(PATIENCE_S):
            while (info := await client("GetClusterInfo")).num_shards != 9:
                pass
        ranges = {owner.shard_id: (owner.range_start, owner.range_end) for owner in info.shard_owners}
        assert ranges[children.left_child_id] == ("", point)
        assert ranges[children.right_child_id] == (point, owner.range_end)
        assert not (await client("GetSplitStatus", shard_id=owner.shard_id)).in_progress
