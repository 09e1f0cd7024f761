"""The rows of the registry: what operators ask for, and what the control plane must remember.

Columns are those of the design document and of what its later branch had to add. A row carries the version that the
store has given it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class TaskStatus(StrEnum):
    ENQUEUED = "enqueued"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        return self in (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELED)


class ControlJobState(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        return self in (ControlJobState.COMPLETED, ControlJobState.FAILED, ControlJobState.CANCELED)


class AliasKind(StrEnum):
    SINGLE = "single"
    MULTI = "multi"


class RunStatus(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"


class IdempotencyState(StrEnum):
    PENDING = "pending"
    DONE = "done"


class OperationStatus(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class ControlTask:
    """One public id for what a fan-out started on many nodes. Table `tasks`."""

    task_id: str
    task_uid: int  # grows with each task: newest-first paging needs no clock
    created_at: int
    status: TaskStatus
    node_tasks: Mapping[str, str] = field(default_factory=dict)  # node -> its own task
    node_errors: Mapping[str, str] = field(default_factory=dict)
    index_uid: str | None = None
    task_type: str | None = None
    error: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    version: int = 0


@dataclass(frozen=True)
class NodeSettingsVersion:
    """How fresh a node's settings of an index are. The index `*` is the fleet, and its nodes are all indexes."""

    index_uid: str
    node_id: str
    settings_version: int
    updated_at: int
    version: int = 0


@dataclass(frozen=True)
class IndexAlias:
    """A name for one index (read and write) or several (read only)."""

    name: str
    kind: AliasKind
    current_uid: str | None  # of a single alias
    target_uids: tuple[str, ...]  # of a multi alias
    created_at: int
    history: tuple[str, ...] = ()  # earlier states as JSON, newest last
    version: int = 0


@dataclass(frozen=True)
class ClientSession:
    """Reads see one's own writes: the group that answers a session. Table `sessions`."""

    session_id: str
    last_write_task_id: str | None
    last_write_at: int | None
    pinned_groups: Mapping[str, int]  # index -> group
    min_settings_version: int
    expires_at: int
    version: int = 0


@dataclass(frozen=True)
class IdempotencyEntry:
    key: str
    body_sha256: bytes
    state: IdempotencyState
    task_id: str | None
    expires_at: int
    version: int = 0


@dataclass(frozen=True)
class ControlJob:
    """Background work of the control plane, claimed under a lease. Table `jobs`."""

    job_id: str
    type: str
    params: Mapping[str, Any]
    state: ControlJobState
    due: int  # order of the queue: priority first, then arrival
    created_at: int
    priority: int = 0
    not_before: int = 0
    claimed_by: str | None = None
    claim_expires_at: int | None = None
    fence: int = 0
    attempts: int = 0
    max_attempts: int = 3
    progress: Mapping[str, Any] = field(default_factory=dict)
    parent_job_id: str | None = None
    chunk_index: int | None = None
    total_chunks: int | None = None
    dedupe_key: str | None = None
    finished_at: int | None = None
    error: str | None = None
    version: int = 0


@dataclass(frozen=True)
class LeaderLease:
    """Who leads one scope. The row outlives the lease, because the fence must never go back."""

    scope: str
    holder: str | None
    expires_at: int
    fence: int
    acquired_at: int
    version: int = 0


@dataclass(frozen=True)
class Canary:
    canary_id: str
    name: str
    index_uid: str
    interval_s: int
    query: Mapping[str, Any]
    assertions: tuple[str, ...]  # each a JSON object
    is_enabled: bool
    created_at: int
    version: int = 0


@dataclass(frozen=True)
class CdcCursor:
    sink_name: str
    index_uid: str
    last_event_seq: int
    updated_at: int
    version: int = 0


@dataclass(frozen=True)
class Tenant:
    """Which group serves an API key, of which only the hash is known. Table `tenant_map`."""

    api_key_hash: str  # sha-256, in hexadecimal
    tenant_id: str
    group_id: int | None
    added_at: int = 0  # the order of the list
    version: int = 0


@dataclass(frozen=True)
class RolloverPolicy:
    name: str
    write_alias: str
    read_alias: str
    pattern: str
    triggers: Mapping[str, Any]
    retention: Mapping[str, Any]
    template: Mapping[str, Any]
    is_enabled: bool
    last_action_at: int | None = None
    last_error: str | None = None
    version: int = 0


@dataclass(frozen=True)
class SearchUiConfig:
    index_uid: str
    config: Mapping[str, Any]
    updated_at: int
    version: int = 0


@dataclass(frozen=True)
class AdminSession:
    session_id: str
    csrf_token: str
    admin_key_hash: str
    created_at: int
    expires_at: int
    is_revoked: bool = False
    user_agent: str | None = None
    source_ip: str | None = None
    version: int = 0


@dataclass(frozen=True)
class RepositoryRow:
    """One repository that should be searchable: the catalog's row."""

    repo_id: str
    url: str
    branches: tuple[str, ...] = ()
    is_pinned: bool = False
    replicas: int = 0
    max_bids: int | None = None
    footprint_bytes: int | None = None
    last_commit: str | None = None
    last_indexed_at: int | None = None
    failures: int = 0  # in a row, since it was last indexed
    last_error: str | None = None
    last_failed_at: int | None = None
    reindex_requested_at: int | None = None  # an index older than this is to be made anew
    pushed_at: int | None = None  # its origin said that it has news
    added_at: int = 0
    version: int = 0


@dataclass(frozen=True)
class ControlOperation:
    """A long change that a leader drives through phases; the next leader resumes at the last one committed."""

    operation_id: str
    type: str
    scope: str
    phase: str
    status: OperationStatus
    phase_started_at: int
    created_at: int
    updated_at: int
    fence: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    busy_scope: str | None = None  # the scope until the operation ends: one at a time
    version: int = 0


@dataclass(frozen=True)
class TtlPolicy:
    index_uid: str
    sweep_interval_s: int
    max_deletes_per_sweep: int
    is_enabled: bool
    updated_at: int
    version: int = 0


@dataclass(frozen=True)
class BeaconSeen:
    index_uid: str
    event_id: str
    expires_at: int
    version: int = 0


@dataclass(frozen=True)
class LoginBackoff:
    source_ip: str
    failed_count: int
    next_allowed_at: int
    expires_at: int
    version: int = 0


@dataclass(frozen=True)
class ScopedKey:
    """The search key in force for an index, and the one before it."""

    index_uid: str
    primary_uid: str
    previous_uid: str | None
    rotated_at: int
    generation: int
    version: int = 0


@dataclass(frozen=True)
class ScopedKeyObserved:
    """Which generation a pod last used; it expires, so that a dead pod blocks nothing."""

    pod_id: str
    index_uid: str
    generation: int
    observed_at: int
    expires_at: int
    version: int = 0


@dataclass(frozen=True)
class LivePod:
    pod_id: str
    seen_at: int
    version: int = 0
