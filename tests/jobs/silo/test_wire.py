"""The bytes of every message, encoded by hand from the field numbers that existing clients use."""

import re
import struct
from typing import Any

import pytest

from argosy.jobs.silo import silo_pb2 as pb

# A line is a message: field number, name and type; `opt` and `rep` as in the proto, `map` is from text to text.
WIRE = """
SerializedBytes 1 msgpack bytes
RetryPolicy 1 retry_count uint32 | 2 initial_interval_ms int64 | 3 max_interval_ms int64 | 4 randomize_interval bool | 5 backoff_factor double
ConcurrencyLimit 1 key string | 2 max_concurrency uint32
FloatingConcurrencyLimit 1 key string | 2 default_max_concurrency uint32 | 3 refresh_interval_ms int64 | 4 metadata map
RateLimitRetryPolicy 1 initial_backoff_ms int64 | 2 max_backoff_ms int64 | 3 backoff_multiplier double | 4 max_retries uint32
GubernatorRateLimit 1 name string | 2 unique_key string | 3 limit int64 | 4 duration_ms int64 | 5 hits int32 | 6 algorithm enum | 7 behavior int32 | 8 retry_policy RateLimitRetryPolicy
Limit 1 concurrency ConcurrencyLimit
Limit 2 rate_limit GubernatorRateLimit
Limit 3 floating_concurrency FloatingConcurrencyLimit
EnqueueRequest 1 shard string | 2 id string | 3 priority uint32 | 4 start_at_ms int64 | 5 retry_policy RetryPolicy | 6 payload SerializedBytes | 7 limits rep Limit | 8 tenant string | 9 metadata map | 10 task_group string
EnqueueResponse 1 id string
GetJobRequest 1 shard string | 2 id string | 3 tenant string | 4 include_attempts bool
JobAttempt 1 job_id string | 2 attempt_number uint32 | 3 task_id string | 4 status enum | 5 started_at_ms int64 | 6 finished_at_ms int64 | 7 result SerializedBytes | 8 error_code string | 9 error_data SerializedBytes
GetJobResponse 1 id string | 2 priority uint32 | 3 enqueue_time_ms int64 | 4 payload SerializedBytes | 5 retry_policy RetryPolicy | 6 limits rep Limit | 7 metadata map | 8 status enum | 9 status_changed_at_ms int64 | 10 attempts rep JobAttempt | 11 next_attempt_starts_after_ms int64 | 12 task_group string | 13 result SerializedBytes
GetJobResultRequest 1 shard string | 2 id string | 3 tenant string
GetJobResultResponse 1 id string | 2 status enum | 3 finished_at_ms int64 | 4 success_data SerializedBytes
GetJobResultResponse 1 id string | 5 failure JobFailure
GetJobResultResponse 1 id string | 6 cancelled JobCancelled
JobFailure 1 error_code string | 2 error_data SerializedBytes
JobCancelled 1 cancelled_at_ms int64
DeleteJobRequest 1 shard string | 2 id string | 3 tenant string
CancelJobRequest 1 shard string | 2 id string | 3 tenant string
RestartJobRequest 1 shard string | 2 id string | 3 tenant string
ExpediteJobRequest 1 shard string | 2 id string | 3 tenant string
DeleteJobResponse
CancelJobResponse
RestartJobResponse
ExpediteJobResponse
DropTenantHoldersRequest 1 shard string | 2 tenant string
DropTenantHoldersResponse 1 holders_dropped uint64
LeaseTaskRequest 1 shard string | 2 id string | 3 tenant string | 4 worker_id string
LeaseTaskResponse 1 task Task
LeaseTasksRequest 1 shard string | 2 worker_id string | 3 max_tasks uint32 | 4 task_group string
Task 1 id string | 2 job_id string | 3 tenant_id string | 4 attempt_number uint32 | 5 relative_attempt_number uint32 | 6 is_last_attempt bool | 7 metadata map | 8 limits rep Limit | 9 payload SerializedBytes | 10 priority uint32 | 11 shard string | 12 task_group string | 13 lease_ms int64
RefreshFloatingLimitTask 1 id string | 2 queue_key string | 3 current_max_concurrency uint32 | 4 last_refreshed_at_ms int64 | 5 metadata map | 6 lease_ms int64 | 7 shard string | 8 task_group string | 9 tenant_id string
LeaseTasksResponse 1 tasks rep Task | 2 refresh_tasks rep RefreshFloatingLimitTask
ReportOutcomeRequest 1 shard string | 2 task_id string | 3 success SerializedBytes | 7 tenant_id string
ReportOutcomeRequest 1 shard string | 4 failure Failure
ReportOutcomeRequest 1 shard string | 6 cancelled Cancelled
Failure 1 code string | 2 data SerializedBytes
Cancelled
ReportOutcomeResponse
ReportRefreshOutcomeRequest 1 shard string | 2 task_id string | 4 success RefreshSuccess | 6 tenant_id string
ReportRefreshOutcomeRequest 1 shard string | 5 failure RefreshFailure
RefreshSuccess 1 new_max_concurrency uint32
RefreshFailure 1 code string | 2 message string
ReportRefreshOutcomeResponse
HeartbeatRequest 1 shard string | 2 worker_id string | 3 task_id string | 4 tenant_id string
HeartbeatResponse 1 cancelled bool | 2 cancelled_at_ms int64
QueryNull
QueryParameter 1 bool_value bool
QueryParameter 2 int64_value int64
QueryParameter 3 uint64_value uint64
QueryParameter 4 float64_value double
QueryParameter 5 string_value string
QueryParameter 6 bytes_value bytes
QueryParameter 7 null_value QueryNull
QueryRequest 1 shard string | 2 sql string | 3 tenant string | 4 parameters rep QueryParameter
QueryArrowRequest 1 shard string | 2 sql string | 3 tenant string | 4 parameters rep QueryParameter
ColumnInfo 1 name string | 2 data_type string
QueryResponse 1 columns rep ColumnInfo | 2 rows rep SerializedBytes | 3 row_count int32
ArrowIpcMessage 1 ipc_data bytes
GetClusterInfoRequest
ShardOwner 1 shard_id string | 2 grpc_addr string | 3 node_id string | 4 range_start string | 5 range_end string | 6 placement_ring string
ClusterMember 1 node_id string | 2 grpc_addr string | 3 placement_rings rep string
GetClusterInfoResponse 1 num_shards uint32 | 2 shard_owners rep ShardOwner | 3 this_node_id string | 4 this_grpc_addr string | 5 members rep ClusterMember
ResetShardsRequest
ResetShardsResponse 1 shards_reset uint32
CpuProfileRequest 1 duration_seconds uint32 | 2 frequency uint32
CpuProfileResponse 1 profile_data bytes | 2 duration_seconds uint32 | 3 samples uint64
HeapProfileRequest 1 duration_seconds uint32
HeapProfileResponse 1 profile_data bytes | 2 duration_seconds uint32
RequestSplitRequest 1 shard_id string | 2 split_point string
RequestSplitResponse 1 left_child_id string | 2 right_child_id string | 3 phase string
GetSplitStatusRequest 1 shard_id string
GetSplitStatusResponse 1 in_progress bool | 2 phase string | 3 left_child_id string | 4 right_child_id string | 5 split_point string | 6 initiator_node_id string | 7 requested_at_ms int64
OwnedShardInfo 1 shard_id string | 2 total_jobs int64 | 3 completed_jobs int64 | 4 cleanup_status string | 5 created_at_ms int64 | 6 cleanup_completed_at_ms int64
GetNodeInfoRequest
GetNodeInfoResponse 1 node_id string | 2 owned_shards rep OwnedShardInfo | 3 placement_rings rep string
ConfigureShardRequest 1 shard string | 2 placement_ring string | 3 allow_unpopulated_ring bool | 100 tenant string
ConfigureShardResponse 1 previous_ring string | 2 current_ring string
ImportAttempt 1 status enum | 2 started_at_ms int64 | 3 finished_at_ms int64 | 4 result SerializedBytes | 5 error_code string | 6 error_data SerializedBytes
ImportJobRequest 1 shard string | 2 id string | 3 priority uint32 | 4 enqueue_time_ms int64 | 5 start_at_ms int64 | 6 retry_policy RetryPolicy | 7 payload SerializedBytes | 8 limits rep Limit | 9 tenant string | 10 metadata map | 11 task_group string | 12 attempts rep ImportAttempt
ImportJobsRequest 1 jobs rep ImportJobRequest
ImportJobResult 1 id string | 2 success bool | 3 error string | 4 status enum
ImportJobsResponse 1 results rep ImportJobResult
ForceReleaseShardRequest 1 shard string
ForceReleaseShardResponse 1 released bool
CompactShardRequest 1 shard string
CompactShardResponse 1 status string
FlushShardRequest 1 shard string
FlushShardResponse 1 status string
GetShardStorageInfoRequest 1 shard string
SortedRunInfo 1 id uint32 | 2 sst_count uint64 | 3 estimated_size uint64
GetShardStorageInfoResponse 1 l0_sst_count uint64 | 2 total_l0_size uint64 | 3 sorted_run_count uint64 | 4 total_sorted_run_size uint64 | 5 sorted_runs rep SortedRunInfo
DumpTasksRequest
DumpTasksResponse 1 dump string | 2 task_count uint32
"""  # noqa: E501

