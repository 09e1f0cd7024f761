"""Work that is done once for all who want it at the same time.

Whoever asks first starts it; the others wait for the same result. One who stops waiting takes nothing from the rest;
when nobody waits any more, the work is cancelled.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Sharing(Generic[T]):
    """Work under way, by what it is about."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[T]] = {}
        self._waiting: dict[asyncio.Task[T], int] = {}

    def has(self, key: Hashable) -> bool:
        return key in self._tasks

    async def share(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(start())
            self._waiting[task] = 0
            task.add_done_callback(lambda done: self._forget(key, done))
        self._waiting[task] += 1
        try:
            # The task must outlive any one of those who wait for it.
            return await asyncio.shield(task)
        finally:
            await self._leave(key, task)

    async def _leave(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if task not in self._waiting:
            return                              # done
        self._waiting[task] -= 1
        if self._waiting[task] == 0:
            self._forget(key, task)             # whoever comes now starts anew
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _forget(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        self._waiting.pop(task, None)
        if task.done() and not task.cancelled():
            task.exception()                    # seen, also when nobody waited for it
