"""All that a shard keeps in memory: what is still to do. Everything else is read from the rows when it is asked for."""

from dataclasses import dataclass, field

from argosy.jobs.model import CheckRateLimit, FloatingState, QueuedTask, RequestTicket, Schedule
from argosy.jobs.shard.lease_table import JobKey, Leases
from argosy.jobs.shard.queue import TaskQueue, Timed
from argosy.jobs.shard.slots import Slot, Slots


@dataclass(slots=True)
class Claim:
    """A unique key that is taken: by an unfinished job, or until a time."""

    job: str
    until: int
    is_done: bool = False


@dataclass(slots=True)
class Memory:
    tasks: TaskQueue = field(default_factory=TaskQueue)
    tickets: Timed[QueuedTask] = field(default_factory=Timed)  # RequestTicket by task id
    checks: Timed[QueuedTask] = field(default_factory=Timed)  # CheckRateLimit by task id
    refreshes: dict[str, Timed[QueuedTask]] = field(default_factory=dict)  # RefreshLimit by group, then task id
    leases: Leases = field(default_factory=Leases)
    slots: Slots = field(default_factory=Slots)
    floating: dict[Slot, FloatingState] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)  # by tenant and unique key
    stale_claims: Timed[tuple[str, str]] = field(default_factory=Timed)  # claims of done jobs by when they lapse
    waiters: dict[JobKey, dict[str, None]] = field(default_factory=dict)  # job waited for -> jobs that wait
    ended: dict[JobKey, None] = field(default_factory=dict)  # jobs waited for that are done, to be told on
    schedules: dict[tuple[str, str], Schedule] = field(default_factory=dict)
    rounds: Timed[tuple[str, str]] = field(default_factory=Timed)  # schedules by when they come round
    forget_at: int | None = None  # when the first done job may be forgotten

    def steps_of(self, queued: QueuedTask) -> Timed[QueuedTask]:
        """Where a task that is not an attempt waits."""
        if isinstance(queued.task, RequestTicket):
            return self.tickets
        if isinstance(queued.task, CheckRateLimit):
            return self.checks
        return self.refreshes.setdefault(queued.task_group, Timed())
