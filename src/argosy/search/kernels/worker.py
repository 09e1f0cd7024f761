"""Processes that compile kernels into the cache, and whoever starts them.

    python -m argosy.search.kernels.worker [--all]      compiles what is missing and shows how far it is

Compiling holds the interpreter lock for seconds at a time, so a process that answers queries has it done by others. A
worker writes a line to its stdout for each kernel and ends when its stdin does: no worker outlives its parent. Any
number may run at once, on one cache: a kernel that another process is compiling is left to it and waited for.
"""

import argparse
import fcntl
import gc
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

JOBS_MAX = 4  # workers at once, one for each core up to this
BACKGROUND_NICE = 15  # of a worker that nobody waits for
STOP_S = 5.0  # for a worker to end before it is killed
LOCK = "compile.lock"  # beside the compiled kernels; a byte of it for each
TICK_S = 1.0  # a kernel takes seconds: the time is shown meanwhile
BAR_CHARACTERS = 30  # at most, as far as the terminal is wide enough
BAR_CHARACTERS_MIN = 8
COLUMNS = 80  # of a terminal that does not tell
PLAIN_LINES = 4  # where the output is no terminal: a line for each quarter
MODULE = "argosy.search.kernels.worker"
INTERRUPTED = 130

Progress = Callable[[int, int], None]  # kernels compiled, kernels to compile


class Failed(Exception):
    """A worker ended before it was done; its own message is on stderr."""


