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
        self._works: dict[Hashable, _Work[T]] = {}

    def has(self, key: Hashable) -> bool:
        return key in self._works

    async def share(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _Work(start())
            work.task.add_done_callback(lambda _: self._ended(key, work))
        waiter: asyncio.Future[T] = work.task.get_loop().create_future()
        work.waiting.append(waiter)  # and not the task, which must outlive any one of those who wait for it
        try:
            return await waiter
        except asyncio.CancelledError:
            work.waiting.remove(waiter)
            if not work.waiting and not work.task.done():
                self._forget(key, work)  # whoever comes now starts anew
                work.task.cancel()
                await asyncio.gather(work.task, return_exceptions=True)
            raise

    def _ended(self, key: Hashable, work: "_Work[T]") -> None:
        self._forget(key, work)
        work.tell()

    def _forget(self, key: Hashable, work: "_Work[T]") -> None:
        if self._works.get(key) is work:
            del self._works[key]


class _Work(Generic[T]):
    """A task, and those who wait for it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.task = asyncio.ensure_future(work)
        self.waiting: list[asyncio.Future[T]] = []

    def tell(self) -> None:
        """What it came to; an error is seen, also when nobody waits any more."""
        error = None if self.task.cancelled() else self.task.exception()
        for waiter in self.waiting:
            if waiter.done():
                continue
            if self.task.cancelled():
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(self.task.result())
