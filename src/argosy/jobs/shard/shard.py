"""A shard: some tenants' jobs, all that can be asked about them, and one writer.

Each call checks, changes memory and rows in one step, and answers when that is durable. Nothing here waits for time to
pass: `ShardService` does.
"""

from collections.abc import Callable, Sequence

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.jobs.model import (
    Heartbeat,
    ImportedJob,
    JobStatus,
    JobView,
    LeasedTask,
    NewJob,
    Schedule,
    TaskOutcome,
)
from argosy.jobs.ports import StagedStore
from argosy.jobs.shard import (
    cron_schedules,
    enqueue,
    import_jobs,
    job_control,
    job_queries,
    lease_tasks,
    limit_checks,
    limit_refresh,
    report,
    ticking,
)
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.options import ShardOptions
from argosy.jobs.shard.recovery import load
from argosy.throttle.limits.ports import RateLimiter


class Shard:
    """See `ports.ShardCalls`. Made by `open`, which reads what is still to do."""

    def __init__(
        self,
        store: StagedStore,
        *,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        random: Random,
        limiter: RateLimiter,
        options: ShardOptions | None = None,
    ) -> None:
        self.core = Core(
            store, now_ms=now_ms, new_id=new_id, random=random, limiter=limiter, options=options or ShardOptions()
        )

    async def open(self) -> None:
        """Reads memory from the rows; nothing may be asked before."""
        await load(self.core)

    def stop(self) -> None:
        """Refuses every call from now on; what was staged may still become durable."""
        self.core.fail(Unavailable("the shard is closed here: ask again, it may have moved"))

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        return await enqueue.enqueue(self.core, jobs)

    async def lease(self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0) -> lease_tasks.Leased:
        """What is due now: a bare shard does not wait."""
        return await lease_tasks.lease(self.core, task_group, worker, tasks_max)

    async def lease_job(self, tenant: str, job: str, worker: str) -> LeasedTask:
        return await lease_tasks.lease_job(self.core, tenant, job, worker)

    async def heartbeat(self, worker: str, task_id: str, *, progress: bytes | None = None) -> Heartbeat:
        return await lease_tasks.heartbeat(self.core, worker, task_id, progress)

    async def report(
        self, outcomes: Sequence[tuple[str, TaskOutcome]], *, worker: str = ""
    ) -> list[ArgosyError | None]:
        return await report.report(self.core, outcomes, worker)

    async def report_refresh(self, task_id: str, max_concurrency: int | None, *, why: str = "") -> None:
        await limit_refresh.report_refresh(self.core, task_id, max_concurrency)

    async def get(self, tenant: str, job: str, *, with_attempts: bool = False) -> JobView:
        return await job_queries.get(self.core, tenant, job, with_attempts=with_attempts)

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
        return await job_queries.find(
            self.core, tenant, status=status, metadata=metadata, is_dead=is_dead, after=after, limit=limit
        )

    async def cancel(self, tenant: str, job: str) -> None:
        await job_control.cancel(self.core, tenant, job)

    async def restart(self, tenant: str, job: str) -> None:
        await job_control.restart(self.core, tenant, job)

    async def expedite(self, tenant: str, job: str) -> None:
        await job_control.expedite(self.core, tenant, job)

    async def delete(self, tenant: str, job: str) -> None:
        await job_control.delete(self.core, tenant, job)

    async def import_jobs(self, jobs: Sequence[ImportedJob]) -> list[JobStatus | ArgosyError]:
        return await import_jobs.import_jobs(self.core, jobs)

    async def drop_holders(self, tenant: str) -> int:
        return await job_control.drop_holders(self.core, tenant)

    async def put_schedule(self, schedule: Schedule) -> None:
        await cron_schedules.put_schedule(self.core, schedule)

    async def schedules(self, tenant: str) -> list[Schedule]:
        return cron_schedules.schedules(self.core, tenant)

    async def delete_schedule(self, tenant: str, name: str) -> None:
        await cron_schedules.delete_schedule(self.core, tenant, name)

    async def tick(self) -> None:
        """Does what time has brought: see `deadline`."""
        await ticking.tick(self.core)

    def deadline(self) -> int | None:
        return ticking.deadline(self.core)

    async def check_rates(self) -> int:
        """Asks the rate limiter about jobs whose checks are due; how many."""
        return await limit_checks.check_rates(self.core)
