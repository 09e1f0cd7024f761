"""Data of the job broker: jobs, attempts, tasks, task leases, limits.

A tenant's *job* is attempted until it succeeds, is cancelled or has used up its retries. A *task* waits for its time:
usually an attempt to run, sometimes a step of the broker itself. A *TaskLease* assigns a task to a worker for a time.
All times are whole milliseconds since the epoch.

These structs are stored as they are: a field may only be added, at the end and with a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import msgspec

NO_TENANT = "-"  # the tenant of a broker that knows no tenants
# The bounds of tenants, groups, priorities and metadata are silo's, so that its clients see no other ones.
TENANT_CHARS_MAX = 64
GROUP_CHARS_MAX = 64
JOB_ID_CHARS_MAX = 256
PRIORITY_MAX = 99  # 0 goes first
PRIORITY_DEFAULT = 50
METADATA_PAIRS_MAX = 16
METADATA_KEY_CHARS_MAX = 63
METADATA_VALUE_BYTES_MAX = 65_534
PAYLOAD_BYTES_MAX = 16 << 20  # tested bound of a value in SlateDB; larger data belongs in an object store
LIMITS_MAX = 32  # of one job
FIND_DEFAULT = 100  # jobs in one page
FIND_MAX = 1_000
LEASE_MS = 10_000  # of a task lease without heartbeats; silo's value


class JobStatus(IntEnum):
    """The numbers are those of `silo.v1`."""

    SCHEDULED = 0
    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3
    CANCELLED = 4

    @property
    def is_final(self) -> bool:
        return self >= JobStatus.SUCCEEDED


class AttemptStatus(IntEnum):
    """The numbers are those of `silo.v1`."""

    RUNNING = 0
    SUCCEEDED = 1
    FAILED = 2
    CANCELLED = 3


class RetryPolicy(msgspec.Struct, frozen=True, array_like=True):
    """`retry_count` retries after the first attempt; the delay grows by the factor up to the longest interval."""

    retry_count: int = 0
    initial_interval_ms: int = 0
    max_interval_ms: int = 0
    randomize_interval: bool = False
    backoff_factor: float = 2.0


class ConcurrencyLimit(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """At most `max_concurrency` jobs of this tenant hold `key` at a time."""

    key: str
    max_concurrency: int


class RateLimitRetry(msgspec.Struct, frozen=True, array_like=True):
    """How a job over its rate waits; 0 retries means without end."""

    initial_backoff_ms: int = 100
    max_backoff_ms: int = 30_000
    backoff_multiplier: float = 2.0
    max_retries: int = 0


class RateLimit(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Hits on a bucket that all tenants share; see `throttle.limits`. `behavior` is numbered as in silo.v1."""

    name: str
    unique_key: str
    limit: int
    duration_ms: int
    hits: int = 1
    algorithm: int = 0
    behavior: int = 0
    retry: RateLimitRetry = RateLimitRetry()


