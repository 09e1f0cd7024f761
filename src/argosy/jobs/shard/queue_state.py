"""The state that a shard keeps in memory: unfinished work. Finished jobs are read from their rows."""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from argosy.jobs.model import (
    CheckRateLimit,
    FloatingState,
    Job,
    QueuedTask,
    RequestTicket,
    Schedule,
    SlotRequest,
    TaskLease,
)
from argosy.jobs.shard.queue import DelayQueue, TaskQueue

JobKey = tuple[str, str]  # tenant and job


@dataclass(slots=True)
class RunningLease:
    """A lease and the part of its job that reporting needs; `job` is None for the refresh of a limit."""

    lease: TaskLease
    expires_at: int  # may differ from the row: leases restart when a shard moves
    job: Job | None = None
    cancelled_at: int = 0
    progress: bytes = b""


class LeaseTable:
    def __init__(self) -> None:
        self.by_task: dict[str, RunningLease] = {}
        self.by_job: dict[JobKey, str] = {}
        self._expiring: list[tuple[int, str]] = []  # may be too early: a heartbeat updates only the lease

    def add(self, task_id: str, running: RunningLease) -> None:
        # Popping a task removes it from the queue, so a second lease of it means that queue and leases disagree.
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
        """One expired lease."""
        at = self.next_at()
        if at is None or at > now:
            return None
        task_id = self._expiring[0][1]
        return task_id, self.by_task[task_id]

    def next_at(self) -> int | None:
        """When the first lease expires."""
        while self._expiring:
            at, task_id = self._expiring[0]
            running = self.by_task.get(task_id)
            if running is not None and running.expires_at == at:
                return at
            # Heartbeats do not touch the heap (a lease of an hour has hundreds of them): an entry that is too early is
            # pushed again with the lease's time when it comes up.
            heappop(self._expiring)
            if running is not None and running.expires_at > at:
                heappush(self._expiring, (running.expires_at, task_id))
        return None


Slot = tuple[str, str]  # tenant and key
GrantOrder = tuple[int, int, str, int]  # start, priority, job, attempt


class SlotQueue:
    """Requests for one slot, in grant order."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], SlotRequest] = {}  # by job and attempt
        self._heap: list[GrantOrder] = []

    def add(self, request: SlotRequest) -> None:
        self.requests[request.job, request.attempt] = request
        heappush(self._heap, (request.start_at, request.priority, request.job, request.attempt))

    def first(self) -> SlotRequest | None:
        while self._heap:
            # An entry without its request was removed; one with another start belongs to an earlier request of the job.
            start_at, _, job, attempt = self._heap[0]
            request = self.requests.get((job, attempt))
            if request is not None and request.start_at == start_at:
                return request
            heappop(self._heap)
        return None

    def remove(self, job: str, attempt: int) -> SlotRequest | None:
        return self.requests.pop((job, attempt), None)


class LimitSlots:
    def __init__(self) -> None:
        self.holders: dict[Slot, dict[str, int]] = {}  # task id -> when it was granted
        self.waiting: dict[Slot, SlotQueue] = {}
        self.to_grant: dict[Slot, None] = {}  # slots that may be free, in the order in which they were released

    def count(self, slot: Slot) -> int:
        return len(self.holders.get(slot, ()))

    def hold(self, slot: Slot, task_id: str, now: int) -> None:
        self.holders.setdefault(slot, {})[task_id] = now

    def release(self, slot: Slot, task_id: str) -> bool:
        """Returns whether the task held the slot, which is then granted at the end of the transaction."""
        holders = self.holders.get(slot, {})
        if holders.pop(task_id, None) is None:
            return False
        if not holders:
            del self.holders[slot]
        self.to_grant[slot] = None
        return True

    def park(self, request: SlotRequest) -> None:
        self.waiting.setdefault((request.tenant, request.key), SlotQueue()).add(request)

    def unpark(self, slot: Slot, job: str, attempt: int) -> SlotRequest | None:
        waiting = self.waiting.get(slot)
        request = waiting.remove(job, attempt) if waiting is not None else None
        if waiting is not None and not waiting.requests:
            del self.waiting[slot]
        if request is not None:
            self.to_grant[slot] = None  # a request behind it may fit where it did not
        return request

    def is_wanted(self, slot: Slot) -> bool:
        return slot in self.waiting

    def first(self, slot: Slot) -> SlotRequest | None:
        waiting = self.waiting.get(slot)
        return waiting.first() if waiting is not None else None


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
    )  # claims of finished jobs by when they end
    waiters: dict[JobKey, dict[str, None]] = field(default_factory=dict)  # job -> jobs that run after it
    ended: dict[JobKey, None] = field(default_factory=dict)  # finished jobs whose dependents are to be handled
    schedules: dict[tuple[str, str], Schedule] = field(default_factory=dict)
    cron_queue: DelayQueue[tuple[str, str]] = field(default_factory=DelayQueue)  # schedules by next time
    expiry_at: int | None = None  # when the first finished job may be deleted

    def delay_queue_of(self, queued: QueuedTask) -> DelayQueue[QueuedTask]:
        """The queue of a task that is not an attempt."""
        if isinstance(queued.task, RequestTicket):
            return self.tickets
        if isinstance(queued.task, CheckRateLimit):
            return self.checks
        return self.refreshes.setdefault(queued.task_group, DelayQueue())
