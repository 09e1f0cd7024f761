"""Tasks that wait for their time, in memory: attempts for workers by group, and timed things by their start.

Within a tenant the order is start, priority, job, attempt. Among tenants with something due it goes round, one task
each, so a tenant with a hundred thousand jobs delays another's by one task at most. No call looks at more than it
takes: a removed task is only marked, and skipped when its turn comes.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from argosy.jobs.model import QueuedTask, RunAttempt

# start, priority, job, attempt, task id, relative attempt, held: a flat tuple, because a million of them may wait.
Entry = tuple[int, int, str, int, str, int, tuple[str, ...]]

SWEEP_MIN = 1024  # so many removed tasks may linger, whatever else waits

T = TypeVar("T")


class GroupQueue:
    """What waits for the workers of one group."""

    def __init__(self) -> None:
        self.lines: dict[str, list[Entry]] = {}  # by tenant, each a heap
        self._ready: deque[str] = deque()  # tenants whose turn comes round
        self._is_ready: set[str] = set()
        self._later: list[tuple[int, str]] = []  # tenants by when their first task is due; may be too early

    def push(self, tenant: str, entry: Entry) -> None:
        line = self.lines.setdefault(tenant, [])
        heappush(line, entry)
        if line[0] is entry and tenant not in self._is_ready:
            heappush(self._later, (entry[0], tenant))

    def pop_due(self, now: int, gone: set[tuple[str, int]]) -> tuple[str, Entry] | None:
        """The next due task; those in `gone` are dropped on the way."""
        self._promote(now, gone)
        while self._ready:
            tenant = self._ready.popleft()
            line = self.lines[tenant]
            if self._is_first_due(tenant, line, now, gone):
                entry = heappop(line)
                self._ready.append(tenant)
                return tenant, entry
            self._is_ready.discard(tenant)
        return None

    def next_at(self) -> int | None:
        """When something may become due; 0 if it may already be."""
        if self._ready:
            return 0
        return self._later[0][0] if self._later else None

    def rebuild(self, gone: set[tuple[str, int]]) -> None:
        """Lets go of all that was removed."""
        for tenant, line in list(self.lines.items()):
            kept = [entry for entry in line if (entry[4], entry[0]) not in gone]
            heapify(kept)
            if kept:
                self.lines[tenant] = kept
            else:
                del self.lines[tenant]
        self._ready = deque(tenant for tenant in self._ready if tenant in self.lines)
        self._is_ready = set(self._ready)
        self.seal()

    def seal(self) -> None:
        """Sets the times anew after lines were filled from outside."""
        self._later = [(line[0][0], tenant) for tenant, line in self.lines.items() if tenant not in self._is_ready]
        heapify(self._later)

    def _promote(self, now: int, gone: set[tuple[str, int]]) -> None:
        while self._later and self._later[0][0] <= now:
            tenant = heappop(self._later)[1]
            line = self.lines.get(tenant)
            if line is not None and tenant not in self._is_ready and self._is_first_due(tenant, line, now, gone):
                self._is_ready.add(tenant)
                self._ready.append(tenant)

    def _is_first_due(self, tenant: str, line: list[Entry], now: int, gone: set[tuple[str, int]]) -> bool:
        while line and gone and (mark := (line[0][4], line[0][0])) in gone:
            gone.remove(mark)
            heappop(line)
        if not line:
            self.lines.pop(tenant, None)
            return False
        if line[0][0] > now:
            heappush(self._later, (line[0][0], tenant))
            return False
        return True


class TaskQueue:
    """Attempts that wait for a worker. A task that was taken is *in hand* until it is leased, put back or removed."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupQueue] = {}
        self.hand: dict[str, tuple[str, str, Entry]] = {}  # task id -> group, tenant, entry
        self.fresh: dict[str, int] = {}  # groups that changed since somebody looked: tasks come
        self.waiting = 0
        self._gone: set[tuple[str, int]] = set()  # task id and start of what was removed

    def push(self, group: str, tenant: str, entry: Entry) -> None:
        queue = self.groups.get(group)
        if queue is None:
            queue = self.groups[group] = GroupQueue()
        queue.push(tenant, entry)
        self.waiting += 1
        self.fresh[group] = self.fresh.get(group, 0) + 1

    def pop_due(self, group: str, now: int) -> str | None:
        """Takes the next due task in hand and answers with its id."""
        queue = self.groups.get(group)
        taken = queue.pop_due(now, self._gone) if queue is not None else None
        if taken is None:
            if queue is not None and not queue.lines:
                del self.groups[group]  # groups come and go
            return None
        tenant, entry = taken
        self.waiting -= 1
        self.fresh.setdefault(group, 0)
        self.hand[entry[4]] = (group, tenant, entry)
        return entry[4]

    def requeue(self, task_id: str) -> None:
        """What was taken waits again, unless it was removed meanwhile."""
        if (held := self.hand.pop(task_id, None)) is not None:
            self.push(*held)

    def remove(self, task_id: str, start_at: int) -> None:
        """A task that waits or is in hand is there no more."""
        if self.hand.pop(task_id, None) is not None:
            return
        self._gone.add((task_id, start_at))
        self.waiting -= 1
        if len(self._gone) > max(SWEEP_MIN, self.waiting):
            for queue in self.groups.values():
                queue.rebuild(self._gone)
            self.groups = {group: queue for group, queue in self.groups.items() if queue.lines}
            self._gone.clear()

    def next_at(self, group: str) -> int | None:
        queue = self.groups.get(group)
        return queue.next_at() if queue is not None else None

    def entries(self) -> list[tuple[str, str, Entry]]:
        """All that waits or is in hand, in no order: for audits."""
        waiting = [
            (group, tenant, entry)
            for group, queue in self.groups.items()
            for tenant, line in queue.lines.items()
            for entry in line
            if (entry[4], entry[0]) not in self._gone
        ]
        return waiting + list(self.hand.values())


class DelayQueue(Generic[T]):
    """Things with an id that come due one after the other; an id has one time."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[int, T]] = {}
        self.hand: dict[str, tuple[int, T]] = {}  # taken and not yet dealt with
        self._heap: list[tuple[int, str]] = []

    def push(self, at: int, id: str, item: T) -> None:
        self.items[id] = (at, item)
        self.hand.pop(id, None)
        heappush(self._heap, (at, id))
        if len(self._heap) > SWEEP_MIN + 2 * len(self.items):
            self._heap = [(at, id) for id, (at, _) in self.items.items()]
            heapify(self._heap)

    def remove(self, id: str) -> T | None:
        found = self.items.pop(id, None) or self.hand.pop(id, None)
        return found[1] if found is not None else None

    def pop_due(self, now: int) -> tuple[str, T] | None:
        """Takes the next due thing in hand."""
        at = self.next_at()
        if at is None or at > now:
            return None
        id = heappop(self._heap)[1]
        self.hand[id] = self.items.pop(id)
        return id, self.hand[id][1]

    def requeue(self, id: str) -> None:
        if (held := self.hand.pop(id, None)) is not None:
            self.push(held[0], id, held[1])

    def next_at(self) -> int | None:
        while self._heap:
            at, id = self._heap[0]
            if id in self.items and self.items[id][0] == at:
                return at
            heappop(self._heap)
        return None


def entry_of(queued: QueuedTask, task: RunAttempt) -> Entry:
    return (queued.start_at, queued.priority, task.job, task.attempt, task.id, task.relative_attempt, task.held)
