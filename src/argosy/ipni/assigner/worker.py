"""A line of work: things to do by key, a few at a time, one at a time for each key, with a bound on how many wait.

What is put for a key that still waits takes the place of what was there: for announcements the newer one says all that
the older did, since its chain contains the other's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from argosy.base.errors import Unavailable

V = TypeVar("V")


class Line(Generic[V]):
    """`perform` handles its own errors: whatever rises from it is a bug, and is raised by `check`."""

    def __init__(self, perform: Callable[[str, V], Awaitable[None]], *, width: int, waiting_max: int) -> None:
        self._perform = perform
        self._width = width
        self._waiting_max = waiting_max
        self._waiting: dict[str, V] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._bug: BaseException | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting or key in self._running

    def put(self, key: str, value: V) -> None:
        """Unavailable if too much waits already."""
        if key not in self._waiting and len(self._waiting) >= self._waiting_max:
            raise Unavailable(f"{self._waiting_max} are waiting already: come back later")
        if not self._is_closed:
            self._waiting[key] = value
            self._start()

    async def settled(self) -> None:
        """Returns when nothing waits and nothing runs."""
        await self._quiet.wait()
        self.check()

    def check(self) -> None:
        """Raises the bug that ended a piece of work, if there was one."""
        if self._bug is not None:
            raise self._bug

    async def close(self) -> None:
        """Drops what waits and stops what runs."""
        self._is_closed = True
        self._waiting.clear()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._quiet.set()

    def _start(self) -> None:
        while len(self._running) < self._width:
            key = next((key for key in self._waiting if key not in self._running), None)
            if key is None:
                break
            task = asyncio.ensure_future(self._perform(key, self._waiting.pop(key)))
            self._running[key] = task
            task.add_done_callback(lambda done, key=key: self._ended(key, done))  # type: ignore[misc]
        if self._running:
            self._quiet.clear()

    def _ended(self, key: str, task: "asyncio.Future[None]") -> None:
        del self._running[key]
        if not task.cancelled() and task.exception() is not None:
            self._bug = self._bug or task.exception()
        self._start()
        if not self._running:
            self._quiet.set()
