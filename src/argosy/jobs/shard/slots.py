"""Slots of concurrency limits in memory: who holds them and who waits for them, by tenant and key.

Those who wait are granted in the order start, priority, job, attempt. Being first is not enough: the limit that the
first carries must have room, and nobody overtakes it.
"""

from heapq import heappop, heappush

from argosy.jobs.model import SlotRequest

Slot = tuple[str, str]  # tenant and key
GrantOrder = tuple[int, int, str, int]  # start, priority, job, attempt


class SlotQueue:
    """Requests for one slot, in order."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], SlotRequest] = {}  # by job and attempt
        self._heap: list[GrantOrder] = []

    def add(self, request: SlotRequest) -> None:
        self.requests[request.job, request.attempt] = request
        heappush(self._heap, (request.start_at, request.priority, request.job, request.attempt))

    def first(self) -> SlotRequest | None:
        while self._heap:
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
        self.to_grant: dict[Slot, None] = {}  # where a slot may have come free, in that order

    def count(self, slot: Slot) -> int:
        return len(self.holders.get(slot, ()))

    def hold(self, slot: Slot, task_id: str, now: int) -> None:
        self.holders.setdefault(slot, {})[task_id] = now

    def release(self, slot: Slot, task_id: str) -> bool:
        """Whether the task held it."""
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
            self.to_grant[slot] = None  # who stood behind it may fit where it did not
        return request

    def is_wanted(self, slot: Slot) -> bool:
        return slot in self.waiting

    def first(self, slot: Slot) -> SlotRequest | None:
        waiting = self.waiting.get(slot)
        return waiting.first() if waiting is not None else None
