"""Concurrent calls share work: `SingleFlight` runs identical calls once, `Coalescer` sends different ones as a batch.

Both keep a cancelled caller from affecting the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
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
            # The work ends with its last caller, so that a request that all callers have given up costs nothing more.
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


Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_MAX = 64  # a batch of this size is sent at once; copying it does not hold up the event loop
GATHER_S = 0.001  # if no caller arrives for this long, none is on its way
# A steady stream of callers must not keep a batch open: this is the most that batching may add to a call.
GATHER_S_MAX = 0.010


class Coalescer(Generic[Item, Result]):
    """Calls `send` with the items of several callers; it returns one result for each, in order."""

    def __init__(self, send: Callable[[Sequence[Item]], Awaitable[list[Result]]]) -> None:
        self._send = send
        self._items: list[Item] = []
        self._results: list[asyncio.Future[Result]] = []
        self._in_progress: set[asyncio.Task[None]] = set()
        self._gathering: asyncio.TimerHandle | None = None
        self._gathering_ends = 0.0
        self._items_before = 0  # at the last look whether more callers arrive

    async def __call__(self, item: Item) -> Result:
        """If the caller is cancelled its item stays in the batch: it may have been sent already."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._items.append(item)
        self._results.append(result)
        # A lone caller must not pay for batching: it is sent at once, and only callers behind it are gathered.
        is_idle = not self._in_progress and self._gathering is None
        if is_idle or len(self._items) >= BATCH_MAX:
            self._start()
        return await result

    def _start(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        task = asyncio.ensure_future(self._send_batch(self._items, self._results))
        # New lists, because the batch in progress keeps the old ones.
        self._items, self._results = [], []
        self._in_progress.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._in_progress.discard(task)
        if not self._items or self._in_progress or self._gathering is not None:
            return
        # One caller that waited for the previous batch is not a sign of load.
        if len(self._items) == 1:
            self._start()
        else:
            self._gathering_ends = asyncio.get_running_loop().time() + GATHER_S_MAX
            self._gather()

    def _gather(self) -> None:
        loop = asyncio.get_running_loop()
        # No caller arrived for GATHER_S: those that the previous batch released are all here by now.
        is_complete = len(self._items) == self._items_before or loop.time() >= self._gathering_ends
        if self._gathering is not None and is_complete:
            self._start()
        else:
            self._items_before = len(self._items)
            self._gathering = loop.call_later(GATHER_S, self._gather)

    async def _send_batch(self, items: Sequence[Item], waiters: Sequence["asyncio.Future[Result]"]) -> None:
        try:
            results = await self._send(items)
        except BaseException as error:
            for future in waiters:
                if not future.done():
                    future.set_exception(copy_error(error))
                    future.exception()  # retrieved: asyncio logs nothing for a caller that was cancelled
            if not isinstance(error, Exception):
                raise
            return
        for future, result in zip(waiters, results, strict=True):
            if not future.done():
                future.set_result(result)


def copy_error(error: BaseException) -> BaseException:
    """An exception for one caller: one that several callers raise would collect all their tracebacks."""
    try:
        return type(error)(*error.args)
    except TypeError:  # its constructor takes more than it keeps in `args`
        return error
