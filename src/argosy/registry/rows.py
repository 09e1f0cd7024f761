"""The rows of the registry: operators' configuration, and state of the control plane.

The columns are those of the design document (004) and of its later branch. A row carries its version, which the store
assigns. Times are milliseconds since 1970.
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
    """One public id for the tasks that a fan-out has started on many nodes. Table `tasks`."""

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
    """The settings version of an index on a node. Rows of the index `*` have the fleet's version of each index."""

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
    """The group that serves a client, so that it reads its own writes. Table `sessions`."""

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
    """The leader of one scope. The row outlives the lease, because the fence must never decrease."""

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
    """The group that serves an API key, by the key's hash. Table `tenant_map`."""

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
    reindex_requested_at: int | None = None  # an older index must be rebuilt
    pushed_at: int | None = None  # the last push notification
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
    """The current search key of an index, and the previous one until it is revoked."""

    index_uid: str
    primary_uid: str
    previous_uid: str | None
    rotated_at: int
    generation: int
    version: int = 0


@dataclass(frozen=True)
class ScopedKeyObserved:
    """The generation that a gateway last used. It expires, so that a crashed gateway does not block a rotation."""

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
