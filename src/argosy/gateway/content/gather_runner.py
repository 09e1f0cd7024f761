"""Runs the gather machine of one find: starts the requests, posts their outcomes to it, wakes the waiting caller."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from argosy.base.clock import Clock
from argosy.gateway.content.backend_protocol import ParsedReply
from argosy.gateway.content.gather_machine import GatherMachine
from argosy.gateway.content.model import BackendOutcome
from argosy.ipni.model import ProviderResult

T = TypeVar("T")

PARTS_MAX = 64  # parts of streams not yet consumed; reading pauses above this
WAIT_S_MIN = 1e-6  # keeps the loop from spinning if its clock lags behind ours

ReadOutcome = tuple[BackendOutcome, ParsedReply[T] | None]
OnOutcome = Callable[[str, BackendOutcome | None, int], None]  # name, outcome, number of records; None: cancelled
IsFound: TypeAlias = Callable[[Iterable[ParsedReply[T]]], bool]


class GatherRunner(Generic[T]):
    """Call `start` for each indexer, then `wait`. A caller that stops waiting calls `cancel`, or takes over `tasks`.

    `is_found` decides whether the replies so far answer the whole request; until then no indexer is late. Without it
    any record does.
    """

    def __init__(
        self, machine: GatherMachine, clock: Clock, on_outcome: OnOutcome, is_found: "IsFound[T] | None" = None
    ) -> None:
        self.machine = machine
        self.replies: dict[str, ParsedReply[T]] = {}
        # References, because the event loop holds its tasks only weakly.
        self.tasks: set[asyncio.Task[ReadOutcome[T]]] = set()
        self.parts: deque[tuple[str, list[ProviderResult]]] = deque()
        self._clock = clock
        self._on_outcome = on_outcome
        self._is_found = is_found
        self._loop = asyncio.get_running_loop()
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None  # of the find, while it waits
        self._has_capacity = asyncio.Event()

    def start(self, name: str, work: Coroutine[Any, Any, ReadOutcome[T]]) -> None:
        """Start a request. `on_outcome` is called exactly once for it, even if it is cancelled before it runs."""
        task = self._loop.create_task(work)
        self.tasks.add(task)
        # A callback and not a `finally` in the coroutine: one that is cancelled before its first step enters no `try`.
        task.add_done_callback(partial(self._on_done, name))

    async def wait(self, is_enough: Callable[[float], bool]) -> None:
        """Wait until `is_enough(now)`; raises the error of a request that failed unexpectedly."""
        while not is_enough(now := self._clock.now()):
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            # One timer for all indexers: between events, only the machine's deadline changes anything.
            timer = self._loop.call_later(max(self.machine.deadline() - now, WAIT_S_MIN), self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None

    def on_head(self, name: str) -> None:
        """The head of a streamed response has arrived."""
        self.machine.on_start(name)
        self._wake()

    async def put_part(self, name: str, part: list[ProviderResult]) -> None:
        """Add a part of a stream; waits while PARTS_MAX are not consumed, which slows the indexer down in turn."""
        while len(self.parts) >= PARTS_MAX:
            self._has_capacity.clear()
            await self._has_capacity.wait()
        self.parts.append((name, part))
        self.machine.on_found()
        self._wake()

    def drain_parts(self) -> list[tuple[str, list[ProviderResult]]]:
        parts = list(self.parts)
        self.parts.clear()
        self._has_capacity.set()
        return parts

    async def cancel(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_done(self, name: str, task: asyncio.Task[ReadOutcome[T]]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            self._on_outcome(name, None, 0)
            return
        # `ContentDispatcher._query` turns every failure into an outcome, so an exception is a bug. It is raised in the
        # waiting caller.
        self._error = task.exception()
        if self._error is not None:
            # None, as for a cancelled request: a bug of ours is no failure of the indexer.
            self._on_outcome(name, None, 0)
        else:
            outcome, reply = task.result()
            self._on_outcome(name, outcome, 0 if reply is None else reply.records)
            self.machine.on_end(name, outcome)
            if reply is not None:
                self.replies[name] = reply
                if reply.records and (self._is_found is None or self._is_found(self.replies.values())):
                    self.machine.on_found()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
