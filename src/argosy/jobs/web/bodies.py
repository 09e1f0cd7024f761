"""JSON bodies of requests and responses. Unknown fields of requests are rejected by name.

A value that JSON cannot represent is returned in base64, under its name with the suffix `_base64`.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from argosy.base.errors import ArgosyError, Invalid
from argosy.base.redact import redact
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import (
    PRIORITY_DEFAULT,
    ConcurrencyLimit,
    FloatingLimit,
    Limit,
    NewJob,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
    Schedule,
    TaskCancelled,
    TaskFailure,
    TaskOutcome,
    TaskReleased,
    TaskSuccess,
)
from argosy.jobs.ports import ShardInfo
from argosy.jobs.sdk.codec import AttemptInfo, JobInfo, pack, unpack

T = TypeVar("T")

BATCH_MAX = 1_000  # jobs, heartbeats or outcomes in one request
TASKS_MAX = 100  # per request: each payload may have 16 MiB
WAIT_S_MAX = 60.0
RETRY_MS_MAX = 3_600_000  # between two attempts, by default: silo's default of 0 would mean no delay at all


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """Base of all request bodies. A misspelt option is rejected, not ignored: a job would run without its limit."""


class RetryBody(RequestBody):
    retry_count: int = 0
    initial_interval_ms: int = 0
    max_interval_ms: int = RETRY_MS_MAX
    randomize_interval: bool = False
    backoff_factor: float = 2.0


class ConcurrencyBody(RequestBody, tag_field="kind", tag="concurrency"):
    key: str
    max_concurrency: int


class FloatingBody(RequestBody, tag_field="kind", tag="floating"):
    key: str
    default_max_concurrency: int
    refresh_interval_ms: int
    metadata: dict[str, str] = {}


class RateBody(RequestBody, tag_field="kind", tag="rate"):
    name: str
    unique_key: str
    limit: int
    duration_ms: int
    hits: int = 1
    algorithm: int = 0
    behavior: int = 0
    initial_backoff_ms: int = RateLimitRetry().initial_backoff_ms
    max_backoff_ms: int = RateLimitRetry().max_backoff_ms
    backoff_multiplier: float = RateLimitRetry().backoff_multiplier
    max_retries: int = 0


LimitBody: TypeAlias = ConcurrencyBody | FloatingBody | RateBody


class JobBody(RequestBody):
    """A job; the payload as JSON (workers get msgpack), or as bytes in base64."""

    task_group: str
    payload: Any = None
    payload_base64: bytes = b""
    id: str = ""
    priority: int = PRIORITY_DEFAULT
    start_at_ms: int = 0
    retry: RetryBody | None = None
    limits: list[LimitBody] = []
    metadata: dict[str, str] = {}
    unique_key: str = ""
    unique_for_ms: int = 0
    after: list[str] = []
    retention_ms: int = 0

    def job(self, tenant: str) -> NewJob:
        if self.payload_base64 and self.payload is not None:
            raise Invalid("send payload or payload_base64, not both")
        return NewJob(
            self.task_group,
            self.payload_base64 or pack(self.payload),
            tenant,
            self.id,
            self.priority,
            self.start_at_ms,
            None if self.retry is None else RetryPolicy(**msgspec.structs.asdict(self.retry)),
            tuple([_limit(limit) for limit in self.limits]),
            self.metadata,
            self.unique_key,
            self.unique_for_ms,
            tuple(self.after),
            self.retention_ms,
        )


class RequeueBody(RequestBody):
    ids: list[str] = []
    limit: int = 100


class ScheduleBody(RequestBody):
    cron: str
    job: JobBody
    timezone: str = "UTC"
    is_paused: bool = False


class LeaseBody(RequestBody):
    task_group: str
    worker: str
    max_tasks: int = 1
    wait_s: float = 0.0


class HeartbeatBody(RequestBody):
    """`tenant` as received with the task; default: the tenant of the request."""

    task: str
    tenant: str | None = None
    progress: Any = None


class HeartbeatsBody(RequestBody):
    worker: str
    tasks: list[HeartbeatBody]


class FailureBody(RequestBody):
    code: str
    data: Any = None


class OutcomeBody(RequestBody):
    """One of success (any result, null too), failure, cancelled and released; `tenant` as for a heartbeat."""

    task: str
    tenant: str | None = None
    success: Any = msgspec.UNSET
    failure: FailureBody | None = None
    cancelled: bool = False
    released: bool = False

    def outcome(self) -> TaskOutcome:
        # UNSET and not None: null is a valid result.
        if (self.success is not msgspec.UNSET) + (self.failure is not None) + self.cancelled + self.released != 1:
            raise Invalid(f"the outcome of task {self.task} must be one of success, failure, cancelled, released")
        if self.failure is not None:
            return TaskFailure(self.failure.code, pack(self.failure.data))
        if self.released:
            return TaskReleased()
        return TaskCancelled() if self.cancelled else TaskSuccess(pack(self.success))


class OutcomesBody(RequestBody):
    worker: str
    outcomes: list[OutcomeBody]


def read(body: bytes, kind: type[T]) -> T:
    try:
        # An empty body is an empty object: some calls need no field at all.
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise Invalid(f"invalid request body: {error}") from error


def read_jobs(body: bytes, tenant: str) -> tuple[list[NewJob], bool]:
    """One job or an array of jobs; the flag says whether it was an array."""
    # By the first byte, so that each form is decoded with its own type and errors name the right field.
    if body.lstrip()[:1] != b"[":
        return [read(body, JobBody).job(tenant)], False
    bodies = read(body, list[JobBody])
    check_batch(len(bodies))
    return [body.job(tenant) for body in bodies], True


def check_batch(count: int) -> None:
    if count > BATCH_MAX:
        raise Invalid(f"a request may have at most {BATCH_MAX} items; got {count}")


def _limit(body: LimitBody) -> Limit:
    match body:
        case ConcurrencyBody():
            return ConcurrencyLimit(body.key, body.max_concurrency)
        case FloatingBody():
            metadata: Mapping[str, str] = body.metadata
            return FloatingLimit(body.key, body.default_max_concurrency, body.refresh_interval_ms, metadata)
        case RateBody():
            retry = RateLimitRetry(
                body.initial_backoff_ms, body.max_backoff_ms, body.backoff_multiplier, body.max_retries
            )
            return RateLimit(
                body.name,
                body.unique_key,
                body.limit,
                body.duration_ms,
                body.hits,
                body.algorithm,
                body.behavior,
                retry,
            )


def bytes_to_json(name: str, data: bytes) -> dict[str, Any]:
    """`name`, or `name_base64` if the bytes are not msgpack or JSON cannot represent the value."""
    # msgpack has values that JSON lacks (bytes in a map, timestamps, keys that are no text), so encoding may fail.
    value = unpack(data)
    if not isinstance(value, bytes):
        try:
            return {name: msgspec.json.decode(msgspec.json.encode(value))}
        except (TypeError, ValueError, msgspec.MsgspecError):
            pass
    return {f"{name}_base64": b64encode(data).decode()}


def job_to_json(info: JobInfo, *, with_attempts: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": info.id,
        "tenant": info.tenant,
        "task_group": info.task_group,
        "status": info.status.name.lower(),
        "priority": info.priority,
        "attempt": info.attempt,
        "enqueued_at_ms": info.enqueued_at_ms,
        "changed_at_ms": info.changed_at_ms,
        "next_start_at_ms": info.next_start_at_ms or None,
        "cancelled_at_ms": info.cancelled_at_ms or None,
        "is_dead": info.is_dead,
        "metadata": dict(info.metadata),
        "waiting_for": list(info.waiting_for),
        "schedule": info.schedule or None,
        **bytes_to_json("payload", info.payload_bytes),
        **bytes_to_json("progress", info.progress_bytes),
    }
    if info.result_bytes is not None:
        shown |= bytes_to_json("result", info.result_bytes)
    if with_attempts:
        shown["attempts"] = [_attempt(attempt) for attempt in info.attempts]
    return shown


def _attempt(attempt: AttemptInfo) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "status": attempt.status.name.lower(),
        "started_at_ms": attempt.started_at_ms,
        "finished_at_ms": attempt.finished_at_ms or None,
        "error_code": attempt.error_code or None,
        **bytes_to_json("data", attempt.data),
    }


def task_to_json(leased: pb.LeasedTask) -> dict[str, Any]:
    task = leased.task
    return {
        "task": task.id,
        "job": task.job_id,
        "tenant": task.tenant_id or None,
        "task_group": task.task_group,
        "attempt": task.attempt_number,
        "is_last_attempt": task.is_last_attempt,
        "lease_ms": task.lease_ms,
        "metadata": dict(task.metadata),
        "trace": leased.trace or None,
        **bytes_to_json("payload", task.payload.msgpack),
    }


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "is_paused": schedule.is_paused,
        "next_at_ms": schedule.next_at or None,
        "task_group": schedule.job.task_group,
        **bytes_to_json("payload", schedule.job.payload),
    }


def shard_to_json(place: ShardInfo) -> dict[str, Any]:
    return {
        "id": place.id,
        "range_start": place.range_start,
        "range_end": place.range_end,
        "node": place.node or None,
        "address": place.address or None,
    }


def error_to_json(error: ArgosyError) -> dict[str, Any]:
    return {"kind": type(error).__name__, "status": error.status, "message": redact(str(error))}
