"""Single calls made as one: those that come while a call is under way share the next.

A lone caller waits for nobody. Under load one step, one batch and one flush serve many callers, which is most of what a
call costs; so after a call that several shared, the next waits for as long as more of them keep coming.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

TOGETHER = 64  # so many start at once, whatever is under way; copying them does not hold up the loop
GATHER_S = 0.001  # in which nobody came: nobody else is on the way
GATHER_S_MAX = 0.010


class Together(Generic[Item, Answer]):
    """Calls `call` with items of several callers; it answers for each in its place."""

    def __init__(self, call: Callable[[Sequence[Item]], Awaitable[list[Answer]]]) -> None:
        self._call = call
        self._items: list[Item] = []
        self._answers: list[asyncio.Future[Answer]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._gathering: asyncio.TimerHandle | None = None
        self._gathering_ends = 0.0
        self._seen = 0  # items when it was last looked whether more come

    async def __call__(self, item: Item) -> Answer:
        """A caller that goes away leaves its item with the others: it may have been taken in already."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._items.append(item)
        self._answers.append(answer)
        is_quiet = not self._under_way and self._gathering is None
        if is_quiet or len(self._items) >= TOGETHER:
            self._start()
        return await answer

    def _start(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        task = asyncio.ensure_future(self._answer(self._items, self._answers))
        self._items, self._answers = [], []
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if not self._items or self._under_way or self._gathering is not None:
            return
        if len(self._items) == 1:
            self._start()
        else:
            self._gathering_ends = asyncio.get_running_loop().time() + GATHER_S_MAX
            self._gather()

    def _gather(self) -> None:
        loop = asyncio.get_running_loop()
        if self._gathering is not None and (len(self._items) == self._seen or loop.time() >= self._gathering_ends):
            self._start()
        else:
            self._seen = len(self._items)
            self._gathering = loop.call_later(GATHER_S, self._gather)

    async def _answer(self, items: Sequence[Item], waiting: Sequence["asyncio.Future[Answer]"]) -> None:
        try:
            answers = await self._call(items)
        except BaseException as error:
            for future in waiting:
                if not future.done():
                    future.set_exception(_own(error))
                    future.exception()  # seen: a caller that has gone away leaves no complaint behind
            if not isinstance(error, Exception):
                raise
            return
        for future, answer in zip(waiting, answers, strict=True):
            if not future.done():
                future.set_result(answer)


def _own(error: BaseException) -> BaseException:
    """One for each caller: an exception that several raise would gather all their tracebacks."""
    try:
        return type(error)(*error.args)
    except TypeError:  # it is made from more than it keeps in `args`
        return error
