"""Operator calls: the cluster, the shards of this node, and profiles of this process."""

import re
from typing import Protocol

from argosy.base.errors import ArgosyError, Conflict, Forbidden, Invalid, NotFound, NotOwner, Unavailable
from argosy.jobs.ports import Broker
from argosy.jobs.rpc.call_context import CallContext, check_shard_id
from argosy.jobs.rpc.status import SHARD_NOT_FOUND
from argosy.jobs.silo import silo_pb2 as pb

PROFILE_S_MAX = 60  # sampling holds the GIL for a part of every interval
PROFILE_S_DEFAULT = 10
# Each sample walks the stacks of all threads with the GIL held.
FREQUENCY_MAX = 1_000  # samples a second
FREQUENCY_DEFAULT = 100
DONE = "completed"

_HASH = re.compile(r"[0-9a-f]{16}")


class Diagnostics(Protocol):
    """Profiles of a process."""

    async def cpu(self, seconds: int, frequency: int) -> tuple[bytes, int]:
        """Stacks of all threads as folded text, and the number of samples."""
        ...

    async def heap(self, seconds: int) -> bytes:
        """Allocations in the period; Conflict unless allocations are traced."""
        ...

    def tasks(self) -> tuple[str, int]:
        """Stacks of the pending tasks, and their number."""
        ...


