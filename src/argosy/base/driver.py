"""The one driver: runs any machine against the real (or simulated) world.

It feeds events in one at a time, wakes the machine at its deadline, and performs each effect as a task of its own, so
that a slow effect never delays a fact. What an effect brings back (events) is fed in again. Facts and effects are
bounded: `INBOX_MAX` waiting events, `EFFECTS_MAX` effects under way; past that the driver stops with an error rather
than growing without end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from argosy.base.clock import Clock
from argosy.base.errors import Unavailable
from argosy.base.state_machine import StateMachine

E = TypeVar("E")
F = TypeVar("F")

INBOX_MAX = 100_000
EFFECTS_MAX = 10_000
WAIT_S_MIN = 1e-6


class Driver(Generic[E, F]):
    """Runs `machine` until cancelled; `perform` carries out one effect and returns the events it led to."""

    def __init__(
        self,
        machine: StateMachine[E, F],
        perform: Callable[[F], Awaitable[Iterable[E]]],
        *,
        clock: Clock,
    ) -> None:
        self._machine = machine
        self._perform = perform
        self._clock = clock
        self._inbox: deque[E] = deque()
        self._woken = asyncio.Event()
        # A dict, not a set: tasks are cancelled in the order they began, so a simulated run repeats exactly.
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._failure: BaseException | None = None

    def post(self, event: E) -> None:
        """Hands the machine a fact; never waits."""
        if len(self._inbox) >= INBOX_MAX:
            raise Unavailable(f"{INBOX_MAX} events are waiting; the machine cannot keep up")
        self._inbox.append(event)
        self._woken.set()

    async def run(self) -> None:
        """Drives the machine until this task is cancelled or an effect fails with a bug."""
        try:
            self._order(self._machine.handle(None, self._clock.now()))
            while True:
                await self._wait()
                if self._failure is not None:
                    raise self._failure
                self._step()
        finally:
            await self._stop_effects()

    def _step(self) -> None:
        now = self._clock.now()
        if not self._inbox:
            self._order(self._machine.handle(None, now))
        while self._inbox:
            self._order(self._machine.handle(self._inbox.popleft(), now))

    async def _wait(self) -> None:
        """Returns when there is an event, or when the machine's deadline has come."""
        deadline = self._machine.deadline()
        if self._inbox or self._failure is not None:
            self._woken.clear()
            await asyncio.sleep(0)  # let effects and callers run between two bursts of facts
            return
        self._woken.clear()
        if deadline is None:
            await self._woken.wait()
            return
        with suppress(TimeoutError):
            # The least wait keeps a clock that runs a little differently from the loop's from turning on the spot.
            async with asyncio.timeout(max(WAIT_S_MIN, deadline - self._clock.now())):
                await self._woken.wait()

    def _order(self, effects: list[F]) -> None:
        for effect in effects:
            if len(self._under_way) >= EFFECTS_MAX:
                raise Unavailable(f"{EFFECTS_MAX} effects are under way; the machine orders faster than they end")
            task = asyncio.ensure_future(self._carry_out(effect))
            self._under_way[task] = None
            task.add_done_callback(lambda done: self._under_way.pop(done, None))

    async def _carry_out(self, effect: F) -> None:
        try:
            for event in await self._perform(effect):
                self.post(event)
        except asyncio.CancelledError:
            raise
        except BaseException as bug:  # not swallowed: `run` raises it
            if self._failure is None:
                self._failure = bug
            self._woken.set()

    async def _stop_effects(self) -> None:
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
