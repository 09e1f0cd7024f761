"""A client and a worker that behave like existing ones: topology first, shards by hash, redirects, round robin."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import msgpack
import xxhash

from argosy.base.errors import NotOwner
from argosy.jobs.silo import silo_pb2 as pb
from tests.jobs.rpc.stage import HERE, PATIENCE_S, SPLITTING, Stage, open_stage

TRIES_MAX = 8


class ExistingClient:
    """Starts from one address; connects to the nodes of the topology, and follows redirects."""

    def __init__(self, seed: str) -> None:
        self._channels: dict[str, Any] = {}
        self._seed = seed
        self._owners: list[Any] = []
        self.refreshes = 0
        self.before_retry: Callable[[], None] = lambda: None

    async def refresh(self) -> None:
        self.refreshes += 1
        seed = self._channel(next(iter(self._channels), self._seed))
        info = await self._send(seed, "GetClusterInfo", pb.GetClusterInfoRequest())
        self._owners = [owner for owner in info.shard_owners if owner.grpc_addr]
        listed = {owner.grpc_addr for owner in self._owners}
        for address in set(self._channels) - listed:
            await self._channels.pop(address).close()

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    async def for_tenant(self, tenant: str, method: str, /, **fields: Any) -> Any:
        """Send to the shard of the tenant's hash, with retries."""
        hashed = xxhash.xxh64_hexdigest(tenant.encode())
        address = ""
        for _ in range(TRIES_MAX):
            owner = next(each for each in self._owners if each.range_start <= hashed < (each.range_end or "g"))
            request = getattr(pb, f"{method}Request")(shard=owner.shard_id, **fields)
            try:
                return await self._send(self._channel(address or owner.grpc_addr), method, request)
            except grpc.aio.AioRpcError as error:
                trailing = dict(error.trailing_metadata() or ())
                if error.code() == grpc.StatusCode.NOT_FOUND and "shard not found" in (error.details() or ""):
                    address = trailing.get("x-silo-shard-owner-addr", "")
                elif error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                self.before_retry()
                if not address:
                    await self.refresh()
        raise AssertionError("out of tries")

    async def poll(self, group: str, free: int) -> list[pb.Task]:
        tasks: list[pb.Task] = []
        for address in {owner.grpc_addr for owner in self._owners if owner.node_id == "node-1"}:
            request = pb.LeaseTasksRequest(worker_id="w", max_tasks=free - len(tasks), task_group=group)
            tasks += (await self._send(self._channel(address), "LeaseTasks", request)).tasks
        return tasks

    def _channel(self, address: str) -> Any:
        ping = [("grpc.keepalive_time_ms", 5_000), ("grpc.keepalive_permit_without_calls", 1)]
        return self._channels.setdefault(address, grpc.aio.insecure_channel(address, options=ping))

    async def _send(self, channel: Any, method: str, request: Any) -> Any:
        answer = getattr(pb, f"{method}Response")
        call = channel.unary_unary(f"/silo.v1.Silo/{method}", type(request).SerializeToString, answer.FromString)
        return await call(request, timeout=PATIENCE_S)


async def with_client(stage: Stage, act: Callable[[ExistingClient], Awaitable[None]]) -> None:
    client = ExistingClient(stage.address)
    await client.refresh()
    try:
        await act(client)
    finally:
        await client.close()


def pack_bytes(value: object) -> pb.SerializedBytes:
    return pb.SerializedBytes(msgpack=msgpack.packb(value))


async def test_jobs_of_many_tenants_are_enqueued_run_and_read(tenant_stage: Stage) -> None:
    tenants = [f"tenant-{at}" for at in range(40)]

    async def act(client: ExistingClient) -> None:
        here = [tenant for tenant in tenants if xxhash.xxh64_hexdigest(tenant.encode()) < "c"]
        assert len(here) > 20
        for tenant in here:
            payload = pack_bytes({"for": tenant})
            await client.for_tenant(tenant, "Enqueue", tenant=tenant, id="j", task_group="g", payload=payload)
        running: dict[str, pb.Task] = {}
        while len(running) < len(here):
            tasks = await client.poll("g", 7)
            assert tasks, "there is work left"
            assert not {task.id for task in tasks} & set(running), "no task is handed out twice"
            running |= {task.id: task for task in tasks}
        await asyncio.gather(*(self_report(client, task) for task in running.values()))
        for tenant in here:
            result = await client.for_tenant(tenant, "GetJobResult", tenant=tenant, id="j")
            assert msgpack.unpackb(result.success_data.msgpack) == f"done for {tenant}"

    async def self_report(client: ExistingClient, task: pb.Task) -> None:
        tenant = task.tenant_id
        beat = await client.for_tenant(tenant, "Heartbeat", worker_id="w", task_id=task.id, tenant_id=tenant)
        assert not beat.cancelled
        done = pack_bytes("done for " + msgpack.unpackb(task.payload.msgpack)["for"])
        await client.for_tenant(tenant, "ReportOutcome", task_id=task.id, success=done, tenant_id=tenant)

    await with_client(tenant_stage, act)


async def test_a_redirect_is_followed_to_the_new_owner() -> None:
    async with open_stage() as old, open_stage() as new:
        old.node.failures[HERE] = NotOwner("moved", hint=new.address, node="node-2")

        async def act(client: ExistingClient) -> None:
            answer = await client.for_tenant("-", "Enqueue", id="moved", task_group="g")
            assert answer.id == "moved"
            assert client.refreshes == 1

        await with_client(old, act)
        assert (await new.node.shards[HERE].get("-", "moved")).job.id == "moved"


async def test_calls_are_retried_during_a_split(stage: Stage) -> None:
    stage.node.failures[HERE] = SPLITTING

    async def act(client: ExistingClient) -> None:
        client.before_retry = stage.node.failures.clear
        assert (await client.for_tenant("-", "Enqueue", id="late", task_group="g")).id == "late"
        assert client.refreshes == 2

    await with_client(stage, act)
