"""JOB-1, JOB-2 and JOB-3, observed at clients, workers and disks, in true time.

JOB-1: an acknowledged job is never lost, and an acknowledged success is never undone. JOB-2: a task has at most one
live lease; a worker counts its lease from when it sent the request, so it never believes in a lease longer than the
broker does. JOB-3: no limit is exceeded, neither by running jobs nor by the holders on a disk.

The checker decodes the rows that become durable, so it sees a violation in the batch that causes it and not only when a
client notices. It does not see rows of other kinds; the audit of a shard reads those.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from argosy.jobs import keys
from argosy.jobs.model import JobStatus, RefreshLimit
from argosy.jobs.shard.rows import decode_lease
from argosy.sim.trace import ViolationLog

JobName = tuple[str, str]  # tenant and id
Slot = tuple[str, str]  # tenant and key of a limit


@dataclass
class Run:
    """A worker's view that it runs a job."""

    job: JobName
    task: str
    worker: str
    until: float  # true time; extended by each heartbeat with a response
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

    def __init__(self, violations: ViolationLog, heights: Mapping[str, int]) -> None:
        # Dicts and not sets, here and below: their order is the same in every interpreter.
        self.acknowledged: dict[JobName, None] = {}
        self.succeeded: dict[JobName, None] = {}  # whose worker has a response to its report
        self.most: dict[Slot, int] = {}  # that ran under a limit at the same time
        self.runs = 0
        self._violations = violations
        self._heights = heights
        self._disks: dict[str, _Disk] = {}
        self._by_job: dict[JobName, dict[str, Run]] = {}
        self._by_slot: dict[Slot, dict[str, Run]] = {}

    # -- clients ----------------------------------------------------------------------------------------------------

    def on_enqueued(self, job: JobName) -> None:
        """A client has the acknowledgement of its job: it must be durable by now."""
        self.acknowledged[job] = None
        if not self._is_stored(job):
            self._violations.add("JOB-1", f"{_name(job)} is acknowledged and on no disk")

    def on_not_found(self, job: JobName) -> None:
        self._violations.add("JOB-1", f"{_name(job)} was acknowledged and is not found")

    def on_status(self, job: JobName, status: JobStatus) -> None:
        if job in self.succeeded and status != JobStatus.SUCCEEDED:
            self._violations.add("JOB-1", f"{_name(job)} succeeded, was reported so, and is {status.name}")

    # -- workers ----------------------------------------------------------------------------------------------------

    def on_run_started(self, run: Run) -> None:
        self.runs += 1
        if run.job in self.succeeded:
            self._violations.add("JOB-1", f"{_name(run.job)} succeeded, was reported so, and runs again")
        if not any(run.task in disk.leases for disk in self._disks.values()):
            self._violations.add(
                "JOB-2", f"{run.worker} runs {_name(run.job)} as {run.task}, a task lease that is on no disk"
            )
        # By the views of the workers, because only a worker knows until when it would go on.
        for other in self._alive(self._by_job.setdefault(run.job, {})):
            self._violations.add(
                "JOB-2", f"{_name(run.job)} runs at {other.worker} as {other.task} and at {run.worker} as {run.task}"
            )
        self._by_job[run.job][run.task] = run
        if run.slot is not None:
            running = self._by_slot.setdefault(run.slot, {})
            running[run.task] = run
            count, height = len(self._alive(running)), self._heights[run.slot[1]]
            self.most[run.slot] = max(count, self.most.get(run.slot, 0))
            if count > height:
                self._violations.add("JOB-3", f"{count} run under {_name(run.slot)}, and the limit is {height}")

    def on_run_ended(self, run: Run) -> None:
        """The worker has stopped working on the job, whether or not the broker learns of it."""
        self._by_job.get(run.job, {}).pop(run.task, None)
        if run.slot is not None:
            self._by_slot.get(run.slot, {}).pop(run.task, None)

    def on_reported(self, job: JobName) -> None:
        """A worker has the response to its report of a success."""
        self.succeeded[job] = None

    # -- disks ------------------------------------------------------------------------------------------------------

    def on_commit(self, shard: str, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """A batch has become durable, as a whole."""
        disk = self._disks.setdefault(shard, _Disk())
        lost: list[JobName] = []
        for key, value in changes:
            match key[0]:
                case keys.JOB:
                    job = _pair(key)
                    if value is None:
                        disk.jobs.pop(job, None)
                        # Not a violation yet: after a split one shard deletes the rows that another one has.
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
        self._check(shard, disk)
        self._check_lost(lost)

    def on_removed(self, shard: str) -> None:
        """A disk is deleted."""
        disk = self._disks.pop(shard, _Disk())
        self._check_lost(disk.jobs)

    def _lease(self, disk: _Disk, key: bytes, value: bytes | None) -> None:
        task = str(keys.items(key)[0])
        if value is None:
            if (job := disk.leases.pop(task, None)) is not None:
                disk.tasks[job].pop(task)
                if not disk.tasks[job]:
                    del disk.tasks[job]
            return
        leased = decode_lease(value).task
        # The refresh of a floating limit is a task of the broker and not a job.
        if not isinstance(leased, RefreshLimit):
            disk.leases[task] = (leased.tenant, leased.job)
            disk.tasks.setdefault((leased.tenant, leased.job), {})[task] = None

    def _check(self, shard: str, disk: _Disk) -> None:
        for job, tasks in disk.tasks.items():
            if len(tasks) > 1:
                self._violations.add("JOB-2", f"shard {shard} has task leases {' and '.join(tasks)} of {_name(job)}")
        for slot, holders in disk.holders.items():
            # A limit that is not in the plan has no height to compare with.
            if len(holders) > self._heights.get(slot[1], len(holders)):
                self._violations.add(
                    "JOB-3",
                    f"{len(holders)} hold {_name(slot)} in shard {shard}, and the limit is {self._heights[slot[1]]}",
                )

    def _check_lost(self, jobs: Iterable[JobName]) -> None:
        for job in jobs:
            if job in self.acknowledged and not self._is_stored(job):
                self._violations.add("JOB-1", f"{_name(job)} was acknowledged, and its last row is deleted")

    def _is_stored(self, job: JobName) -> bool:
        return any(job in disk.jobs for disk in self._disks.values())

    def _alive(self, runs: Mapping[str, Run]) -> list[Run]:
        now = self._violations.true_now()
        return [run for run in runs.values() if run.until > now]


def _pair(key: bytes) -> tuple[str, str]:
    first, second = keys.items(key)[:2]
    return str(first), str(second)


def _name(pair: tuple[str, str]) -> str:
    return "/".join(pair)
