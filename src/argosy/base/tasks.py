"""Groups of tasks that begin and end together, and locks and work queues by key.

Tasks are kept in lists and dicts, never in sets: they are cancelled in the order in which they started, so that a
simulated run repeats exactly (`asyncio.TaskGroup` cancels its children in the order of a set).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from argosy.base.errors import Unavailable


async def run_until_first_ends(*work: Awaitable[Any]) -> None:
    """Runs all of them until one ends, then cancels the others and waits for them.

    Raises what the one that ended raised. On cancellation all are cancelled and waited for.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # `result()` raises what a task raised; several may have ended in the same turn, and the first one counts.
        for task in tasks:
            if task.done():
                task.result()
    finally:
        await cancel_all(tasks)


async def wait_for_first(*work: Awaitable[Any]) -> Sequence[bool]:
    """Waits until one of them ends, cancels the others, and returns for each whether it had ended.

    Unlike `run_until_first_ends` it does not raise what they raise: it is for waiting, not for work.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return [task.done() for task in tasks]
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancels the tasks and waits until each has ended; what they raise is dropped."""
    started = list(tasks)
    for task in started:
        task.cancel()
    if started:
        await asyncio.gather(*started, return_exceptions=True)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class KeyedLock(Generic[K]):
    """One lock for each key, in FIFO order; a key that is neither locked nor waited for takes no memory."""

    def __init__(self) -> None:
        self._locks: dict[K, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, key: K) -> AsyncIterator[None]:
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        # Counted before the first await, so that no other user removes the lock in between.
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)


class KeyedWorkQueue(Generic[V]):
    """Work by key: `width` keys at once, one piece at a time for each key, and at most `waiting_max` keys waiting.

    A value that is put for a key that waits already replaces the earlier one, unless `merge` says which to keep.
    `perform` handles its own errors; what it raises is a bug, which `check` and `wait_idle` raise.
    """

    def __init__(
        self,
        perform: Callable[[str, V], Awaitable[None]],
        *,
        width: int,
        waiting_max: int,
        merge: Callable[[V, V], V] | None = None,
    ) -> None:
        self._perform = perform
        self._width = width
        self._waiting_max = waiting_max
        self._merge = merge
        self._waiting: dict[str, V] = {}
        # A dict in the order of start, for `close` (see the module's docstring).
        self._running: dict[str, asyncio.Future[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._bug: BaseException | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting or key in self._running

    def put(self, key: str, value: V) -> None:
        """Unavailable if too many keys wait already; ignored once the queue is closed."""
        if self._is_closed:
            return
        if key in self._waiting:
            value = value if self._merge is None else self._merge(self._waiting[key], value)
        # Only new keys are rejected: a value for a key that waits takes no more room.
        elif len(self._waiting) >= self._waiting_max:
            raise Unavailable(f"{self._waiting_max} are waiting already; retry later")
        self._waiting[key] = value
        self._start()

    async def wait_idle(self) -> None:
        """Returns when nothing waits and nothing runs."""
        await self._idle.wait()
        self.check()

    def check(self) -> None:
        """Raises the bug that ended a piece of work, if there was one."""
        if self._bug is not None:
            raise self._bug

    async def cancel(self, key: str) -> None:
        """Drops what waits for the key and stops what runs for it."""
        self._waiting.pop(key, None)
        running = self._running.get(key)
        if running is not None:
            await cancel_all([running])

    async def close(self) -> None:
        """Drops what waits and stops what runs."""
        self._is_closed = True
        self._waiting.clear()
        await cancel_all(self._running.values())
        self._idle.set()

    def _start(self) -> None:
        while len(self._running) < self._width:
            # Insertion order is the order of arrival, so no key starves; one that is running waits for its turn.
            key = next((key for key in self._waiting if key not in self._running), None)
            if key is None:
                break
            task = asyncio.ensure_future(self._perform(key, self._waiting.pop(key)))
            self._running[key] = task
            task.add_done_callback(lambda done, key=key: self._on_done(key, done))  # type: ignore[misc]
        if self._running:
            self._idle.clear()

    def _on_done(self, key: str, task: "asyncio.Future[None]") -> None:
        del self._running[key]
        if not task.cancelled() and task.exception() is not None:
            # The first one: later ones are often its consequences.
            self._bug = self._bug or task.exception()
        self._start()
        if not self._running:
            self._idle.set()