LINES = WIRE.strip().splitlines()
RPCS = [
    "GetClusterInfo", "GetNodeInfo", "Enqueue", "GetJob", "GetJobResult", "DeleteJob", "CancelJob",
    "DropTenantHolders", "RestartJob", "ExpediteJob", "LeaseTask", "LeaseTasks", "ReportOutcome",
    "ReportRefreshOutcome", "Heartbeat", "Query", "QueryArrow", "CpuProfile", "HeapProfile", "RequestSplit",
    "GetSplitStatus", "ConfigureShard", "ImportJobs", "ResetShards", "ForceReleaseShard", "CompactShard",
    "FlushShard", "GetShardStorageInfo", "DumpTasks",
]  # fmt: skip
FIRST = {line.split()[0]: line for line in reversed(LINES)}
NUMBER = 1_000_000_007  # does not fit two bytes of a varint


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def encode_delimited(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def encode_by_hand(line: str) -> tuple[Any, bytes]:
    """The message with a value in every field of the line, and its expected bytes."""
    name, _, rest = line.partition(" ")
    message, encoded = getattr(pb, name)(), b""
    for field in filter(None, rest.split(" | ")):
        number, field_name, *kinds = field.split()
        encoded += _set(message, int(number), field_name, kinds[-1], is_repeated=kinds[0] == "rep")
    return message, encoded


def _set(message: Any, number: int, name: str, kind: str, *, is_repeated: bool) -> bytes:
    if kind == "map":
        getattr(message, name)["k"] = "v"
        return encode_delimited(number, encode_delimited(1, b"k") + encode_delimited(2, b"v"))
    if kind[0].isupper():
        inner, content = encode_by_hand(FIRST[kind])
        getattr(message, name).MergeFrom([inner] if is_repeated else inner)
        if not is_repeated:
            getattr(message, name).SetInParent()
        return encode_delimited(number, content)
    if kind in ("string", "bytes"):
        text = f"{name} ü"
        value: Any = text if kind == "string" else text.encode()
        if is_repeated:
            getattr(message, name).append(value)
        else:
            setattr(message, name, value)
        return encode_delimited(number, text.encode())
    if kind == "double":
        setattr(message, name, 1.5)
        return varint(number << 3 | 1) + struct.pack("<d", 1.5)
    value = {"bool": True, "enum": 1}.get(kind, NUMBER)
    setattr(message, name, value)
    return varint(number << 3) + varint(int(value))


@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\W+", "-", line[:40]))
def test_a_message_has_the_bytes_that_clients_expect(line: str) -> None:
    message, encoded = encode_by_hand(line)
    assert message.SerializeToString(deterministic=True) == encoded
    assert type(message).FromString(encoded) == message


def test_the_table_has_every_field_of_every_message() -> None:
    listed: dict[str, set[tuple[int, str]]] = {}
    for line in LINES:
        name, _, rest = line.partition(" ")
        fields = [field.split() for field in filter(None, rest.split(" | "))]
        listed.setdefault(name, set()).update((int(number), field) for number, field, *_ in fields)
    messages = pb.DESCRIPTOR.message_types_by_name
    assert {name: {(field.number, field.name) for field in kind.fields} for name, kind in messages.items()} == listed


def test_optional_fields_have_presence() -> None:
    optional = {
        f"{name}.{field.name}"
        for name, kind in pb.DESCRIPTOR.message_types_by_name.items()
        for field in kind.fields
        if field.has_presence
        and field.message_type is None
        and not (field.containing_oneof and len(field.containing_oneof.fields) > 1)
    }
    assert optional == {
        "SerializedBytes.msgpack",
        "EnqueueRequest.tenant",
        "GetJobRequest.tenant",
        "JobAttempt.finished_at_ms",
        "JobAttempt.error_code",
        "GetJobResponse.next_attempt_starts_after_ms",
        "GetJobResultRequest.tenant",
        "DeleteJobRequest.tenant",
        "CancelJobRequest.tenant",
        "RestartJobRequest.tenant",
        "ExpediteJobRequest.tenant",
        "DropTenantHoldersRequest.tenant",
        "LeaseTaskRequest.tenant",
        "LeaseTasksRequest.shard",
        "Task.tenant_id",
        "RefreshFloatingLimitTask.tenant_id",
        "ReportOutcomeRequest.tenant_id",
        "ReportRefreshOutcomeRequest.tenant_id",
        "HeartbeatRequest.tenant_id",
        "HeartbeatResponse.cancelled_at_ms",
        "QueryRequest.tenant",
        "QueryArrowRequest.tenant",
        "ShardOwner.placement_ring",
        "ConfigureShardRequest.placement_ring",
        "ConfigureShardRequest.tenant",
        "ImportAttempt.error_code",
        "ImportJobRequest.tenant",
        "ImportJobResult.error",
    }


def test_the_service_has_every_method_and_one_of_them_streams() -> None:
    service = pb.DESCRIPTOR.services_by_name["Silo"]
    assert service.full_name == "silo.v1.Silo"
    assert [method.name for method in service.methods] == RPCS
    assert [method.name for method in service.methods if method.server_streaming] == ["QueryArrow"]
    assert [method.input_type.name for method in service.methods] == [f"{name}Request" for name in RPCS]


def test_enum_numbers_do_not_change() -> None:
    def numbers(enum: Any, prefix: str) -> dict[str, int]:
        return {name.removeprefix(prefix): number for name, number in enum.items()}

    assert numbers(pb.JobStatus, "JOB_STATUS_") == {
        "SCHEDULED": 0,
        "RUNNING": 1,
        "SUCCEEDED": 2,
        "FAILED": 3,
        "CANCELLED": 4,
    }
    assert numbers(pb.AttemptStatus, "ATTEMPT_STATUS_") == {"RUNNING": 0, "SUCCEEDED": 1, "FAILED": 2, "CANCELLED": 3}
    assert numbers(pb.GubernatorAlgorithm, "GUBERNATOR_ALGORITHM_") == {"TOKEN_BUCKET": 0, "LEAKY_BUCKET": 1}
    assert numbers(pb.GubernatorBehavior, "GUBERNATOR_BEHAVIOR_") == {
        "BATCHING": 0,
        "NO_BATCHING": 1,
        "GLOBAL": 2,
        "DURATION_IS_GREGORIAN": 4,
        "RESET_REMAINING": 8,
        "DRAIN_OVER_LIMIT": 16,
    }
