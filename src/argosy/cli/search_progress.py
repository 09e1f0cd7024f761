"""Runs the search in a thread while the main thread draws progress and handles Ctrl-C.

Python handles a signal between two bytecodes of the main thread, and a kernel is a single long one. The main thread
therefore only waits, and on Ctrl-C exits without waiting for the worker thread.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from argosy.cli.output import safe_name

if TYPE_CHECKING:
    from rich.progress import Progress


T = TypeVar("T")

TICK_S = 0.1  # between two updates
# A bar that flashes for a moment is noise; most searches of a small directory end before it.
QUIET_S = 0.3  # shorter work shows no bar
INTERRUPTED = 130  # exit code that shells report after Ctrl-C
COMPILING = "compiling search kernels, first run only"


@dataclass
class SearchProgress:
    """Progress: the worker writes, the main thread reads. Fields are replaced as a whole, so no lock is needed."""

    task: str = ""  # text of the current step
    bytes: tuple[int, int] = (0, 0)  # done and total; total is 0 while unknown
    is_compiling: bool = False
    compiled: tuple[int, int] = (0, 0)  # kernels compiled, and all to compile
    cancelled: threading.Event = field(default_factory=threading.Event)

    def begin(self, task: str) -> None:
        self.bytes = (0, 0)
        self.task = task

    def on_progress(self, done_bytes: int, total_bytes: int) -> None:
        """Callback of the builder; raises KeyboardInterrupt to stop it."""
        if self.cancelled.is_set():
            raise KeyboardInterrupt
        self.bytes = (done_bytes, total_bytes)


def run_with_progress(work: Callable[[SearchProgress], T]) -> T:
    """Returns or raises what `work` does. On Ctrl-C sets `cancelled` and does not wait for the worker."""
    progress, outcome = SearchProgress(), Future[T]()
    # A daemon, so that an error in this thread ends the process although a kernel is still running.
    worker = threading.Thread(target=_run_work, args=(outcome, work, progress), name="argosy-search", daemon=True)
    with _catch_ctrl_c() as is_interrupted, ProgressView(progress) as view:
        worker.start()
        while not (wait([outcome], TICK_S).done or is_interrupted()):
            view.draw()
        if is_interrupted():
            progress.cancelled.set()
            raise KeyboardInterrupt
    return outcome.result()


@contextmanager
def _catch_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Yields a check for Ctrl-C. The signal only sets a flag: an exception while drawing would leave half a line."""
    received = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # Shells let background jobs ignore SIGINT, and only the main thread may install handlers.
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield received.is_set
        return
    signal.signal(signal.SIGINT, lambda *_: received.set())
    try:
        yield received.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def exit_interrupted() -> NoReturn:
    """Exits at once without cleanup, because the worker thread may be inside a long kernel."""
    # The interpreter would join the worker thread on exit, and a kernel cannot be interrupted.
    os._exit(INTERRUPTED)


def _run_work(outcome: "Future[T]", work: Callable[[SearchProgress], T], progress: SearchProgress) -> None:
    try:
        outcome.set_result(work(progress))
    except BaseException as error:  # raised again in the main thread
        outcome.set_exception(error)


class ProgressView:
    """A progress line on a terminal after `QUIET_S`; otherwise one line when kernels are compiled."""

    def __init__(self, progress: SearchProgress) -> None:
        self._stage = progress
        self._ticks = 0
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Progress | None = None
        self._shown: tuple[str, bool] | None = None
        self._is_compiling_printed = False

    def __enter__(self) -> "ProgressView":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def draw(self) -> None:
        """Called every TICK_S by the main thread, which is the only one that draws."""
        self._ticks += 1
        done, total = self._stage.bytes
        shown = self._compiling_text() if self._stage.is_compiling else self._stage.task, total > 0
        if not self._is_terminal:
            if self._stage.is_compiling and not self._is_compiling_printed:
                click.echo(COMPILING, err=True)
                self._is_compiling_printed = True
        elif self._ticks * TICK_S >= QUIET_S:
            # rich cannot change the columns of a bar, so a stage of another kind gets a new one.
            if self._bar is None or shown != self._shown:
                self._bar = self._new_bar(shown[0], done, total)
                self._shown = shown
            self._bar.update(self._bar.task_ids[0], completed=done, total=total or None)
            self._bar.refresh()

    def _compiling_text(self) -> str:
        done, total = self._stage.compiled
        return f"{COMPILING}: {done}/{total}" if done < total else COMPILING

    def _new_bar(self, text: str, done: int, total: int) -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

        if self._bar is not None:
            self._bar.stop()
        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        columns += [BarColumn(), DownloadColumn(), TransferSpeedColumn()] if total else []
        bar = Progress(*columns, console=Console(file=sys.stderr), transient=True, auto_refresh=False)
        bar.add_task(safe_name(text), completed=done, total=total or None)  # before `start`, which draws at once
        bar.start()
        return bar