class Compilation:
    """Workers that compile what is missing, as many as are useful, until they are done or stopped."""

    def __init__(self, *, everything: bool, jobs: int | None = None, background: bool = False) -> None:
        jobs = jobs or min(os.cpu_count() or 1, JOBS_MAX)
        command = [sys.executable, "-m", MODULE, "--child", *["--all"] * everything, *["--background"] * background]
        # What they import is kept as bytecode, whatever the environment says: reading numba's source takes a second.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # Blocked in a worker, too, which would print a traceback at Ctrl-C until it ignores it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._workers = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
                for _ in range(jobs)
            ]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._is_stopped = False

    def wait(self, progress: Progress | None = None) -> None:
        """Returns when all workers are done. Raises Failed if one could not do its part.

        `progress` is called at each step and every `TICK_S`, once it is known how much there is to do.
        """
        for worker in self._workers:
            threading.Thread(target=self._read, args=(worker,), daemon=True).start()
        total, done, open_outputs = 0, set[str](), len(self._workers)
        while open_outputs:
            try:
                word, name = self._lines.get(timeout=TICK_S)
            except queue.Empty:
                word = name = ""
            if word == "end":
                open_outputs -= 1
            elif word == "missing":
                total = max(total, int(name))
            elif word == "done":
                done.add(name)
            if progress is not None and total:
                progress(min(len(done), total), total)
        codes = [worker.wait() for worker in self._workers]
        if any(codes) and not self._is_stopped:
            raise Failed("the search kernels could not be compiled: see above")

    def stop(self) -> None:
        """Ends what is still running; from any thread, any number of times."""
        self._is_stopped = True
        for worker in self._workers:
            with suppress(OSError):
                worker.terminate()
        for worker in self._workers:
            try:
                worker.wait(STOP_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def __enter__(self) -> "Compilation":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for worker in self._workers:
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()

    def _read(self, worker: "subprocess.Popen[str]") -> None:
        assert worker.stdout is not None
        with suppress(ValueError):  # it was closed while we read
            for line in worker.stdout:
                word, _, name = line.strip().partition(" ")
                self._lines.put((word, name))
        self._lines.put(("end", ""))


class Background:
    """The compilation of what is not needed at once, and then its loading, so that no later query waits for either."""

    def __init__(self) -> None:
        self._compilation = Compilation(everything=True, jobs=1, background=True)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="argosy-kernels", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from argosy.search.kernels import compiling

        with self._compilation as compilation:
            try:
                compilation.wait()
            except Failed:  # said on stderr; a query that needs a kernel compiles it
                return
        for dispatcher in compiling.not_loaded():
            if self._is_stopping.is_set():
                return
            if compiling.is_cached(dispatcher):
                compiling.load([dispatcher])

    def stop(self) -> None:
        self._is_stopping.set()
        self._compilation.stop()
        self._thread.join(STOP_S)


def compile_missing(dispatchers: list[Any], done: Callable[[str], None]) -> None:
    """Compiles what is not cached, first what nobody else is compiling; says the name of each that is cached then."""
    from argosy.search.kernels import compiling

    left = dispatchers
    for waits in (False, True):
        busy = []
        for dispatcher in left:
            with _locked(dispatcher, waits) as is_ours:
                if not is_ours:
                    busy.append(dispatcher)
                    continue
                if not compiling.is_cached(dispatcher):
                    compiling.load([dispatcher])
            done(compiling.name_of(dispatcher))
        left = busy


_locks: dict[str, int] = {}  # open for as long as the process: closing one gives up its locks


@contextmanager
def _locked(dispatcher: Any, waits: bool) -> Iterator[bool]:
    folder = dispatcher._cache.folder
    if folder not in _locks:
        _locks[folder] = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    file, place = _locks[folder], zlib.crc32(dispatcher.py_func.__name__.encode())
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB), 1, place)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _work(everything: bool, is_background: bool) -> None:
    """What a worker does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, which stops its workers
    if is_background:
        os.nice(BACKGROUND_NICE)
    gc.disable()  # a tenth of the time, and the process ends before it matters
    from argosy.search import kernels
    from argosy.search.kernels import compiling

    kernels.import_all()
    others = {compiling.name_of(each) for each in compiling.not_loaded()} - {*kernels.ESSENTIAL}
    names = [*kernels.ESSENTIAL, *sorted(others)]
    missing = compiling.missing(names if everything else kernels.ESSENTIAL)
    missing = [each for each in missing if each._cache.folder is not None]
    _say(f"missing {len(missing)}")
    compile_missing(missing, lambda name: _say(f"done {name}"))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock the interpreter wants when it ends
        pass
    os._exit(1)


class Display:
    """How far the compilation is, for a person: a bar on a terminal, a few lines elsewhere."""

    def __init__(self, is_terminal: bool, write: Callable[[str], object]) -> None:
        self._is_terminal = is_terminal
        self._write = write
        self._quarter = -1
        self._is_complete = False

    def show(self, done: int, total: int, seconds: float = 0.0) -> None:
        if self._is_terminal:
            self._show_bar(done, total, seconds)
        elif done * PLAIN_LINES // total > self._quarter:
            self._quarter = done * PLAIN_LINES // total
            self._write(f"compiling the search kernels, first run only: {done}/{total}\n")

    def _show_bar(self, done: int, total: int, seconds: float) -> None:
        """Never wider than the terminal: a line that wraps cannot be overwritten."""
        if self._is_complete:
            return
        columns = shutil.get_terminal_size((COLUMNS, 24)).columns - 1
        label, figures = "compiling search kernels, first run only", f" {done}/{total}, {seconds:.0f} s"
        width = min(BAR_CHARACTERS, columns - len(label) - len(figures) - len(" []"))
        bar = f" [{('#' * (width * done // total)).ljust(width, '.')}]" if width >= BAR_CHARACTERS_MIN else ""
        self._write("\r" + f"{label}{bar}{figures}"[:columns].ljust(columns))
        self._is_complete = done == total
        if self._is_complete:
            self._write("\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Compile the search kernels.")
    parser.add_argument("--all", action="store_true", help="also those that a first index and search do not need")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _work(given.all, given.background)
        return 0

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    started_at = time.monotonic()
    display = Display(sys.stderr.isatty(), write)

    def show(done: int, total: int) -> None:
        display.show(done, total, time.monotonic() - started_at)

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # tools/setup_env.py has blocked it
        with Compilation(everything=given.all) as compilation:
            compilation.wait(show)
    except Failed as error:
        write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        write("\ninterrupted: run it again to compile what is left\n")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
