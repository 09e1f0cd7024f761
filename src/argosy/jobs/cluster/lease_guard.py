"""The gate before a shard: every call, reads too, passes only while this node holds the shard's lease.

Whether it does is a question of the local clock, so nobody is asked. The gate also keeps tenants out that are another
shard's.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from argosy.base.errors import ArgosyError, Conflict, Fenced, NotOwner
from argosy.jobs.cluster.ranges import HashRange, check_tenant_name
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
from argosy.jobs.ports import ShardCalls


class LeaseGuard:
    """Lets calls in, or says why not."""

    def __init__(self, shard_id: str, range_: HashRange, check: Callable[[], None]) -> None:
        self._shard_id = shard_id
        self._range = range_
        self._check = check  # raises unless this node holds the shard now
        self._closed: ArgosyError | None = None
        self.on_fenced: Callable[[], None] = lambda: None  # another node has the shard

    def close(self, why: ArgosyError) -> None:
        """From now on nobody gets in; whoever is inside may finish."""
        self._closed = why

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def check(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed))
        self._check()

    def check_tenant(self, tenant: str) -> None:
        check_tenant_name(tenant)
        if not self._range.has(tenant):
            raise Conflict(
                f"tenant '{tenant}' is not within shard {self._shard_id} range {self._range}; "
                "refresh topology and retry"
            )

    @contextmanager
    def call(self, tenants: Iterable[str] = ()) -> Iterator[None]:
        self.check()
        for tenant in tenants:
            self.check_tenant(tenant)
        try:
            yield
        except Fenced as why:
            self.on_fenced()
            raise NotOwner(f"shard {self._shard_id} has been taken over by another node: refresh and retry") from why

    @contextmanager
    def reading(self, tenant: str) -> Iterator[None]:
        """What was read counts only if this node held the shard to the end."""
        with self.call((tenant,)):
            yield
            self._check()


class GuardedShard:
    """Implements `ShardCalls`: a shard behind its gate."""

    def __init__(self, guard: LeaseGuard, shard: ShardCalls) -> None:
        self._gate = guard
        self._shard = shard

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        with self._gate.call(_once(job.tenant for job in jobs)):
            return await self._shard.enqueue(jobs)

    async def lease(
        self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0
    ) -> tuple[list[LeasedTask], list[LeasedRefresh]]:
        with self._gate.call():
            return await self._shard.lease(task_group, worker, tasks_max, wait_s=wait_s)

    async def lease_job(self, tenant: str, job: str, worker: str) -> LeasedTask:
        with self._gate.call((tenant,)):
            return await self._shard.lease_job(tenant, job, worker)

    async def heartbeat(self, worker: str, task_id: str, *, progress: bytes | None = None) -> Heartbeat:
        with self._gate.call():
            return await self._shard.heartbeat(worker, task_id, progress=progress)

    async def report(
        self, outcomes: Sequence[tuple[str, TaskOutcome]], *, worker: str = ""
    ) -> list[ArgosyError | None]:
        with self._gate.call():
            return await self._shard.report(outcomes, worker=worker)

    async def report_refresh(self, task_id: str, max_concurrency: int | None, *, why: str = "") -> None:
        with self._gate.call():
            await self._shard.report_refresh(task_id, max_concurrency, why=why)

    async def get(self, tenant: str, job: str, *, with_attempts: bool = False) -> JobView:
        with self._gate.reading(tenant):
            return await self._shard.get(tenant, job, with_attempts=with_attempts)

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
        with self._gate.reading(tenant):
            return await self._shard.find(
                tenant, status=status, metadata=metadata, is_dead=is_dead, after=after, limit=limit
            )

    async def cancel(self, tenant: str, job: str) -> None:
        with self._gate.call((tenant,)):
            await self._shard.cancel(tenant, job)

    async def restart(self, tenant: str, job: str) -> None:
        with self._gate.call((tenant,)):
            await self._shard.restart(tenant, job)

    async def expedite(self, tenant: str, job: str) -> None:
        with self._gate.call((tenant,)):
            await self._shard.expedite(tenant, job)

    async def delete(self, tenant: str, job: str) -> None:
        with self._gate.call((tenant,)):
            await self._shard.delete(tenant, job)

    async def import_jobs(self, jobs: Sequence[ImportedJob]) -> list[JobStatus | ArgosyError]:
        with self._gate.call(_once(each.job.tenant for each in jobs)):
            return await self._shard.import_jobs(jobs)

    async def drop_holders(self, tenant: str) -> int:
        with self._gate.call((tenant,)):
            return await self._shard.drop_holders(tenant)

    async def put_schedule(self, schedule: Schedule) -> None:
        with self._gate.call((schedule.tenant,)):
            await self._shard.put_schedule(schedule)

    async def schedules(self, tenant: str) -> list[Schedule]:
        with self._gate.reading(tenant):
            return await self._shard.schedules(tenant)

    async def delete_schedule(self, tenant: str, name: str) -> None:
        with self._gate.call((tenant,)):
            await self._shard.delete_schedule(tenant, name)


def _once(tenants: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys(tenants)
