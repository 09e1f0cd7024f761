"""Concurrent calls sent as one: calls that arrive while another is in progress share the next.

A lone caller is sent at once. Under load one batch serves many callers; so after a call that several shared, the next
waits for as long as more callers keep arriving, within `GATHER_S_MAX`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_MAX = 64  # a batch of this size is sent at once; copying it does not hold up the event loop
GATHER_S = 0.001  # if no caller arrives for this long, none is on its way
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
        is_idle = not self._in_progress and self._gathering is None
        if is_idle or len(self._items) >= BATCH_MAX:
            self._start()
        return await result

    def _start(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        task = asyncio.ensure_future(self._send_batch(self._items, self._results))
        self._items, self._results = [], []
        self._in_progress.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._in_progress.discard(task)
        if not self._items or self._in_progress or self._gathering is not None:
            return
        if len(self._items) == 1:
            self._start()
        else:
            self._gathering_ends = asyncio.get_running_loop().time() + GATHER_S_MAX
            self._gather()

    def _gather(self) -> None:
        loop = asyncio.get_running_loop()
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