class ShardOperations:
    """The calls of `silo.v1.Silo` about nodes and shards. A tenant's key may only read the cluster topology."""

    def __init__(self, broker: Broker, diagnostics: Diagnostics, *, is_dev: bool) -> None:
        self._broker = broker
        self._diagnostics = diagnostics
        self._is_dev = is_dev

    async def get_cluster_info(self, _: pb.GetClusterInfoRequest, __: CallContext) -> pb.GetClusterInfoResponse:
        # Needs no permission: every client reads the map to find the owners of shards.
        topology = self._broker.topology()
        return pb.GetClusterInfoResponse(
            num_shards=len(topology.shards),
            shard_owners=[
                pb.ShardOwner(
                    shard_id=shard.id,
                    grpc_addr=shard.address,
                    node_id=shard.node,
                    range_start=shard.range_start,
                    range_end=shard.range_end,
                )
                for shard in topology.shards
            ],
            this_node_id=topology.node,
            this_grpc_addr=topology.address,
            members=[pb.ClusterMember(node_id=member.node, grpc_addr=member.address) for member in topology.members],
        )

    async def get_node_info(self, _: pb.GetNodeInfoRequest, context: CallContext) -> pb.GetNodeInfoResponse:
        context.caller.check_all_tenants("read a node's state")
        shards = []
        for shard_id, _shard in self._broker.local():
            try:
                stats = await self._broker.stats(shard_id)
            except (NotOwner, Unavailable):
                continue  # released meanwhile
            shards.append(
                pb.OwnedShardInfo(
                    shard_id=shard_id,
                    total_jobs=stats.total_jobs,
                    completed_jobs=stats.completed_jobs,
                    cleanup_status=stats.cleanup_status,
                    created_at_ms=stats.created_at,
                    cleanup_completed_at_ms=stats.cleanup_completed_at,
                )
            )
        return pb.GetNodeInfoResponse(node_id=self._broker.topology().node, owned_shards=shards)

    async def request_split(self, request: pb.RequestSplitRequest, context: CallContext) -> pb.RequestSplitResponse:
        context.caller.check_all_tenants("split a shard")
        check_shard_id(request.shard_id)
        if not _HASH.fullmatch(request.split_point):
            raise Invalid(f"split_point must be 16 lower-case hexadecimal digits; got {request.split_point[:64]!r}")
        try:
            status = await self._broker.split(request.shard_id, request.split_point)
        except NotOwner as error:
            # FAILED_PRECONDITION, as in silo.
            raise Conflict(_not_served_text(request.shard_id, error)) from error
        return pb.RequestSplitResponse(left_child_id=status.left, right_child_id=status.right, phase=status.phase)

    async def get_split_status(
        self, request: pb.GetSplitStatusRequest, context: CallContext
    ) -> pb.GetSplitStatusResponse:
        context.caller.check_all_tenants("read a split's state")
        check_shard_id(request.shard_id)
        status = self._broker.split_status(request.shard_id)
        return pb.GetSplitStatusResponse(
            in_progress=status.is_in_progress,
            phase=status.phase,
            left_child_id=status.left,
            right_child_id=status.right,
            split_point=status.point,
            initiator_node_id=status.initiator,
            requested_at_ms=status.requested_at,
        )

    async def configure_shard(
        self, request: pb.ConfigureShardRequest, context: CallContext
    ) -> pb.ConfigureShardResponse:
        """Sets the placement ring. Every node may serve every shard: only the default ring has members."""
        context.caller.check_all_tenants("configure a shard")
        check_shard_id(request.shard)
        if not any(shard.id == request.shard for shard in self._broker.topology().shards):
            raise NotFound(SHARD_NOT_FOUND)
        if request.placement_ring:
            raise Conflict(
                f"placement ring {request.placement_ring[:64]!r} has no members: this broker offers only the default"
                " ring, which every node is in; leave placement_ring empty"
            )
        return pb.ConfigureShardResponse()

    async def reset_shards(self, _: pb.ResetShardsRequest, context: CallContext) -> pb.ResetShardsResponse:
        context.caller.check_all_tenants("reset shards")
        if not self._is_dev:
            raise Forbidden("reset is disabled; set jobs.dev_mode")
        return pb.ResetShardsResponse(shards_reset=await self._broker.reset())

    async def force_release_shard(
        self, request: pb.ForceReleaseShardRequest, context: CallContext
    ) -> pb.ForceReleaseShardResponse:
        context.caller.check_all_tenants("release a shard")
        check_shard_id(request.shard)
        return pb.ForceReleaseShardResponse(released=await self._broker.force_release(request.shard))

    async def compact_shard(self, request: pb.CompactShardRequest, context: CallContext) -> pb.CompactShardResponse:
        context.caller.check_all_tenants("compact a shard")
        check_shard_id(request.shard)
        await self._broker.compact(request.shard)
        return pb.CompactShardResponse(status=DONE)

    async def flush_shard(self, request: pb.FlushShardRequest, context: CallContext) -> pb.FlushShardResponse:
        context.caller.check_all_tenants("flush a shard")
        check_shard_id(request.shard)
        await self._broker.flush(request.shard)
        return pb.FlushShardResponse(status=DONE)

    async def get_shard_storage_info(
        self, request: pb.GetShardStorageInfoRequest, context: CallContext
    ) -> pb.GetShardStorageInfoResponse:
        context.caller.check_all_tenants("read a shard's storage")
        check_shard_id(request.shard)
        info = await self._broker.storage(request.shard)
        return pb.GetShardStorageInfoResponse(
            l0_sst_count=info.l0_ssts,
            total_l0_size=info.l0_bytes,
            sorted_run_count=len(info.runs),
            total_sorted_run_size=sum(run.size_bytes for run in info.runs),
            sorted_runs=[
                pb.SortedRunInfo(id=run.id, sst_count=run.ssts, estimated_size=run.size_bytes) for run in info.runs
            ],
        )

    async def cpu_profile(self, request: pb.CpuProfileRequest, context: CallContext) -> pb.CpuProfileResponse:
        context.caller.check_all_tenants("profile a node")
        seconds = _seconds(request.duration_seconds)
        frequency = request.frequency or FREQUENCY_DEFAULT
        if frequency > FREQUENCY_MAX:
            raise Invalid(f"frequency may be at most {FREQUENCY_MAX} samples a second; got {frequency}")
        folded, samples = await self._diagnostics.cpu(seconds, frequency)
        return pb.CpuProfileResponse(profile_data=folded, duration_seconds=seconds, samples=samples)

    async def heap_profile(self, request: pb.HeapProfileRequest, context: CallContext) -> pb.HeapProfileResponse:
        context.caller.check_all_tenants("profile a node")
        seconds = _seconds(request.duration_seconds)
        return pb.HeapProfileResponse(profile_data=await self._diagnostics.heap(seconds), duration_seconds=seconds)

    async def dump_tasks(self, _: pb.DumpTasksRequest, context: CallContext) -> pb.DumpTasksResponse:
        context.caller.check_all_tenants("dump a node's tasks")
        dump, count = self._diagnostics.tasks()
        return pb.DumpTasksResponse(dump=dump, task_count=count)


def _seconds(requested: int) -> int:
    if requested > PROFILE_S_MAX:
        raise Invalid(f"a profile may take {PROFILE_S_MAX} seconds; got {requested}")
    return requested or PROFILE_S_DEFAULT


def _not_served_text(shard_id: str, error: ArgosyError) -> str:
    hint = getattr(error, "hint", None)
    return f"shard {shard_id} is not served here; send the request to {hint or 'its owner'}"