class FloatingLimit(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A concurrency limit whose maximum workers report periodically."""

    key: str
    default_max_concurrency: int
    refresh_interval_ms: int
    metadata: Mapping[str, str] = {}


Limit: TypeAlias = ConcurrencyLimit | RateLimit | FloatingLimit


class NewJob(msgspec.Struct, frozen=True):
    """A job as the client requests it."""

    task_group: str
    payload: bytes = b""
    tenant: str = NO_TENANT
    id: str = ""  # "": the broker assigns one
    priority: int = PRIORITY_DEFAULT
    start_at_ms: int = 0  # 0 or earlier: now
    retry: RetryPolicy | None = None
    limits: tuple[Limit, ...] = ()
    metadata: Mapping[str, str] = {}
    # Not in silo.v1; its clients get the defaults.
    unique_key: str = ""  # one unfinished or recent job per key …
    unique_for_ms: int = 0  # … for this long from its enqueueing
    after: tuple[str, ...] = ()  # jobs of this tenant that must have succeeded first
    retention_ms: int = 0  # how long it is kept when it is done; 0: the broker's setting
    trace: str = ""  # W3C traceparent of the enqueuing span


class Job(msgspec.Struct, frozen=True, array_like=True):
    """The immutable part of a job."""

    id: str
    tenant: str
    task_group: str
    priority: int
    enqueued_at: int
    start_at: int
    payload: bytes = b""
    retry: RetryPolicy | None = None
    limits: tuple[Limit, ...] = ()
    metadata: Mapping[str, str] = {}
    unique_key: str = ""
    after: tuple[str, ...] = ()
    retention_ms: int = 0
    trace: str = ""
    schedule: str = ""  # the cron schedule it came from


# Apart from `Job`, because a change of state must not write the payload again.
class JobState(msgspec.Struct, frozen=True, array_like=True):
    """The mutable part of a job."""

    status: JobStatus
    changed_at: int
    attempt: int = 0  # the latest; counts for the job's whole life
    relative_attempt: int = 0  # counts from the latest restart; retries are counted by it
    next_start_at: int = 0  # while SCHEDULED
    cancelled_at: int = 0  # the cancel mark; a RUNNING job may carry it
    waiting_for: tuple[str, ...] = ()  # jobs it runs after that are not done yet
    progress: bytes = b""  # the latest from its worker
    is_dead: bool = False  # FAILED with no retries left: in the dead-letter view


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    number: int
    task_id: str
    status: AttemptStatus
    started_at: int
    worker: str = ""
    finished_at: int = 0
    result: bytes | None = None
    error_code: str = ""
    error_data: bytes = b""


# Tags and positions below are stored: a number is never given to another kind.
class RunAttempt(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """For a worker: run an attempt. Each held key has a holder row with this task's id."""

    id: str
    tenant: str
    job: str
    attempt: int
    relative_attempt: int
    held: tuple[str, ...] = ()


class RequestTicket(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """For the broker: at the start time, queue for a slot of the first limit in `rest`."""

    id: str
    tenant: str
    job: str
    attempt: int
    relative_attempt: int
    rest: tuple[Limit, ...]  # the part of the chain still to pass
    held: tuple[str, ...] = ()


class CheckRateLimit(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """For the broker: check the first limit in `rest` with the rate limiter."""

    id: str
    tenant: str
    job: str
    attempt: int
    relative_attempt: int
    rest: tuple[Limit, ...]
    tries: int = 0
    held: tuple[str, ...] = ()


class RefreshLimit(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """For a worker: determine the maximum of a floating limit."""

    id: str
    tenant: str
    key: str
    task_group: str


Task: TypeAlias = RunAttempt | RequestTicket | CheckRateLimit | RefreshLimit


class QueuedTask(msgspec.Struct, frozen=True, array_like=True):
    """A task in the queue, ordered by (task_group, start_at, priority, job, attempt)."""

    task: Task
    task_group: str
    start_at: int
    priority: int


class TaskLease(msgspec.Struct, frozen=True, array_like=True):
    """A task assigned to a worker until it expires."""

    worker: str
    task: Task
    task_group: str
    started_at: int
    expires_at: int
    lease_ms: int = 0  # the length that the worker got, by which it sends heartbeats; 0 in old rows


class SlotRequest(msgspec.Struct, frozen=True, array_like=True):
    """A job that waits for a slot of a concurrency limit."""

    task_id: str
    tenant: str
    key: str
    job: str
    attempt: int
    relative_attempt: int
    rest: tuple[Limit, ...]
    start_at: int
    priority: int
    task_group: str
    held: tuple[str, ...] = ()


class FloatingState(msgspec.Struct, frozen=True, array_like=True):
    """The current maximum of a floating limit."""

    max_concurrency: int
    refresh_interval_ms: int
    refreshed_at: int
    metadata: Mapping[str, str] = {}
    is_refreshing: bool = False
    failures: int = 0
    not_before: int = 0


class Schedule(msgspec.Struct, frozen=True, array_like=True):
    """A cron schedule: at each due time a job like `job` is enqueued."""

    name: str
    tenant: str
    cron: str
    timezone: str
    job: NewJob
    next_at: int
    is_paused: bool = False


class ImportedJob(msgspec.Struct, frozen=True):
    """A job from another system with its earlier attempts."""

    job: NewJob
    enqueued_at: int
    attempts: tuple[Attempt, ...] = ()


class LeasedTask(msgspec.Struct, frozen=True):
    """A leased task with its job, as a worker gets it."""

    task: RunAttempt
    job: Job
    lease_ms: int
    is_last_attempt: bool


class LeasedRefresh(msgspec.Struct, frozen=True):
    """A leased refresh of a floating limit, as a worker gets it."""

    task: RefreshLimit
    state: FloatingState
    lease_ms: int


class JobView(msgspec.Struct, frozen=True):
    """A job as its tenant sees it."""

    job: Job
    state: JobState
    attempts: tuple[Attempt, ...] = ()  # oldest first, if they were requested


class Heartbeat(msgspec.Struct, frozen=True):
    """The answer to a worker's heartbeat."""

    cancelled_at: int = 0  # not 0: stop


class TaskSuccess(msgspec.Struct, frozen=True):
    data: bytes = b""


class TaskFailure(msgspec.Struct, frozen=True):
    code: str
    data: bytes = b""


class TaskCancelled(msgspec.Struct, frozen=True):
    """The worker stopped because the job was cancelled."""


class TaskReleased(msgspec.Struct, frozen=True):
    """The worker is stopping: another one runs the job, without counting a retry."""


TaskOutcome: TypeAlias = TaskSuccess | TaskFailure | TaskCancelled | TaskReleased

# Error codes of attempts that the broker ended.
WORKER_STOPPED = "WORKER_STOPPED"  # released by its worker
WORKER_CRASHED = "WORKER_CRASHED"  # its lease expired
RATE_LIMITED = "RATE_LIMITED"  # used up the retries of a rate limit
AFTER_FAILED = "AFTER_FAILED"  # a job that it runs after did not succeed


@dataclass(frozen=True)
class ShardOptions:
    """Settings of a shard that apply where a job or a task does not set its own."""

    lease_ms: int = LEASE_MS
    retention_ms: int = 0  # how long a finished job is kept; 0: without end
