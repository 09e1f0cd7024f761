"""All that a shard keeps in memory: what is still to do. Everything else is read from the rows when it is asked for."""

from dataclasses import dataclass, field

from argosy.jobs.model import CheckRateLimit, FloatingState, QueuedTask, RequestTicket, Schedule
from argosy.jobs.shard.lease_table import JobKey, LeaseTable
from argosy.jobs.shard.queue import DelayQueue, TaskQueue
from argosy.jobs.shard.slots import LimitSlots, Slot


@dataclass(slots=True)
class UniqueClaim:
    """A unique key that is taken: by an unfinished job, or until a time."""

    job: str
    until: int
    is_done: bool = False


@dataclass(slots=True)
class QueueState:
    tasks: TaskQueue = field(default_factory=TaskQueue)
    tickets: DelayQueue[QueuedTask] = field(default_factory=DelayQueue)  # RequestTicket by task id
    checks: DelayQueue[QueuedTask] = field(default_factory=DelayQueue)  # CheckRateLimit by task id
    refreshes: dict[str, DelayQueue[QueuedTask]] = field(default_factory=dict)  # RefreshLimit by group, then task id
    leases: LeaseTable = field(default_factory=LeaseTable)
    slots: LimitSlots = field(default_factory=LimitSlots)
    floating: dict[Slot, FloatingState] = field(default_factory=dict)
    claims: dict[tuple[str, str], UniqueClaim] = field(default_factory=dict)  # by tenant and unique key
    stale_claims: DelayQueue[tuple[str, str]] = field(
        default_factory=DelayQueue
    )  # claims of done jobs by when they lapse
    waiters: dict[JobKey, dict[str, None]] = field(default_factory=dict)  # job waited for -> jobs that wait
    ended: dict[JobKey, None] = field(default_factory=dict)  # jobs waited for that are done, to be told on
    schedules: dict[tuple[str, str], Schedule] = field(default_factory=dict)
    cron_queue: DelayQueue[tuple[str, str]] = field(default_factory=DelayQueue)  # schedules by when they come round
    expiry_at: int | None = None  # when the first done job may be forgotten

    def delay_queue_of(self, queued: QueuedTask) -> DelayQueue[QueuedTask]:
        """Where a task that is not an attempt waits."""
        if isinstance(queued.task, RequestTicket):
            return self.tickets
        if isinstance(queued.task, CheckRateLimit):
            return self.checks
        return self.refreshes.setdefault(queued.task_group, DelayQueue())
