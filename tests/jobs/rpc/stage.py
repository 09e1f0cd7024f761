"""A node with real shards in memory behind a real gRPC server, and a client that sends raw messages."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

import grpc

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import ArgosyError, NotFound, NotOwner, Unavailable
from argosy.base.hashing import hash64
from argosy.base.metrics import Metrics
from argosy.jobs.api import argosy_jobs_pb2
from argosy.jobs.backends.memory import MemoryDisk
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.grpc_services import serve
from argosy.jobs.ports import (
    ClusterMember,
    ClusterTopology,
    RowReader,
    ShardCalls,
    ShardInfo,
    ShardLeases,
    ShardStats,
    SortedRun,
    SplitStatus,
    StorageInfo,
)
from argosy.jobs.shard.shard import ShardService
from argosy.jobs.silo import silo_pb2 as pb
from argosy.throttle.limits.backends.memory import MemoryLimiter

HOST = "127.0.0.1"
PATIENCE_S = 20.0
NOW = 1_700_000_000_000
HERE = str(UUID(int=1))  # has the lower half of the hashes: `-`, `tenant-0`, `customer-123`
ALSO_HERE = str(UUID(int=2))  # has hashes from 8… to c…
ELSEWHERE = str(UUID(int=3))  # has the rest, on another node
NOWHERE = str(UUID(int=4))
OTHER_NODE = ("node-2", "127.0.0.1:9")

_MODULES = {"silo.v1.Silo": pb, "argosy.jobs.v1.Jobs": argosy_jobs_pb2}


class Node:
    """Implements `Broker`: two shards served here, one elsewhere."""

    def __init__(self) -> None:
        self.now = NOW
        self.address = ""
        self.failures: dict[str, ArgosyError] = {}  # errors raised when a shard is requested
        self.operations: list[tuple[str, str]] = []  # operations and their shards
        self.split_of = SplitStatus()
        self._ids = count(1)
        self._ledgers: dict[str, GroupCommitStore] = {}
        self.shards: dict[str, ShardService] = {}

    async def start(self) -> None:
        for shard_id in (HERE, ALSO_HERE):
            store = GroupCommitStore(await MemoryDisk().open())
            shard = ShardService(
                store,
                now_ms=lambda: self.now,
                new_id=lambda: str(UUID(int=next(self._ids) << 64)),
                random=seeded_random(7),
                limiter=MemoryLimiter(clock=SystemClock()),
            )
            await shard.start()
            self._ledgers[shard_id], self.shards[shard_id] = store, shard

    async def close(self) -> None:
        for shard in self.shards.values():
            await shard.close()
        for store in self._ledgers.values():
            await store.close()

    def shard(self, shard_id: str) -> ShardCalls:
        if shard_id in self.failures:
            raise self.failures[shard_id]
        if shard_id == ELSEWHERE:
            raise NotOwner("it is elsewhere", hint=OTHER_NODE[1], node=OTHER_NODE[0])
        if shard_id not in self.shards:
            raise NotFound(f"the map has no shard {shard_id}")
        return self.shards[shard_id]

    def rows(self, shard_id: str) -> RowReader:
        self.shard(shard_id)
        return self._ledgers[shard_id]

    def local(self) -> list[tuple[str, ShardCalls]]:
        return [(shard_id, shard) for shard_id, shard in self.shards.items() if shard_id not in self.failures]

    def shard_of(self, tenant: str) -> str:
        digit = hash64(tenant) >> 60
        return HERE if digit < 8 else ALSO_HERE if digit < 12 else ELSEWHERE

    def topology(self) -> ClusterTopology:
        half, quarter = "8" + "0" * 15, "c" + "0" * 15
        shards = (
            ShardInfo(HERE, "", half, "node-1", self.address),
            ShardInfo(ALSO_HERE, half, quarter, "node-1", self.address),
            ShardInfo(ELSEWHERE, quarter, "", *OTHER_NODE),
        )
        return ClusterTopology(
            shards, (ClusterMember("node-1", self.address), ClusterMember(*OTHER_NODE)), "node-1", self.address
        )

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> Sequence[ShardLeases]:
        """Waits at its first shard only, which is enough for one poll."""
        shard_leases: list[ShardLeases] = []
        left = tasks_max
        for shard_id, shard in reversed(self.local()):
            waits_s = wait_s if shard_id == HERE and not shard_leases else 0.0
            tasks, refreshes = await shard.lease(task_group, worker, left, wait_s=waits_s) if left else ([], [])
            left -= len(tasks)
            if tasks or refreshes:
                shard_leases.append(ShardLeases(shard_id, tasks, refreshes))
        return shard_leases

    async def split(self, shard_id: str, point: str) -> SplitStatus:
        self.shard(shard_id)
        self.split_of = SplitStatus("SplitRequested", NOWHERE, ELSEWHERE, point, "node-1", self.now)
        return self.split_of

    def split_status(self, shard_id: str) -> SplitStatus:
        self.shard(shard_id)
        return self.split_of

    async def flush(self, shard_id: str) -> None:
        self.shard(shard_id)
        self.operations.append(("flush", shard_id))

    async def compact(self, shard_id: str) -> None:
        self.shard(shard_id)
        self.operations.append(("compact", shard_id))

    async def stats(self, shard_id: str) -> ShardStats:
        return ShardStats(7, 3, "CompactionDone", NOW, NOW + 1)

    async def storage(self, shard_id: str) -> StorageInfo:
        self.shard(shard_id)
        return StorageInfo(2, 100, (SortedRun(1, 4, 300), SortedRun(2, 5, 400)))

    async def force_release(self, shard_id: str) -> bool:
        return shard_id in self.shards

    async def reset(self) -> int:
        return len(self.shards)


class Client:
    """Sends messages to one address, with fixed metadata."""

    def __init__(self, channel: Any, service: str = "silo.v1.Silo", metadata: Mapping[str, str] | None = None) -> None:
        self.channel = channel
        self._service = service
        self._module: Any = _MODULES[service]
        self._metadata = tuple((metadata or {}).items())

    def with_metadata(self, **metadata: str) -> "Client":
        return Client(self.channel, self._service, metadata)

    def of(self, service: str) -> "Client":
        return Client(self.channel, service, dict(self._metadata))

    async def __call__(self, method: str, message: Any = None, *, timeout: float = PATIENCE_S, **fields: Any) -> Any:
        """The response to `<method>Request(**fields)`, or to a given message."""
        if message is None:
            message = getattr(self._module, f"{method}Request")(**fields)
        answers = {"argosy.jobs.v1.Jobs/GetJob": "Job"}
        answer = getattr(self._module, answers.get(f"{self._service}/{method}", f"{method}Response"))
        call = self.channel.unary_unary(f"/{self._service}/{method}", None, answer.FromString)
        sent = message if isinstance(message, bytes) else message.SerializeToString()
        return await call(sent, timeout=timeout, metadata=self._metadata)


async def rejection(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    """The error of a rejected call."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError(f"the call succeeded: {answer}")


def code_and_details(error: grpc.aio.AioRpcError) -> tuple[str, str]:
    return error.code().name, error.details() or ""


@dataclass
class Stage:
    node: Node
    client: Client
    metrics: Metrics
    address: str


@asynccontextmanager
async def open_stage(**options: Any) -> AsyncIterator[Stage]:
    """A node behind a server; the options are those of `serve`, and `channel` for the client's credentials."""
    node, metrics = Node(), Metrics()
    channel_credentials = options.pop("channel", None)
    await node.start()
    server = await serve(node, f"{HOST}:0", metrics=metrics, **options)
    node.address = f"{HOST}:{server.port}"
    receive = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    if channel_credentials is None:
        channel = grpc.aio.insecure_channel(node.address, options=receive)
    else:
        channel = grpc.aio.secure_channel(node.address, channel_credentials, options=receive)
    try:
        yield Stage(node, Client(channel), metrics, node.address)
    finally:
        await channel.close()
        await server.stop()
        await node.close()


ACQUIRING = Unavailable("shard not ready: acquisition in progress")
SPLITTING = Unavailable("shard is temporarily unavailable: split in progress")
