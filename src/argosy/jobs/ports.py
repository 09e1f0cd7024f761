"""The ports of the broker: the store below a shard, the calls of a shard, and the node as the APIs see it.

Who serves a shard is answered from memory: no request waits for the coordination store.
"""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from argosy.base.errors import ArgosyError
from argosy.base.kv import Batch, OrderedKV
from argosy.jobs.model import (
    Heartbeat,
    ImportedJob,
    JobStatus,
    JobView,
    LeasedRefresh,
    LeasedTask,
    NewJob,
    Schedule,
    TaskOutcome,
)

Changes: TypeAlias = Mapping[bytes, bytes | None]  # of a Batch or several: checked keys, None where one is deleted


# Visible and durable are apart, so that a committer can prepare the next group while one is flushed.
class PipelinedKV(OrderedKV, Protocol):
    """An ordered store that distinguishes when a batch is visible to reads and when it is durable."""

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        """Returns when reads see all of the changes; the result completes when they are durable.

        Calls become durable in the order in which they were made. After one that failed, none does.
        """
        ...

    def check_readable(self) -> None:
        """Raises unless reads return the newest data: Fenced, or Unavailable while the lease is in doubt."""
        ...


class StagedStore(Protocol):
    """An ordered store with one writer; staged changes are visible to this process at once and durable later.

    Changes take effect in the order of staging; if one is lost, so are all later ones.
    """

    def stage(self, batch: Batch) -> Awaitable[None]:
        """Stages the changes; the result completes when they are durable. Fenced once another writer has the store."""
        ...

    async def wait_capacity(self) -> None:
        """Waits while too much is staged: back-pressure for callers that are about to stage."""
        ...

    async def get(self, key: bytes) -> bytes | None:
        """The newest value, staged or durable."""
        ...

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """Durable and staged pairs, in key order."""
        ...


class ShardCalls(Protocol):
    """The calls of a shard. A call that changes something returns when the change is durable (JOB-1).

    Errors: NotFound (no such job or task lease), Conflict (it exists, or is in the wrong state), Invalid, Unavailable
    (not open, or moving), Fenced (another node has the shard). Batches answer each item in its place.
    """

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        """The ids, or an error in place of each. If a `unique_key` is taken, the id is that of the job that has it."""
        ...

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> tuple[list[LeasedTask], list[LeasedRefresh]]:
        """Due tasks, fair among tenants; waits up to `wait_s` for the first."""
        ...

    async def lease_job(self, tenant: str, job: str, worker: str) -> LeasedTask:
        """One job by name, regardless of its limits and start."""
        ...

    async def heartbeat(self, worker: str, task_id: str, *, progress: bytes | None = None) -> Heartbeat: ...

    async def report(
        self, outcomes: Sequence[tuple[str, TaskOutcome]], *, worker: str = ""
    ) -> list[ArgosyError | None]:
        """Ends task leases by id; with `worker`, only that worker's."""
        ...

    async def report_refresh(self, task_id: str, max_concurrency: int | None, *, why: str = "") -> None:
        """None: the refresh failed."""
        ...

    async def get(self, tenant: str, job: str, *, with_attempts: bool = False) -> JobView: ...

    async def find(
        self,
        tenant: str,
        *,
        status: JobStatus | None = None,
        metadata: tuple[str, str] | None = None,
        is_dead: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> list[JobView]:
        """Newest first by latest change; by id when searching metadata.

        `after` is the last id of the previous page.
        """
        ...

    async def cancel(self, tenant: str, job: str) -> None: ...

    async def restart(self, tenant: str, job: str) -> None: ...

    async def expedite(self, tenant: str, job: str) -> None: ...

    async def delete(self, tenant: str, job: str) -> None: ...

    async def import_jobs(self, jobs: Sequence[ImportedJob]) -> list[JobStatus | ArgosyError]: ...

    async def drop_holders(self, tenant: str) -> int:
        """Releases every concurrency slot of a tenant; for emergencies."""
        ...

    async def put_schedule(self, schedule: Schedule) -> None: ...

    async def schedules(self, tenant: str) -> list[Schedule]: ...

    async def delete_schedule(self, tenant: str, name: str) -> None: ...


SPLIT_COMPLETE = "SplitComplete"  # the last phase


@dataclass(frozen=True)
class ShardInfo:
    """A shard, its half-open range of tenant hashes, and its server; "" without one."""

    id: str
    range_start: str = ""  # 16 lower-case hexadecimal digits; "" is open
    range_end: str = ""
    node: str = ""
    address: str = ""  # host:port for gRPC


@dataclass(frozen=True)
class ClusterMember:
    """A node of the cluster."""

    node: str
    address: str


@dataclass(frozen=True)
class ClusterTopology:
    """The cluster as one node knows it."""

    shards: tuple[ShardInfo, ...]
    members: tuple[ClusterMember, ...]
    node: str  # this one
    address: str


@dataclass(frozen=True)
class SplitStatus:
    """The state of a split; the phase is "" if none is known."""

    phase: str = ""
    left: str = ""
    right: str = ""
    point: str = ""
    initiator: str = ""
    requested_at: int = 0

    @property
    def is_in_progress(self) -> bool:
        return self.phase not in ("", SPLIT_COMPLETE)


@dataclass(frozen=True)
class ShardStats:
    """Counts and cleanup state of a shard, from the node that serves it."""

    total_jobs: int = 0
    completed_jobs: int = 0
    cleanup_status: str = ""
    created_at: int = 0
    cleanup_completed_at: int = 0


@dataclass(frozen=True)
class SortedRun:
    """A level of a store: consecutive tables."""

    id: int
    ssts: int
    size_bytes: int


@dataclass(frozen=True)
class StorageInfo:
    """The tables of a shard's store."""

    l0_ssts: int = 0
    l0_bytes: int = 0
    runs: tuple[SortedRun, ...] = ()


# Reads only: SQL gets this, so that no statement can change a shard, whatever the engine does.
class RowReader(Protocol):
    """Reads the rows of a shard; a `StagedStore` is one."""

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]: ...


