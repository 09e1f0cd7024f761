"""What a shard needs, and what it does: the ledger beneath it, and the calls above."""

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
    """An OrderedKV that tells apart when a batch can be read and when it is durable."""

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        """Returns when reads see the changes, all of them; what is returned ends when they are durable.

        Calls become durable in the order in which they were made, and after one that did not none does.
        """
        ...

    def check_readable(self) -> None:
        """Raises unless what is read now is the newest there is: Fenced, or Unavailable while the lease is in doubt."""
        ...


class StagedStore(Protocol):
    """An ordered store with one writer, in which staged changes count at once for this process and later for good.

    The order of staging is the order of the changes, whatever happens; if one is lost, so are all after it.
    """

    def stage(self, batch: Batch) -> Awaitable[None]:
        """Takes the changes in now; awaiting says that they are durable. Fenced once another writer has the store."""
        ...

    async def wait_capacity(self) -> None:
        """Waits while more is staged than should be: back-pressure for whoever is about to stage."""
        ...

    async def get(self, key: bytes) -> bytes | None:
        """Sees all that was staged before."""
        ...

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The durable pairs and those staged, in key order."""
        ...


class ShardCalls(Protocol):
    """All that can be asked of a shard. An answer that reports a change is given only when the change is durable.

    Errors by remedy: NotFound (no such job or task lease), Conflict (it exists, or is in the wrong state), Invalid,
    Unavailable (not open, or moving), Fenced (another node has the shard). Batches answer each item in its place.
    """

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        """The ids, or what was wrong with each. A `unique_key` that is taken answers with the id of who has it."""
        ...

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> tuple[list[LeasedTask], list[LeasedRefresh]]:
        """Due tasks, fairly among tenants; waits up to `wait_s` for a first one."""
        ...

    async def lease_job(self, tenant: str, job: str, worker: str) -> LeasedTask:
        """One named job, whatever its limits and its start."""
        ...

    async def heartbeat(self, worker: str, task_id: str, *, progress: bytes | None = None) -> Heartbeat: ...

    async def report(
        self, outcomes: Sequence[tuple[str, TaskOutcome]], *, worker: str = ""
    ) -> list[ArgosyError | None]:
        """Ends task leases by id; with `worker`, only its own."""
        ...

    async def report_refresh(self, task_id: str, max_concurrency: int | None, *, why: str = "") -> None:
        """None: it could not be found out."""
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
        """Newest first by its latest change, or by id where metadata is asked for.

        `after` is the id at which the page before ended."""
        ...

    async def cancel(self, tenant: str, job: str) -> None: ...

    async def restart(self, tenant: str, job: str) -> None: ...

    async def expedite(self, tenant: str, job: str) -> None: ...

    async def delete(self, tenant: str, job: str) -> None: ...

    async def import_jobs(self, jobs: Sequence[ImportedJob]) -> list[JobStatus | ArgosyError]: ...

    async def drop_holders(self, tenant: str) -> int:
        """Frees every concurrency slot of a tenant, whoever has it: for emergencies."""
        ...

    async def put_schedule(self, schedule: Schedule) -> None: ...

    async def schedules(self, tenant: str) -> list[Schedule]: ...

    async def delete_schedule(self, tenant: str, name: str) -> None: ...
