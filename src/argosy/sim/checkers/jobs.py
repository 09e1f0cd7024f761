"""JOB-1, JOB-2 and JOB-3, seen from three sides at once: clients, workers and disks, in true time.

JOB-1: an acknowledged job is never lost, nor is an acknowledged success undone. JOB-2: a task has at most one live
lease; a worker counts on its own from when it asked, so it never thinks longer of a lease than the broker does. JOB-3:
no limit is exceeded, neither by those who run nor by the holders on a disk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from argosy.jobs import keys
from argosy.jobs.model import JobStatus, RefreshLimit
from argosy.jobs.shard.rows import decode_lease
from argosy.sim.checkers.violations import ViolationLog

JobName = tuple[str, str]  # tenant and id
Slot = tuple[str, str]  # tenant and key of a limit


@dataclass
class Run:
    """A worker's belief that it runs a job."""

    job: JobName
    task: str
    worker: str
    until: float  # true time; a heartbeat that was answered moves it
    slot: Slot | None = None


@dataclass
class _Disk:
    """The durable rows of one shard that the invariants are about."""

    jobs: dict[JobName, None] = field(default_factory=dict)
    leases: dict[str, JobName] = field(default_factory=dict)  # by task
    tasks: dict[JobName, dict[str, None]] = field(default_factory=dict)
    holders: dict[Slot, dict[str, None]] = field(default_factory=dict)


class JobsChecker:
    """`heights` has the most that may run under each limit at a time."""

    def __init__(self, findings: ViolationLog, heights: Mapping[str, int]) -> None:
        self.acknowledged: dict[JobName, None] = {}
        self.succeeded: dict[JobName, None] = {}  # whose worker was told that its report stands
        self.most: dict[Slot, int] = {}  # that ran under a limit at a time
        self.runs = 0
        self._findings = findings
        self._heights = heights
        self._disks: dict[str, _Disk] = {}
        self._by_job: dict[JobName, dict[str, Run]] = {}
        self._by_slot: dict[Slot, dict[str, Run]] = {}

    # -- clients ----------------------------------------------------------------------------------------------------

    def on_enqueued(self, job: JobName) -> None:
        """A client was told that its job is taken in: it must be durable by now."""
        self.acknowledged[job] = None
        if not self._is_kept(job):
            self._findings.add("JOB-1", f"{_name(job)} is acknowledged, and on no disk")

    def not_found(self, job: JobName) -> None:
        self._findings.add("JOB-1", f"{_name(job)} was acknowledged, and nobody knows it")

    def seen(self, job: JobName, status: JobStatus) -> None:
        if job in self.succeeded and status != JobStatus.SUCCEEDED:
            self._findings.add("JOB-1", f"{_name(job)} has succeeded, was reported so, and is {status.name}")

    # -- workers ----------------------------------------------------------------------------------------------------

    def began(self, run: Run) -> None:
        self.runs += 1
        if run.job in self.succeeded:
            self._findings.add("JOB-1", f"{_name(run.job)} has succeeded, was reported so, and runs again")
        if not any(run.task in disk.leases for disk in self._disks.values()):
            self._findings.add("JOB-2", f"{run.worker} runs {_name(run.job)} as {run.task}, a lease that is on no disk")
        for other in self._alive(self._by_job.setdefault(run.job, {})):
            self._findings.add(
                "JOB-2", f"{_name(run.job)} runs at {other.worker} as {other.task} and at {run.worker} as {run.task}"
            )
        self._by_job[run.job][run.task] = run
        if run.slot is not None:
            running = self._by_slot.setdefault(run.slot, {})
            running[run.task] = run
            count, height = len(self._alive(running)), self._heights[run.slot[1]]
            self.most[run.slot] = max(count, self.most.get(run.slot, 0))
            if count > height:
                self._findings.add("JOB-3", f"{count} run under {_name(run.slot)}, and {height} may")

    def on_run_ended(self, run: Run) -> None:
        """The worker does nothing more for the job, whether the broker hears of it or not."""
        self._by_job.get(run.job, {}).pop(run.task, None)
        if run.slot is not None:
            self._by_slot.get(run.slot, {}).pop(run.task, None)

    def on_reported(self, job: JobName) -> None:
        """A worker was told that its report of a success stands."""
        self.succeeded[job] = None

    # -- disks ------------------------------------------------------------------------------------------------------

    def on_commit(self, shard: str, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """One batch has become durable, as a whole."""
        disk = self._disks.setdefault(shard, _Disk())
        lost: list[JobName] = []
        for key, value in changes:
            match key[0]:
                case keys.JOB:
                    job = _pair(key)
                    if value is None:
                        disk.jobs.pop(job, None)
                        lost.append(job)
                    else:
                        disk.jobs[job] = None
                case keys.LEASE:
                    self._lease(disk, key, value)
                case keys.HOLDER:
                    tenant, limit, task = map(str, keys.items(key))
                    holders = disk.holders.setdefault((tenant, limit), {})
                    if value is None:
                        holders.pop(task, None)
                    else:
                        holders[task] = None
        self._judge(shard, disk)
        self._judge_lost(lost)

    def on_removed(self, shard: str) -> None:
        """A disk is deleted."""
        disk = self._disks.pop(shard, _Disk())
        self._judge_lost(disk.jobs)

    def _lease(self, disk: _Disk, key: bytes, value: bytes | None) -> None:
        task = str(keys.items(key)[0])
        if value is None:
            if (job := disk.leases.pop(task, None)) is not None:
                disk.tasks[job].pop(task)
                if not disk.tasks[job]:
                    del disk.tasks[job]
            return
        leased = decode_lease(value).task
        if not isinstance(leased, RefreshLimit):
            disk.leases[task] = (leased.tenant, leased.job)
            disk.tasks.setdefault((leased.tenant, leased.job), {})[task] = None

    def _judge(self, shard: str, disk: _Disk) -> None:
        for job, tasks in disk.tasks.items():
            if len(tasks) > 1:
                self._findings.add("JOB-2", f"shard {shard} keeps leases {' and '.join(tasks)} of {_name(job)}")
        for slot, holders in disk.holders.items():
            if len(holders) > self._heights.get(slot[1], len(holders)):
                self._findings.add(
                    "JOB-3", f"{len(holders)} hold {_name(slot)} in shard {shard}, and {self._heights[slot[1]]} may"
                )

    def _judge_lost(self, jobs: Iterable[JobName]) -> None:
        for job in jobs:
            if job in self.acknowledged and not self._is_kept(job):
                self._findings.add("JOB-1", f"{_name(job)} was acknowledged, and its last row is deleted")

    def _is_kept(self, job: JobName) -> bool:
        return any(job in disk.jobs for disk in self._disks.values())

    def _alive(self, runs: Mapping[str, Run]) -> list[Run]:
        now = self._findings.true_now()
        return [run for run in runs.values() if run.until > now]


def _pair(key: bytes) -> tuple[str, str]:
    first, second = keys.items(key)[:2]
    return str(first), str(second)


def _name(pair: tuple[str, str]) -> str:
    return "/".join(pair)
