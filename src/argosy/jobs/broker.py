"""What the APIs need of a node: the shards it serves, the shards it knows, and operations on them.

Who serves a shard is answered from memory: no request waits for the coordination store.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from argosy.jobs.model import LeasedRefresh, LeasedTask
from argosy.jobs.ports import ShardCalls

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
class Topology:
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


class RowReader(Protocol):
    """Reads the rows of a shard; a `StagedStore` is one."""

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]: ...


class PolledTasks(Protocol):
    """What a poll over all shards got from one shard."""

    @property
    def shard_id(self) -> str: ...

    @property
    def tasks(self) -> Sequence[LeasedTask]: ...

    @property
    def refreshes(self) -> Sequence[LeasedRefresh]: ...


class Broker(Protocol):
    """One node. What names a shard that cannot be asked here raises:

    NotOwner, with hint and node as far as they are known; Unavailable while it is being acquired or split; NotFound if
    no node knows of it; Invalid if the name is none.
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

    def topology(self) -> Topology: ...

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> Sequence[PolledTasks]:
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
