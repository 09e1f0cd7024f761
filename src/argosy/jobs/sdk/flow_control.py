"""Flow control of clients and workers: batching of calls, and the slots of a worker.

`Batcher`: items that arrive while calls are in progress are sent together with the next call. Unlike `base.coalescer`,
an answer may be an error for its own caller, two calls run at a time, and nothing waits for further items: the outcome
of a task must not be delayed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

ITEMS_MAX = 1_000  # items in one flush
FLUSHES_MAX = 2  # at a time: one is on the wire while the next is encoded
WAITING_MAX = 10_000  # items that wait for a flush; further callers wait before their item is queued


class Batcher(Generic[T, R]):
    """`flush` returns one answer per item, in order. Nothing waits on a timer: the first item is sent at once."""

    def __init__(self, flush: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._flush = flush
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._capacity = asyncio.Semaphore(WAITING_MAX)
        self._flushes = 0
        self._tasks: set[asyncio.Task[None]] = set()  # referenced, so that running tasks are not garbage-collected

    async def add(self, item: T) -> R:
        """The answer to this item; an error answer is raised."""
        async with self._capacity:
            answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, answer))
            if self._flushes < FLUSHES_MAX:
                self._flushes += 1
                task = asyncio.ensure_future(self._run())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return await answer

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # other callers that are ready now join the batch
            while self._waiting:
                await self._flush_some()
        finally:
            # No await since the queue was found empty: an item that arrives now starts another run.
            self._flushes -= 1

    async def _flush_some(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), ITEMS_MAX))]
        answers: Sequence[R | Exception]
        try:
            answers = await self._flush([item for item, _ in taken])
        except Exception as error:
            # Each caller gets the failure of the call; the batcher itself goes on.
            answers = [error] * len(taken)
        for (_, future), answer in zip(taken, answers, strict=True):
            if future.done():
                continue  # its caller was cancelled
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class WorkerSlots:
    """The slots in which a worker runs tasks.

    A poll acquires slots before it is sent, so no task is leased that could not start at once: its lease would run down
    while another worker is idle. Free slots go to the poll that has waited longest, so a busy group cannot starve
    another.
    """

    def __init__(self, count: int) -> None:
        self._free = self.count = count
        self._is_closed = False
        self._waiting: deque[tuple[asyncio.Future[int], int]] = deque()

    @property
    def in_use(self) -> int:
        return self.count - self._free

    async def acquire(self, most: int) -> int:
        """Waits for at least one slot and returns how many were acquired, up to `most`; 0 after `close`."""
        if self._is_closed:
            return 0
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, most))
        self._grant()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Granted and cancelled in the same turn of the loop: the slots would be lost.
                self.release(turn.result())
            raise

    def close(self) -> None:
        """Ends all waits: no further slots are granted."""
        self._is_closed = True
        for turn, _ in self._waiting:
            if not turn.done():
                turn.set_result(0)
        self._waiting.clear()

    def release(self, count: int) -> None:
        self._free += count
        assert self._free <= self.count, "more slots released than acquired"
        self._grant()

    def _grant(self) -> None:
        while self._free and self._waiting:
            turn, most = self._waiting.popleft()
            if turn.done():
                continue  # its poll was cancelled
            taken = min(self._free, most)
            self._free -= taken
            turn.set_result(taken)
