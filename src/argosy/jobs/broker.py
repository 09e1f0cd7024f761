"""What the interfaces need of a node: the shards it serves, those it knows of, and what can be done to them.

Who serves what is answered from memory: no request asks the coordination store.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from argosy.jobs.model import LeasedRefresh, LeasedTask
from argosy.jobs.ports import ShardCalls

SPLIT_COMPLETE = "SplitComplete"  # the last phase


@dataclass(frozen=True)
class ShardInfo:
    """A shard, the half-open range of tenant hashes it has, and who serves it; "" where nobody does."""

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
    """How far a split has come; the phase is "" where nothing is known of one."""

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
    """What a node tells of a shard it serves."""

    total_jobs: int = 0
    completed_jobs: int = 0
    cleanup_status: str = ""
    created_at: int = 0
    cleanup_completed_at: int = 0


@dataclass(frozen=True)
class SortedRun:
    """A level of a store: tables that follow one another."""

    id: int
    ssts: int
    size_bytes: int


@dataclass(frozen=True)
class StorageInfo:
    """The shape of a shard's store."""

    l0_ssts: int = 0
    l0_bytes: int = 0
    runs: tuple[SortedRun, ...] = ()


class RowReader(Protocol):
    """The rows of a shard, to read; a `StagedStore` is one."""

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]: ...


class PolledTasks(Protocol):
    """What a poll over all shards got from one of them."""

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
        """What SQL reads."""
        ...

    def local(self) -> list[tuple[str, ShardCalls]]:
        """The shards that can be asked here now; one that is paused for a split is none of them."""
        ...

    def shard_of(self, tenant: str) -> str:
        """The shard that has the tenant, served here or not."""
        ...

    def topology(self) -> Topology: ...

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> Sequence[PolledTasks]:
        """From all shards that are served here; waits up to `wait_s` for a first task at any of them."""
        ...

    async def split(self, shard_id: str, point: str) -> SplitStatus:
        """Begins a split. NotFound: no such shard; Conflict: not this node's, or being split; Invalid: a bad point."""
        ...

    def split_status(self, shard_id: str) -> SplitStatus: ...

    async def flush(self, shard_id: str) -> None:
        """Returns when all that the shard has taken in is durable."""
        ...

    async def compact(self, shard_id: str) -> None: ...

    async def stats(self, shard_id: str) -> ShardStats: ...

    async def storage(self, shard_id: str) -> StorageInfo: ...

    async def force_release(self, shard_id: str) -> bool:
        """Lets go of a shard that this node holds; False if it does not. The lease of a dead node ends by itself."""
        ...

    async def reset(self) -> int:
        """Empties every shard served here, and says how many those were: for development only."""
        ...
