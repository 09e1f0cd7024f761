"""The ports of a shard: the store below it, and the calls it offers."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
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


class PipelinedKV(OrderedKV, Protocol):
    """An ordered store that distinguishes when a batch is visible to reads and when it is durable."""

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        """Returns when reads see the changes, all of them; what is returned ends when they are durable.

        Calls become durable in the order in which they were made, and after one that did not none does.
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
    """All that can be asked of a shard. An answer that reports a change is given only when the change is durable.

    Errors by remedy: NotFound (no such job or task lease), Conflict (it exists, or is in the wrong state), Invalid,
    Unavailable (not open, or moving), Fenced (another node has the shard). Batches answer each item in its place.
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
