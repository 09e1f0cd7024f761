"""Task leases in memory: what runs, for whom and until when."""

from dataclasses import dataclass
from heapq import heappop, heappush

from argosy.jobs.model import Job, TaskLease

JobKey = tuple[str, str]  # tenant and job


@dataclass(slots=True)
class RunningLease:
    """A lease, and of the job it runs what reporting needs; `job` is None for the refresh of a limit."""

    lease: TaskLease
    expires_at: int  # not always what the row says: a shard that moved gives every lease time anew
    job: Job | None = None
    cancelled_at: int = 0
    progress: bytes = b""


class LeaseTable:
    def __init__(self) -> None:
        self.by_task: dict[str, RunningLease] = {}
        self.by_job: dict[JobKey, str] = {}
        self._expiring: list[tuple[int, str]] = []  # may be too early: a heartbeat moves only the lease itself

    def add(self, task_id: str, running: RunningLease) -> None:
        assert task_id not in self.by_task, f"task {task_id} has a live lease already"  # JOB-2
        self.by_task[task_id] = running
        if running.job is not None:
            self.by_job[running.job.tenant, running.job.id] = task_id
        heappush(self._expiring, (running.expires_at, task_id))

    def remove(self, task_id: str) -> RunningLease:
        running = self.by_task.pop(task_id)
        if running.job is not None:
            del self.by_job[running.job.tenant, running.job.id]
        return running

    def of_job(self, tenant: str, job: str) -> RunningLease | None:
        task_id = self.by_job.get((tenant, job))
        return self.by_task[task_id] if task_id is not None else None

    def pop_expired(self, now: int) -> tuple[str, RunningLease] | None:
        """One lease whose time is up."""
        at = self.next_at()
        if at is None or at > now:
            return None
        task_id = self._expiring[0][1]
        return task_id, self.by_task[task_id]

    def next_at(self) -> int | None:
        """When the first lease runs out."""
        while self._expiring:
            at, task_id = self._expiring[0]
            running = self.by_task.get(task_id)
            if running is not None and running.expires_at == at:
                return at
            heappop(self._expiring)
            if running is not None and running.expires_at > at:
                heappush(self._expiring, (running.expires_at, task_id))
        return None
