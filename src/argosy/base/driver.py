"""The driver: runs a state machine in an event loop, real or simulated.

The driver passes events to the machine one at a time, wakes it at its deadline, and performs each effect in a task of
its own, so that a slow effect never delays an event. The events that an effect returns are passed to the machine too.
Both sides are bounded: with more than `INBOX_MAX` queued events or `EFFECTS_MAX` running effects the driver fails.
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

# Both bounds are far above what a healthy node reaches: exceeding one means a loop of events and effects, and
# failing loudly is better than running out of memory.
INBOX_MAX = 100_000
EFFECTS_MAX = 10_000
WAIT_S_MIN = 1e-6


class Driver(Generic[E, F]):
    """Runs `machine` until cancelled; `perform` performs one effect and returns the events that result from it."""

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
        self._wakeup = asyncio.Event()
        # A dict, not a set: tasks are cancelled in the order of their start, so that a simulated run is reproducible.
        self._running: dict[asyncio.Task[None], None] = {}
        self._failure: BaseException | None = None

    def post(self, event: E) -> None:
        """Queues an event for the machine; never waits."""
        if len(self._inbox) >= INBOX_MAX:
            raise Unavailable(f"event queue full: {INBOX_MAX} events are waiting")
        self._inbox.append(event)
        self._wakeup.set()

    async def run(self) -> None:
        """Runs the machine until this task is cancelled or an effect raises an exception."""
        try:
            # The first call passes no event: a state machine that starts may have work already.
            self._start_effects(self._machine.handle(None, self._clock.now()))
            while True:
                await self._wait()
                # An effect that raises is a defect: stopping is better than continuing with a state machine that never
                # gets its reply.
                if self._failure is not None:
                    raise self._failure
                self._step()
        finally:
            await self._stop_effects()

    def _step(self) -> None:
        now = self._clock.now()
        if not self._inbox:
            self._start_effects(self._machine.handle(None, now))
        # All queued events at one reading of the clock, so that events of one burst happen at the same instant.
        while self._inbox:
            self._start_effects(self._machine.handle(self._inbox.popleft(), now))

    async def _wait(self) -> None:
        """Returns when an event is queued or the machine's deadline has passed."""
        deadline = self._machine.deadline()
        if self._inbox or self._failure is not None:
            self._wakeup.clear()
            await asyncio.sleep(0)  # let effects and callers run between two bursts of events
            return
        self._wakeup.clear()
        if deadline is None:
            await self._wakeup.wait()
            return
        with suppress(TimeoutError):
            # Our clock may be slightly behind the loop's; without a minimum wait this would then spin.
            async with asyncio.timeout(max(WAIT_S_MIN, deadline - self._clock.now())):
                await self._wakeup.wait()

    def _start_effects(self, effects: list[F]) -> None:
        for effect in effects:
            if len(self._running) >= EFFECTS_MAX:
                raise Unavailable(f"too many running effects: {EFFECTS_MAX}")
            task = asyncio.ensure_future(self._run_effect(effect))
            self._running[task] = None
            task.add_done_callback(lambda done: self._running.pop(done, None))

    async def _run_effect(self, effect: F) -> None:
        try:
            for event in await self._perform(effect):
                self.post(event)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # raised again by `run`
            if self._failure is None:
                self._failure = error
            self._wakeup.set()

    async def _stop_effects(self) -> None:
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