@dataclass(frozen=True)
class ShardLeases:
    """Tasks leased from one shard in a poll over all shards of a node."""

    shard_id: str
    tasks: list[LeasedTask]
    refreshes: list[LeasedRefresh]


class Broker(Protocol):
    """One node. A call that names a shard which this node does not serve raises:

    NotOwner, with the owner's address and node if they are known; Unavailable while it is being acquired or split;
    NotFound if it is not in the shard map; Invalid if the id is malformed.
    """

    def shard(self, shard_id: str) -> ShardCalls: ...

    def rows(self, shard_id: str) -> RowReader:
        """The rows that SQL queries read."""
        ...

    def local(self) -> list[tuple[str, ShardCalls]]:
        """The shards that can be called now; not those paused for a split."""
        ...

    def shard_of(self, tenant: str) -> str:
        """The id of the tenant's shard, served here or not."""
        ...

    def topology(self) -> ClusterTopology: ...

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> Sequence[ShardLeases]:
        """Leases from all shards served here; waits up to `wait_s` for a first task at any of them."""
        ...

    async def split(self, shard_id: str, point: str) -> SplitStatus:
        """Starts a split. NotFound: no such shard; Conflict: not served here, or being split; Invalid: a bad point."""
        ...

    def split_status(self, shard_id: str) -> SplitStatus: ...

    async def flush(self, shard_id: str) -> None:
        """Returns when all changes accepted by the shard are durable."""
        ...

    async def compact(self, shard_id: str) -> None: ...

    async def stats(self, shard_id: str) -> ShardStats: ...

    async def storage(self, shard_id: str) -> StorageInfo: ...

    async def force_release(self, shard_id: str) -> bool:
        """Releases a shard that this node holds; False if it does not. The lease of a failed node expires by itself."""
        ...

    async def reset(self) -> int:
        """Deletes all rows of every shard served here and returns their number; for development only."""
        ...
