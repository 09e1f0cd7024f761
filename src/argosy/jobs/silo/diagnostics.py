"""Profiles of this process: stacks of threads and tasks, and memory allocations."""

import asyncio
import sys
import threading
import time
import tracemalloc
from collections import Counter
from types import FrameType
from typing import Any

from argosy.base.errors import Conflict, Throttled

FRAMES_MAX = 128  # of one stack, the innermost
STACKS_MAX = 50_000  # different ones in one profile
ALLOCATIONS_SHOWN_MAX = 1_000
TASKS_SHOWN_MAX = 1_000
TASK_FRAMES_MAX = 16


class ProcessDiagnostics:
    """One profile at a time: a second one would measure the first."""

    def __init__(self) -> None:
        self._is_profiling = False

    async def cpu(self, seconds: int, frequency: int) -> tuple[bytes, int]:
        self._begin()
        # A cancelled caller does not end its thread; the event does.
        stopped = threading.Event()
        try:
            stacks, samples = await asyncio.to_thread(_sample, seconds, frequency, stopped)
        finally:
            stopped.set()
            self._is_profiling = False
        lines = [f"{stack} {count}" for stack, count in stacks.most_common()]
        return "\n".join(lines).encode(), samples

    async def heap(self, seconds: int) -> bytes:
        if not tracemalloc.is_tracing():
            raise Conflict(
                "allocations are not traced; start the node with PYTHONTRACEMALLOC=16 in its environment (tracing costs"
                " time and memory)"
            )
        self._begin()
        try:
            before = await asyncio.to_thread(tracemalloc.take_snapshot)
            await asyncio.sleep(seconds)
            return await asyncio.to_thread(_diff_allocations, before)
        finally:
            self._is_profiling = False

    def tasks(self) -> tuple[str, int]:
        tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
        return "\n\n".join(_format_task(task) for task in tasks[:TASKS_SHOWN_MAX]), len(tasks)

    def _begin(self) -> None:
        if self._is_profiling:
            raise Throttled("a profile of this process is in progress; retry", retry_after_s=1.0)
        self._is_profiling = True


def _sample(seconds: int, frequency: int, stopped: threading.Event) -> tuple[Counter[str], int]:
    stacks: Counter[str] = Counter()
    samples, own = 0, threading.get_ident()
    start = time.monotonic()
    while not stopped.is_set() and (now := time.monotonic()) < start + seconds:
        for thread, frame in sys._current_frames().items():
            if thread != own:  # the sampler itself would be in every sample
                stack = _fold_stack(frame)
                # Bounded: a deep recursion has a new stack in every sample.
                stacks[stack if stack in stacks or len(stacks) < STACKS_MAX else "other stacks"] += 1
        samples += 1
        # The next sample is timed from the start, so slow samples do not lower the frequency.
        stopped.wait(max(0.0, start + samples / frequency - now))
    return stacks, samples


def _fold_stack(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None and len(names) < FRAMES_MAX:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}")
        frame = frame.f_back
    return ";".join(reversed(names))


def _diff_allocations(before: tracemalloc.Snapshot) -> bytes:
    grown = tracemalloc.take_snapshot().compare_to(before, "traceback")
    lines = []
    for statistic in grown[:ALLOCATIONS_SHOWN_MAX]:
        stack = ";".join(f"{frame.filename}:{frame.lineno}" for frame in statistic.traceback)
        lines.append(f"{stack} {statistic.size}")
    return "\n".join(lines).encode()


def _format_task(task: "asyncio.Task[object]") -> str:
    """The task and its chain of awaits, as far as visible."""
    awaited: Any = task.get_coro()
    lines = [task.get_name()]
    while awaited is not None and len(lines) <= TASK_FRAMES_MAX:
        frame = getattr(awaited, "cr_frame", None)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
        lines.append(f"  {getattr(awaited, '__qualname__', type(awaited).__name__)} {place}".rstrip())
        awaited = getattr(awaited, "cr_await", None)
    return "\n".join(lines)
