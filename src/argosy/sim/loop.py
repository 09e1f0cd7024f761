"""Virtual time: stock asyncio with a selector that never waits, so that idle time is skipped by moving the clock.

Two runs of the same program do the same things in the same order, because nothing here asks the machine for time,
sockets or threads. What breaks that: iterating over a set of tasks (`asyncio.wait`, and `asyncio.TaskGroup` when it
cancels), any order that comes from `id()` or from the salted hash of a string, and `uuid`. The garbage collector stays
off during a run: it would finalise generators at moments that depend on what ran before in the same interpreter.

A `Process` is a set of tasks and callbacks that stop together. Which process a callback belongs to is carried by its
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

T = TypeVar("T")
Args = TypeVarTuple("Args")

STEPS_MAX_AT_ONE_INSTANT = 200_000  # loop rounds without the clock moving: past that somebody spins
_CLOSINGS_MAX = 10  # how often a coroutine may refuse to be closed before it is left alone

OUTSIDE = Context()  # of no process: what the network and the world themselves schedule
_PROCESS: ContextVar["Process | None"] = ContextVar("process", default=None)


class Stuck(AssertionError):
    """The simulated program waits for something that will never happen, or never waits at all."""


class Process:
    """What stops together: pause it, resume it, kill it."""

    def __init__(self, name: str, loop: "SimLoop") -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self._loop = loop
        self._held: list[asyncio.Handle] = []
        self._context = Context()
        self._context.run(_PROCESS.set, self)

    def spawn(self, coro: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Starts a task that belongs to this process, as does all that it starts."""
        return self._loop.create_task(coro, context=self._context.copy())

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if self.is_dead:
            return
        held, self._held = self._held, []
        self._loop._ready.extend(held)

    def kill(self) -> None:
        self.is_dead = True

    def stops(self, handle: asyncio.Handle) -> bool:
        """Whether a callback may not run now. It is kept for later, and by a dead process for ever: a task that nobody
        refers to any more would be finalised, and a dead process finalises nothing."""
        if self.is_paused or self.is_dead:
            self._held.append(handle)
            return True
        return False


class _GatedHandle(asyncio.Handle):
    __slots__ = ("_process",)

    def __init__(self, process: Process, callback: Any, args: Any, loop: "SimLoop", context: Context | None) -> None:
        super().__init__(callback, args, loop, context)
        self._process = process

    def _run(self) -> None:
        if not self._process.stops(self):
            super()._run()


class _GatedTimer(asyncio.TimerHandle):
    __slots__ = ("_process",)

    def __init__(
        self, process: Process, when: float, callback: Any, args: Any, loop: "SimLoop", context: Context | None
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._process = process

    def _run(self) -> None:
        if not self._process.stops(self):
            super()._run()


class _NeverWaits(selectors.SelectSelector):
    """Instead of waiting, moves the clock; there are no sockets to look at."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._wait(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """The event loop of one simulated world."""

    # What asyncio's own loop keeps; named here because the gate has to put handles there.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self) -> None:
        self._now = 0.0
        self._steps = 0
        self.failures: list[str] = []
        super().__init__(_NeverWaits(self._wait))
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
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # so that a cancelled timer is counted and swept
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        """There is one thread, and nobody to wake."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: object, func: Callable[[*Args], T], *args: *Args) -> Never:
        raise RuntimeError("threads take real time and end in any order: a simulated program may not use them")

    def _wait(self, timeout: float | None) -> None:
        if timeout is None:
            raise Stuck(f"at {self._now:.3f} s nothing is scheduled and the program is not over: a deadlock")
        if timeout > 0:
            self._now += timeout
            self._steps = 0
            return
        self._steps += 1
        if self._steps > STEPS_MAX_AT_ONE_INSTANT:
            raise Stuck(f"at {self._now:.3f} s the program has gone round {self._steps} times without ever waiting")

    def drop_everything(self) -> None:
        """Ends what still runs without a word: a world that is over has nobody left to tell."""
        self.set_exception_handler(lambda loop, context: None)
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro: Any = task.get_coro()
            for _ in range(_CLOSINGS_MAX):
                # A coroutine that awaits in a `finally` block refuses to be closed, with RuntimeError; each try gets
                # it one block further. Whatever else it raises on the way out concerns nobody any more.
                with suppress(BaseException):
                    coro.close()
                    break
        self._ready.clear()
        self._scheduled.clear()


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    loop.failures.append(f"at {loop.time():.3f} s: {context.get('message')}: {context.get('exception')!r}")


def run(main: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
    """Runs a program in virtual time from 0 s on. An exception that nobody caught, in any task, fails the run."""
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
