"""JSON request bodies. Unknown fields are rejected by name."""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.jobs.model import (
    PRIORITY_DEFAULT,
    Cancelled,
    ConcurrencyLimit,
    Failure,
    FloatingLimit,
    Limit,
    NewJob,
    RateLimit,
    RateLimitRetry,
    Released,
    RetryPolicy,
    Success,
    TaskOutcome,
)
from argosy.jobs.sdk.payload_codec import pack

T = TypeVar("T")

BATCH_MAX = 1_000  # jobs, heartbeats or outcomes in one request
TASKS_MAX = 100  # per request
WAIT_S_MAX = 60.0
RETRY_MS_MAX = 3_600_000  # between two attempts, by default


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """Base of all bodies."""


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
        if (self.success is not msgspec.UNSET) + (self.failure is not None) + self.cancelled + self.released != 1:
            raise Invalid(f"the outcome of task {self.task} must be one of success, failure, cancelled, released")
        if self.failure is not None:
            return Failure(self.failure.code, pack(self.failure.data))
        if self.released:
            return Released()
        return Cancelled() if self.cancelled else Success(pack(self.success))


class OutcomesBody(RequestBody):
    worker: str
    outcomes: list[OutcomeBody]


def read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise Invalid(f"invalid request body: {error}") from error


def read_jobs(body: bytes, tenant: str) -> tuple[list[NewJob], bool]:
    """One job or an array of jobs; the flag says whether it was an array."""
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
