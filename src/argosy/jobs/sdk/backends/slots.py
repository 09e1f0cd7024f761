"""How many tasks a worker may have at once, shared by its polls in the order they came."""

import asyncio
from collections import deque


class WorkerSlots:
    """A poll takes slots before it asks, so that no task is leased which could not begin at once.

    Slots that become free are handed to whoever has waited longest, so that a busy group cannot starve another.
    """

    def __init__(self, count: int) -> None:
        self._free = self.count = count
        self._is_closed = False
        self._waiting: deque[tuple[asyncio.Future[int], int]] = deque()

    @property
    def in_use(self) -> int:
        return self.count - self._free

    async def acquire(self, most: int) -> int:
        """At least one, and up to `most` of those that are free; none once no more are handed out."""
        if self._is_closed:
            return 0
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, most))
        self._hand_out()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(turn.result())
            raise

    def close(self) -> None:
        """Sends everybody away who waits."""
        self._is_closed = True
        for turn, _ in self._waiting:
            if not turn.done():
                turn.set_result(0)
        self._waiting.clear()

    def release(self, count: int) -> None:
        self._free += count
        assert self._free <= self.count, "more slots were given back than there are"
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            turn, most = self._waiting.popleft()
            if turn.done():
                continue  # its poll was given up
            taken = min(self._free, most)
            self._free -= taken
            turn.set_result(taken)
