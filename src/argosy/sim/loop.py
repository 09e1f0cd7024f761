"""Virtual time: stock asyncio with a selector that never waits, so that idle time is skipped by moving the clock.

Two runs of the same program do the same things in the same order, because nothing here uses the machine's time,
sockets or threads. What breaks that: iterating over a set of tasks (`asyncio.wait`, and `asyncio.TaskGroup` when it
cancels), any order that comes from `id()` or from the salted hash of a string, and `uuid`. The garbage collector stays
off during a run: it would finalise generators at moments that depend on what ran before in the same interpreter.

A `SimProcess` is a set of tasks and callbacks that stop together. Which process a callback belongs to is carried by its
context, so whatever a process starts is part of it. A paused process does not lose anything: its callbacks are held
back, in order, and run when it resumes, as with SIGSTOP. It stops between two callbacks, never within one. A killed
process does nothing more, not even its `finally` blocks, as with SIGKILL.
"""

import asyncio
import gc
import heapq
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, Never, TypeVar, TypeVarTuple

from argosy.base.errors import Invalid

T = TypeVar("T")
Args = TypeVarTuple("Args")

STEPS_MAX_AT_ONE_INSTANT = 200_000  # loop rounds without the clock moving: past that a task spins
_CLOSINGS_MAX = 10  # how often a coroutine may refuse to be closed before it is abandoned

OUTSIDE = Context()  # of no process: callbacks of the network and of the world, which no pause or kill may stop
_PROCESS: ContextVar["SimProcess | None"] = ContextVar("process", default=None)


class Stuck(AssertionError):
    """The simulated program waits for something that will never happen, or never waits at all."""


