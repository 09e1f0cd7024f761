from argosy.jobs.silo import silo_pb2 as _silo_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Error(_message.Message):
    __slots__ = ("code", "message", "owner_address")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OWNER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    owner_address: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., owner_address: _Optional[str] = ...) -> None: ...

class NewJob(_message.Message):
    __slots__ = ("tenant", "id", "task_group", "payload", "priority", "start_at_ms", "retry_policy", "limits", "metadata", "unique_key", "unique_for_ms", "after", "retention_ms", "trace")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    START_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FOR_MS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    id: str
    task_group: str
    payload: bytes
    priority: int
    start_at_ms: int
    retry_policy: _silo_pb2.RetryPolicy
    limits: _containers.RepeatedCompositeFieldContainer[_silo_pb2.Limit]
    metadata: _containers.ScalarMap[str, str]
    unique_key: str
    unique_for_ms: int
    after: _containers.RepeatedScalarFieldContainer[str]
    retention_ms: int
    trace: str
    def __init__(self, tenant: _Optional[str] = ..., id: _Optional[str] = ..., task_group: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., start_at_ms: _Optional[int] = ..., retry_policy: _Optional[_Union[_silo_pb2.RetryPolicy, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[_silo_pb2.Limit, _Mapping]]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., unique_key: _Optional[str] = ..., unique_for_ms: _Optional[int] = ..., after: _Optional[_Iterable[str]] = ..., retention_ms: _Optional[int] = ..., trace: _Optional[str] = ...) -> None: ...

class EnqueueBatchRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ...) -> None: ...

class EnqueueResult(_message.Message):
    __slots__ = ("id", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    error: Error
    def __init__(self, id: _Optional[str] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class EnqueueBatchResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EnqueueResult]
    def __init__(self, results: _Optional[_Iterable[_Union[EnqueueResult, _Mapping]]] = ...) -> None: ...

class LeaseTasksRequest(_message.Message):
    __slots__ = ("shard", "worker_id", "task_group", "max_tasks", "wait_ms")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    shard: str
    worker_id: str
    task_group: str
    max_tasks: int
    wait_ms: int
    def __init__(self, shard: _Optional[str] = ..., worker_id: _Optional[str] = ..., task_group: _Optional[str] = ..., max_tasks: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class LeasedTask(_message.Message):
    __slots__ = ("task", "trace", "schedule")
    TASK_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    task: _silo_pb2.Task
    trace: str
    schedule: str
    def __init__(self, task: _Optional[_Union[_silo_pb2.Task, _Mapping]] = ..., trace: _Optional[str] = ..., schedule: _Optional[str] = ...) -> None: ...

class LeaseTasksResponse(_message.Message):
    __slots__ = ("tasks", "refresh_tasks")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[LeasedTask]
    refresh_tasks: _containers.RepeatedCompositeFieldContainer[_silo_pb2.RefreshFloatingLimitTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[LeasedTask, _Mapping]]] = ..., refresh_tasks: _Optional[_Iterable[_Union[_silo_pb2.RefreshFloatingLimitTask, _Mapping]]] = ...) -> None: ...

class TaskOutcome(_message.Message):
    __slots__ = ("shard", "task_id", "success", "failure", "cancelled", "released")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    shard: str
    task_id: str
    success: bytes
    failure: Failure
    cancelled: Cancelled
    released: Released
    def __init__(self, shard: _Optional[str] = ..., task_id: _Optional[str] = ..., success: _Optional[bytes] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ...) -> None: ...

