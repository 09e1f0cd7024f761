"""The JSON that is sent to us, as the nouns of the room. A field that is not known is refused by name."""

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
    GivenBack,
    Limit,
    NewJob,
    Outcome,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
    Success,
)
from argosy.jobs.sdk.payload_codec import pack

T = TypeVar("T")

BATCH_MAX = 1_000  # jobs, heartbeats or outcomes in one request
TASKS_MAX = 100  # leased by one request
WAIT_S_MAX = 60.0
RETRY_MS_MAX = 3_600_000  # between two tries, unless it is said


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """What all bodies are."""


class RetryWish(Wish):
    retry_count: int = 0
    initial_interval_ms: int = 0
    max_interval_ms: int = RETRY_MS_MAX
    randomize_interval: bool = False
    backoff_factor: float = 2.0


class ConcurrencyWish(Wish, tag_field="kind", tag="concurrency"):
    key: str
    max_concurrency: int


class FloatingWish(Wish, tag_field="kind", tag="floating"):
    key: str
    default_max_concurrency: int
    refresh_interval_ms: int
    metadata: dict[str, str] = {}


class RateWish(Wish, tag_field="kind", tag="rate"):
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


LimitWish: TypeAlias = ConcurrencyWish | FloatingWish | RateWish


class JobWish(Wish):
    """A job; its payload as JSON (which workers get as msgpack), or as bytes in base64."""

    task_group: str
    payload: Any = None
    payload_base64: bytes = b""
    id: str = ""
    priority: int = PRIORITY_DEFAULT
    start_at_ms: int = 0
    retry: RetryWish | None = None
    limits: list[LimitWish] = []
    metadata: dict[str, str] = {}
    unique_key: str = ""
    unique_for_ms: int = 0
    after: list[str] = []
    keep_ms: int = 0

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
            self.keep_ms,
        )


class RequeueWish(Wish):
    ids: list[str] = []
    limit: int = 100


class ScheduleWish(Wish):
    cron: str
    job: JobWish
    timezone: str = "UTC"
    is_paused: bool = False


class LeaseWish(Wish):
    task_group: str
    worker: str
    max_tasks: int = 1
    wait_s: float = 0.0


class BeatWish(Wish):
    """`tenant` as it was told with the task; by default that of the request."""

    task: str
    tenant: str | None = None
    progress: Any = None


class BeatsWish(Wish):
    worker: str
    tasks: list[BeatWish]


class FailureWish(Wish):
    code: str
    data: Any = None


class OutcomeWish(Wish):
    """One of success (with any result, null too), failure, cancelled and given_back; `tenant` as for a heartbeat."""

    task: str
    tenant: str | None = None
    success: Any = msgspec.UNSET
    failure: FailureWish | None = None
    cancelled: bool = False
    given_back: bool = False

    def outcome(self) -> Outcome:
        if (self.success is not msgspec.UNSET) + (self.failure is not None) + self.cancelled + self.given_back != 1:
            raise Invalid(f"the outcome of task {self.task} must be one of success, failure, cancelled, given_back")
        if self.failure is not None:
            return Failure(self.failure.code, pack(self.failure.data))
        if self.given_back:
            return GivenBack()
        return Cancelled() if self.cancelled else Success(pack(self.success))


class OutcomesWish(Wish):
    worker: str
    outcomes: list[OutcomeWish]


def read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise Invalid(f"the body is not the JSON that is wanted here: {error}") from error


def read_jobs(body: bytes, tenant: str) -> tuple[list[NewJob], bool]:
    """One job or an array of them, and whether it was an array."""
    if body.lstrip()[:1] != b"[":
        return [read(body, JobWish).job(tenant)], False
    wishes = read(body, list[JobWish])
    check_batch(len(wishes))
    return [wish.job(tenant) for wish in wishes], True


def check_batch(count: int) -> None:
    if count > BATCH_MAX:
        raise Invalid(f"one request may bring {BATCH_MAX} items; got {count}")


def _limit(wish: LimitWish) -> Limit:
    match wish:
        case ConcurrencyWish():
            return ConcurrencyLimit(wish.key, wish.max_concurrency)
        case FloatingWish():
            metadata: Mapping[str, str] = wish.metadata
            return FloatingLimit(wish.key, wish.default_max_concurrency, wish.refresh_interval_ms, metadata)
        case RateWish():
            retry = RateLimitRetry(
                wish.initial_backoff_ms, wish.max_backoff_ms, wish.backoff_multiplier, wish.max_retries
            )
            return RateLimit(
                wish.name,
                wish.unique_key,
                wish.limit,
                wish.duration_ms,
                wish.hits,
                wish.algorithm,
                wish.behavior,
                retry,
            )
