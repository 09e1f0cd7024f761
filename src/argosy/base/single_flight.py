"""Identical concurrent work is done once: the first caller starts it, the others wait for its result.

A caller that is cancelled takes nothing from the others. When no caller waits any more, the work is cancelled.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from argosy.base.tasks import cancel_all

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Work in progress by key, as Go's x/sync/singleflight has it."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._flights

    async def run(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work in progress for `key`, which `start` begins if there is none."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(start())
            flight.task.add_done_callback(lambda _: self._on_done(key, flight))
        # A future of its own, not the task: cancelling a caller must not cancel the work of the others.
        waiter: asyncio.Future[T] = flight.task.get_loop().create_future()
        flight.waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            flight.waiters.remove(waiter)
            if not flight.waiters and not flight.task.done():
                self._remove(key, flight)  # a caller that comes now starts the work again
                await cancel_all([flight.task])
            raise

    def _on_done(self, key: Hashable, flight: "_Flight[T]") -> None:
        self._remove(key, flight)
        flight.deliver()

    def _remove(self, key: Hashable, flight: "_Flight[T]") -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]


class _Flight(Generic[T]):
    """A task and the callers that wait for it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.task = asyncio.ensure_future(work)
        self.waiters: list[asyncio.Future[T]] = []

    def deliver(self) -> None:
        # `exception()` marks an error as retrieved, so that asyncio does not log it when no caller is left.
        error = None if self.task.cancelled() else self.task.exception()
        for waiter in self.waiters:
            if waiter.done():
                continue
            if self.task.cancelled():
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(self.task.result())
