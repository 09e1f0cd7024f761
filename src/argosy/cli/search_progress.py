"""Work in a thread of its own, while this one watches: it draws how far the work is, and hears Ctrl-C.

A signal is heard between two steps of the interpreter in the main thread, and a kernel may be one long step. So the
main thread never works: it waits, and when it is interrupted it leaves without waiting for the work to notice.
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

from argosy.cli.terminal_text import safe_name

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

TICK_S = 0.1  # between two looks at the work
QUIET_S = 0.3  # what is done by then needs no bar
INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended
COMPILING = "compiling search kernels, first run only"


@dataclass
class Stage:
    """How far the work is: the worker writes, the watcher reads. Fields are replaced whole, so no lock is needed."""

    task: str = ""  # what is being done
    bytes: tuple[int, int] = (0, 0)  # done, in all; in all 0 while that is not known
    is_compiling: bool = False
    compiled: tuple[int, int] = (0, 0)  # kernels that are, and all that have to be
    cancelled: threading.Event = field(default_factory=threading.Event)

    def begin(self, task: str) -> None:
        self.bytes = (0, 0)
        self.task = task

    def tell(self, done_bytes: int, total_bytes: int) -> None:
        """For the builder, which stops at what it raises."""
        if self.cancelled.is_set():
            raise KeyboardInterrupt
        self.bytes = (done_bytes, total_bytes)


def watched(work: Callable[[Stage], T]) -> T:
    """What the work gives or raises. If this thread is interrupted, the work is told and left alone."""
    stage, outcome = Stage(), Future[T]()
    worker = threading.Thread(target=_settle, args=(outcome, work, stage), name="argosy-search", daemon=True)
    with _ctrl_c() as is_interrupted, View(stage) as view:
        worker.start()
        while not (wait([outcome], TICK_S).done or is_interrupted()):
            view.draw()
        if is_interrupted():
            stage.cancelled.set()
            raise KeyboardInterrupt
    return outcome.result()


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether there was one. It is heard between two looks: in the middle of a drawing it would leave half of it."""
    heard = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield heard.is_set
        return
    signal.signal(signal.SIGINT, lambda *_: heard.set())
    try:
        yield heard.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def leave() -> NoReturn:
    """Ends the process at once, with nothing more written: other threads may be deep in a kernel."""
    os._exit(INTERRUPTED)


def _settle(outcome: "Future[T]", work: Callable[[Stage], T], stage: Stage) -> None:
    try:
        outcome.set_result(work(stage))
    except BaseException as error:  # it is raised where it can be told
        outcome.set_exception(error)


class View:
    """A line on stderr if somebody is watching and it takes long enough to look; else what explains a long wait."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ticks = 0
        self._is_watched = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Progress | None = None
        self._shown: tuple[str, bool] | None = None
        self._is_explained = False

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def draw(self) -> None:
        """Called every TICK_S, by one thread: when that stops, nothing is drawn any more."""
        self._ticks += 1
        done, total = self._stage.bytes
        shown = self._compiling() if self._stage.is_compiling else self._stage.task, total > 0
        if not self._is_watched:
            if self._stage.is_compiling and not self._is_explained:
                click.echo(COMPILING, err=True)
                self._is_explained = True
        elif self._ticks * TICK_S >= QUIET_S:
            if self._bar is None or shown != self._shown:
                self._bar = self._new_bar(shown[0], done, total)
                self._shown = shown
            self._bar.update(self._bar.task_ids[0], completed=done, total=total or None)
            self._bar.refresh()

    def _compiling(self) -> str:
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
        bar.add_task(safe_name(text), completed=done, total=total or None)  # drawn as soon as it starts
        bar.start()
        return bar
