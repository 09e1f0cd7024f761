"""Runs the gather machine of one find: sends the requests and reports their outcomes to it."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from argosy.base.clock import Clock
from argosy.gateway.content.backend_client import ReadOutcome
from argosy.gateway.content.gather_machine import GatherMachine
from argosy.gateway.content.model import BackendOutcome
from argosy.gateway.content.reply_parser import ParsedReply
from argosy.ipni.model import ProviderResult

T = TypeVar("T")

PARTS_MAX = 64  # parts of streams not yet consumed; reading pauses above this
WAIT_S_MIN = 1e-6  # keeps the loop from spinning if its clock lags behind ours

Settled = Callable[[str, BackendOutcome | None, int], None]  # name, outcome, number of records; None: cancelled
IsFound: TypeAlias = Callable[[Iterable[ParsedReply[T]]], bool]


class GatherRunner(Generic[T]):
    """`start` the questions, then `wait` for what is enough. Whoever stops waiting calls `cancel`, or takes `tasks`.

    `is_found` says of all that was read whether it answers everything that was asked: until then nobody is late.
    """

    def __init__(
        self, machine: GatherMachine, clock: Clock, settled: Settled, is_found: "IsFound[T] | None" = None
    ) -> None:
        self.machine = machine
        self.readings: dict[str, ParsedReply[T]] = {}
        self.tasks: set[asyncio.Task[ReadOutcome[T]]] = set()
        self._clock = clock
        self._settled = settled
        self._is_found = is_found
        self._loop = asyncio.get_running_loop()
        self._error: BaseException | None = None
        self._woken: asyncio.Future[None] | None = None  # while somebody waits
        self.parts: deque[tuple[str, list[ProviderResult]]] = deque()
        self._room = asyncio.Event()

    def start(self, name: str, work: Coroutine[Any, Any, ReadOutcome[T]]) -> None:
        """The book knows already that it began; `settled` is called exactly once, also if it never ran."""
        task = self._loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(partial(self._ended, name))

    async def wait(self, is_enough: Callable[[float], bool]) -> None:
        while not is_enough(now := self._clock.now()):
            if self._error is not None:
                raise self._error
            await self._news(self.machine.deadline() - now)

    def begun(self, name: str) -> None:
        """Its reply arrives piece by piece from now on."""
        self.machine.on_start(name)
        self._wake()

    async def give(self, name: str, part: list[ProviderResult]) -> None:
        """A piece of a stream; waits while nobody takes the former ones."""
        while len(self.parts) >= PARTS_MAX:
            self._room.clear()
            await self._room.wait()
        self.parts.append((name, part))
        self.machine.on_found()
        self._wake()

    def taken(self) -> list[tuple[str, list[ProviderResult]]]:
        parts = list(self.parts)
        self.parts.clear()
        self._room.set()
        return parts

    async def cancel(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, name: str, task: asyncio.Task[ReadOutcome[T]]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            self._settled(name, None, 0)
            return
        self._error = task.exception()
        if self._error is not None:
            self._settled(name, None, 0)
        else:
            outcome, reading = task.result()
            self._settled(name, outcome, 0 if reading is None else reading.records)
            self.machine.on_end(name, outcome)
            if reading is not None:
                self.readings[name] = reading
                if reading.records and (self._is_found is None or self._is_found(self.readings.values())):
                    self.machine.on_found()
        self._wake()

    async def _news(self, within_s: float) -> None:
        self._woken = self._loop.create_future()
        timer = self._loop.call_later(max(within_s, WAIT_S_MIN), self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