class SimProcess:
    """Tasks and callbacks that are paused, resumed and killed together."""

    def __init__(self, name: str, loop: "SimLoop") -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self._loop = loop
        self._held: list[asyncio.Handle] = []
        # Empty and not a copy, so that nothing of the world's context reaches the process.
        self._context = Context()
        self._context.run(_PROCESS.set, self)

    def spawn(self, coro: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a task that belongs to this process, as does everything that the task starts."""
        return self._loop.create_task(coro, context=self._context.copy())

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if self.is_dead:
            return
        # In the order in which they were due, as a process after SIGCONT finds its sockets and timers.
        held, self._held = self._held, []
        self._loop._ready.extend(held)

    def kill(self) -> None:
        self.is_dead = True

    def stops(self, handle: asyncio.Handle) -> bool:
        """Whether a callback may not run now. It is held until the process resumes.

        A dead process holds its callbacks forever: an unreferenced task would be finalised, which would run its
        `finally` blocks, and a process that was killed runs nothing.
        """
        if self.is_paused or self.is_dead:
            self._held.append(handle)
            return True
        return False


class _GatedHandle(asyncio.Handle):
    __slots__ = ("_process",)

    def __init__(self, process: SimProcess, callback: Any, args: Any, loop: "SimLoop", context: Context | None) -> None:
        super().__init__(callback, args, loop, context)
        self._process = process

    def _run(self) -> None:
        if not self._process.stops(self):
            super()._run()


class _GatedTimer(asyncio.TimerHandle):
    __slots__ = ("_process",)

    def __init__(
        self, process: SimProcess, when: float, callback: Any, args: Any, loop: "SimLoop", context: Context | None
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._process = process

    def _run(self) -> None:
        if not self._process.stops(self):
            super()._run()


class _NeverWaits(selectors.SelectSelector):
    """Advances the clock instead of waiting; there are no sockets."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._wait(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """The event loop of one simulated world."""

    # Private state of asyncio's loop: the handles that check for a paused process have to be added to it.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self) -> None:
        self._now = 0.0
        self._steps = 0
        self.failures: list[str] = []
        super().__init__(_NeverWaits(self._wait))
        # asyncio runs all timers that are due within the resolution of its clock, which must not be that of the
        # machine.
        self._clock_resolution = 1e-9
        self.set_exception_handler(_note_failure)

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        handle = (
            asyncio.Handle(callback, args, self, context)
            if process is None
            else _GatedHandle(process, callback, args, self, context)
        )
        # asyncio's own `call_soon` would create a handle that no pause can hold.
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        timer = (
            asyncio.TimerHandle(when, callback, args, self, context)
            if process is None
            else _GatedTimer(process, when, callback, args, self, context)
        )
        # As in `call_soon`: asyncio would create a timer that no pause can hold.
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # so that a cancelled timer is counted and swept
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        """There is only one thread, so no selector has to be woken."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: object, func: Callable[[*Args], T], *args: *Args) -> Never:
        raise RuntimeError("a simulated program may not use threads: they take real time and end in any order")

    def _wait(self, timeout: float | None) -> None:
        if timeout is None:
            raise Stuck(f"deadlock: at {self._now:.3f} s the program waits and nothing is scheduled")
        # asyncio passes the time until the next timer: instead of sleeping so long, that time has now passed.
        if timeout > 0:
            self._now += timeout
            self._steps = 0
            return
        self._steps += 1
        if self._steps > STEPS_MAX_AT_ONE_INSTANT:
            raise Stuck(f"at {self._now:.3f} s the loop has run {self._steps} times without waiting")

    def drop_everything(self) -> None:
        """End all tasks silently: a world that is over is not to report exceptions of tasks that it cut short."""
        self.set_exception_handler(lambda loop, context: None)
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro: Any = task.get_coro()
            for _ in range(_CLOSINGS_MAX):
                # A coroutine that awaits in a `finally` block refuses to be closed, with RuntimeError; each try gets
                # it one block further. Exceptions on the way out are those of a program that was cut short.
                with suppress(BaseException):
                    coro.close()
                    break
        self._ready.clear()
        self._scheduled.clear()


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    loop.failures.append(f"at {loop.time():.3f} s: {context.get('message')}: {context.get('exception')!r}")


def run(main: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a program in virtual time from 0 s on. An uncaught exception in any task fails the run."""
    # A collection runs at a moment that depends on earlier allocations, and would finalise abandoned generators then.
    has_collector = gc.isenabled()
    gc.disable()
    loop = SimLoop()
    try:
        result = loop.run_until_complete(main(loop))
        if loop.failures:
            raise RuntimeError("; ".join(loop.failures))
        return result
    finally:
        loop.drop_everything()
        loop.close()
        if has_collector:
            gc.enable()


# -- clocks -----------------------------------------------------------------------------------------------------------

DRIFT_MAX = 0.005  # half a percent: ten times the drift of a bad quartz, and the most that leases must tolerate
WALL_AT_START = 1_700_000_000.0


class SimClock:
    """The clock of one node; `drift` 0.001 gains a millisecond each second.

    Clocks disagree, and none of them is right: `now()` starts anywhere and runs a little fast or slow, and `wall()` is
    off by an offset that may be stepped while the node runs, as time daemons do. True time is the loop's, and only
    checkers see it.
    """

    def __init__(
        self, true_now: Callable[[], float], *, drift: float = 0.0, started_at: float = 0.0, wall_offset_s: float = 0.0
    ) -> None:
        if abs(drift) > DRIFT_MAX:
            raise Invalid(f"a simulated clock drifts by at most {DRIFT_MAX}, not {drift}")
        self._true_now = true_now
        self._rate = 1.0 + drift
        self._started_at = started_at
        self.wall_offset_s = wall_offset_s

    def now(self) -> float:
        # A function of true time and not a sum of steps: a clock that is read often must not differ from one that is
        # not.
        return self._started_at + self._true_now() * self._rate

    def wall(self) -> float:
        return WALL_AT_START + self._true_now() + self.wall_offset_s

    async def sleep(self, seconds: float) -> None:
        # A fast clock has counted the seconds sooner.
        await asyncio.sleep(seconds / self._rate)

    def to_true(self, local_now: float) -> float:
        """The instant of true time at which this clock shows `local_now`."""
        return (local_now - self._started_at) / self._rate