class Released(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "data")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    code: str
    data: bytes
    def __init__(self, code: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportOutcomesRequest(_message.Message):
    __slots__ = ("worker_id", "outcomes")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    outcomes: _containers.RepeatedCompositeFieldContainer[TaskOutcome]
    def __init__(self, worker_id: _Optional[str] = ..., outcomes: _Optional[_Iterable[_Union[TaskOutcome, _Mapping]]] = ...) -> None: ...

class ReportResult(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: Error
    def __init__(self, error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class ReportOutcomesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReportResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReportResult, _Mapping]]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("shard", "task_id", "progress")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    shard: str
    task_id: str
    progress: bytes
    def __init__(self, shard: _Optional[str] = ..., task_id: _Optional[str] = ..., progress: _Optional[bytes] = ...) -> None: ...

class HeartbeatsRequest(_message.Message):
    __slots__ = ("worker_id", "heartbeats")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    heartbeats: _containers.RepeatedCompositeFieldContainer[Heartbeat]
    def __init__(self, worker_id: _Optional[str] = ..., heartbeats: _Optional[_Iterable[_Union[Heartbeat, _Mapping]]] = ...) -> None: ...

class HeartbeatResult(_message.Message):
    __slots__ = ("cancelled_at_ms", "error")
    CANCELLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    cancelled_at_ms: int
    error: Error
    def __init__(self, cancelled_at_ms: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class HeartbeatsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[HeartbeatResult]
    def __init__(self, results: _Optional[_Iterable[_Union[HeartbeatResult, _Mapping]]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("tenant", "id", "with_attempts")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    id: str
    with_attempts: bool
    def __init__(self, tenant: _Optional[str] = ..., id: _Optional[str] = ..., with_attempts: _Optional[bool] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("job", "tenant", "progress", "is_dead", "waiting_for", "cancelled_at_ms", "unique_key", "after", "schedule", "trace", "attempt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    IS_DEAD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    job: _silo_pb2.GetJobResponse
    tenant: str
    progress: bytes
    is_dead: bool
    waiting_for: _containers.RepeatedScalarFieldContainer[str]
    cancelled_at_ms: int
    unique_key: str
    after: _containers.RepeatedScalarFieldContainer[str]
    schedule: str
    trace: str
    attempt: int
    def __init__(self, job: _Optional[_Union[_silo_pb2.GetJobResponse, _Mapping]] = ..., tenant: _Optional[str] = ..., progress: _Optional[bytes] = ..., is_dead: _Optional[bool] = ..., waiting_for: _Optional[_Iterable[str]] = ..., cancelled_at_ms: _Optional[int] = ..., unique_key: _Optional[str] = ..., after: _Optional[_Iterable[str]] = ..., schedule: _Optional[str] = ..., trace: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class FindJobsRequest(_message.Message):
    __slots__ = ("tenant", "status", "metadata_key", "metadata_value", "is_dead", "after", "limit")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_KEY_FIELD_NUMBER: _ClassVar[int]
    METADATA_VALUE_FIELD_NUMBER: _ClassVar[int]
    IS_DEAD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    status: _silo_pb2.JobStatus
    metadata_key: str
    metadata_value: str
    is_dead: bool
    after: str
    limit: int
    def __init__(self, tenant: _Optional[str] = ..., status: _Optional[_Union[_silo_pb2.JobStatus, str]] = ..., metadata_key: _Optional[str] = ..., metadata_value: _Optional[str] = ..., is_dead: _Optional[bool] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class FindJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class RequeueDeadRequest(_message.Message):
    __slots__ = ("tenant", "ids", "limit")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    def __init__(self, tenant: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ...) -> None: ...

class RequeueResult(_message.Message):
    __slots__ = ("id", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    error: Error
    def __init__(self, id: _Optional[str] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class RequeueDeadResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RequeueResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RequeueResult, _Mapping]]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("tenant", "name", "cron", "timezone", "job", "is_paused", "next_at_ms")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    cron: str
    timezone: str
    job: NewJob
    is_paused: bool
    next_at_ms: int
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., cron: _Optional[str] = ..., timezone: _Optional[str] = ..., job: _Optional[_Union[NewJob, _Mapping]] = ..., is_paused: _Optional[bool] = ..., next_at_ms: _Optional[int] = ...) -> None: ...

class PutScheduleRequest(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class PutScheduleResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("tenant", "name")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
