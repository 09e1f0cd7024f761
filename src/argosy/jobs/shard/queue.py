"""Tasks that wait for their time: attempts for workers by group, and other items by their start.

Within a tenant the order is start, priority, job, attempt. Tenants with due tasks take turns, one task each, so a
tenant with a hundred thousand jobs delays another's by one task at most. Removal only marks a task, which is skipped
when it is popped: no call examines more entries than it returns.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from argosy.jobs.model import QueuedTask, RunAttempt

# start, priority, job, attempt, task id, relative attempt, held. A flat tuple: a million of them may wait.
Entry = tuple[int, int, str, int, str, int, tuple[str, ...]]

SWEEP_MIN = 1024  # removed entries before the heaps are rebuilt: a small queue is not rebuilt again and again

T = TypeVar("T")


class GroupQueue:
    """Tasks of one group."""

    def __init__(self) -> None:
        self.heaps: dict[str, list[Entry]] = {}  # by tenant, each a heap
        self._ready: deque[str] = deque()  # tenants with due tasks, in turn
        self._is_ready: set[str] = set()
        self._later: list[tuple[int, str]] = []  # tenants by the start of their first task; may be too early

    def push(self, tenant: str, entry: Entry) -> None:
        heap = self.heaps.setdefault(tenant, [])  # a heap per tenant: a pop costs the logarithm of its own jobs only
        heappush(heap, entry)
        if heap[0] is entry and tenant not in self._is_ready:
            heappush(self._later, (entry[0], tenant))

    def pop_due(self, now: int, removed: set[tuple[str, int]]) -> tuple[str, Entry] | None:
        """Pops the next due task; drops those in `removed` on the way."""
        self._promote(now, removed)
        while self._ready:
            tenant = self._ready.popleft()
            heap = self.heaps[tenant]
            if self._is_first_due(tenant, heap, now, removed):
                entry = heappop(heap)
                # To the end of the line: round robin over tenants, whatever their number of jobs or priorities.
                self._ready.append(tenant)
                return tenant, entry
            self._is_ready.discard(tenant)
        return None

    def next_at(self) -> int | None:
        """When something may become due; 0 if it may already be."""
        if self._ready:
            return 0
        return self._later[0][0] if self._later else None

    def rebuild(self, removed: set[tuple[str, int]]) -> None:
        """Drops all removed entries."""
        for tenant, heap in list(self.heaps.items()):
            remaining = [entry for entry in heap if (entry[4], entry[0]) not in removed]
            heapify(remaining)
            if remaining:
                self.heaps[tenant] = remaining
            else:
                del self.heaps[tenant]
        self._ready = deque(tenant for tenant in self._ready if tenant in self.heaps)
        self._is_ready = set(self._ready)
        self.seal()

    def seal(self) -> None:
        """Recomputes the start times after `heaps` was filled directly."""
        self._later = [(heap[0][0], tenant) for tenant, heap in self.heaps.items() if tenant not in self._is_ready]
        heapify(self._later)

    def _promote(self, now: int, removed: set[tuple[str, int]]) -> None:
        # `_later` may name a tenant several times or too early; the tenant's own heap decides.
        while self._later and self._later[0][0] <= now:
            tenant = heappop(self._later)[1]
            heap = self.heaps.get(tenant)
            if heap is not None and tenant not in self._is_ready and self._is_first_due(tenant, heap, now, removed):
                self._is_ready.add(tenant)
                self._ready.append(tenant)

    def _is_first_due(self, tenant: str, heap: list[Entry], now: int, removed: set[tuple[str, int]]) -> bool:
        while heap and removed and (mark := (heap[0][4], heap[0][0])) in removed:
            removed.remove(mark)
            heappop(heap)
        if not heap:
            self.heaps.pop(tenant, None)
            return False
        if heap[0][0] > now:
            heappush(self._later, (heap[0][0], tenant))
            return False
        return True


class TaskQueue:
    """Attempts that wait for a worker. A popped task is *in hand* until it is leased, requeued or removed."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupQueue] = {}
        self.hand: dict[str, tuple[str, str, Entry]] = {}  # task id -> group, tenant, entry
        self.fresh: dict[str, int] = {}  # groups changed since waiters were last woken, with the number of new tasks
        self.waiting = 0
        # Task id and start of what was removed. The start is part of the mark because a job that is expedited is
        # queued again under the same task id, and its new entry must not be dropped with the old one.
        self._removed: set[tuple[str, int]] = set()

    def push(self, group: str, tenant: str, entry: Entry) -> None:
        queue = self.groups.get(group)
        if queue is None:
            queue = self.groups[group] = GroupQueue()
        queue.push(tenant, entry)
        self.waiting += 1
        self.fresh[group] = self.fresh.get(group, 0) + 1

    def pop_due(self, group: str, now: int) -> str | None:
        """Pops the next due task and returns its id."""
        queue = self.groups.get(group)
        taken = queue.pop_due(now, self._removed) if queue is not None else None
        if taken is None:
            if queue is not None and not queue.heaps:
                del self.groups[group]  # group names are arbitrary: empty queues must not accumulate
            return None
        tenant, entry = taken
        self.waiting -= 1
        # Also after a pop: if more is due, another waiter must be woken for it.
        self.fresh.setdefault(group, 0)
        self.hand[entry[4]] = (group, tenant, entry)
        return entry[4]

    def requeue(self, task_id: str) -> None:
        """Queues a popped task again, unless it was removed meanwhile."""
        if (held := self.hand.pop(task_id, None)) is not None:
            self.push(*held)

    def requeue_all(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            self.requeue(task_id)

    def remove(self, task_id: str, start_at: int) -> None:
        """Removes a task that waits or is in hand.

        A waiting task is only marked, because finding it in a heap would be a scan. The heaps are rebuilt when more is
        marked than waits, so the marks take at most as much memory as the queue, and a removal costs O(1) on average.
        """
        if self.hand.pop(task_id, None) is not None:
            return
        self._removed.add((task_id, start_at))
        self.waiting -= 1
        if len(self._removed) > max(SWEEP_MIN, self.waiting):
            for queue in self.groups.values():
                queue.rebuild(self._removed)
            # Groups that consisted of removed tasks only.
            self.groups = {group: queue for group, queue in self.groups.items() if queue.heaps}
            self._removed.clear()

    def next_at(self, group: str) -> int | None:
        queue = self.groups.get(group)
        return queue.next_at() if queue is not None else None

    def entries(self) -> list[tuple[str, str, Entry]]:
        """All tasks that wait or are in hand, unordered: for audits."""
        waiting = [
            (group, tenant, entry)
            for group, queue in self.groups.items()
            for tenant, heap in queue.heaps.items()
            for entry in heap
            if (entry[4], entry[0]) not in self._removed
        ]
        return waiting + list(self.hand.values())


class DelayQueue(Generic[T]):
    """Items that become due one by one; each id has one time."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[int, T]] = {}
        self.hand: dict[str, tuple[int, T]] = {}  # popped and not yet handled
        self._heap: list[tuple[int, str]] = []

    def push(self, at: int, id: str, item: T) -> None:
        self.items[id] = (at, item)
        self.hand.pop(id, None)
        heappush(self._heap, (at, id))
        # An item that is pushed again leaves its old heap entry behind; `next_at` skips it by comparing the time.
        if len(self._heap) > SWEEP_MIN + 2 * len(self.items):
            self._heap = [(at, id) for id, (at, _) in self.items.items()]
            heapify(self._heap)

    def remove(self, id: str) -> T | None:
        # From the hand too: what is removed while it is handled must not be requeued afterwards.
        found = self.items.pop(id, None) or self.hand.pop(id, None)
        return found[1] if found is not None else None

    def pop_due(self, now: int) -> tuple[str, T] | None:
        """Pops the next due item."""
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
