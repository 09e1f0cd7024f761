"""Compiles kernels into the cache before they are needed, in worker processes.

    python -m argosy.search.precompiler [--all]      compiles the missing kernels and shows progress

`make setup` and the container image run this command. A node that starts without a cache compiles ESSENTIAL, reports
ready, and compiles the rest in the background; a query that needs one of those waits for it.

Compiling holds the interpreter lock for seconds at a time, so a process that serves queries delegates it. A worker
writes a line to stdout for each kernel, and exits when its stdin is closed, so no worker outlives its parent. Any
number can run on one cache: a kernel that another process is compiling is locked, and waited for.
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
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from argosy.base import logs
from argosy.search import kernels

JOBS_MAX = 4  # concurrent workers: one per core, up to this number
BACKGROUND_NICE = 15  # niceness of a background worker
STOP_S = 5.0  # a worker that takes longer to stop is killed
# A lock of the operating system, so that a compiler that is killed leaves nothing locked.
LOCK = "compile.lock"  # in the cache directory; one byte per kernel is locked
TICK_S = 1.0  # the display is refreshed meanwhile, because a kernel takes seconds
BAR_CHARACTERS = 30  # at most; fewer on a narrow terminal
BAR_CHARACTERS_MIN = 8
COLUMNS = 80  # if the terminal does not report its width
PLAIN_LINES = 4  # without a terminal: one line per quarter
MODULE = "argosy.search.precompiler"
# The exit status of a shell for a process ended by SIGINT: 128 + 2.
INTERRUPTED = 130

Progress = Callable[[int, int], None]  # kernels compiled, kernels to compile


log = logs.get("search.kernels")

# The kernels that index building and the searches shown in the docs call: words, symbols, regular expressions, names
# and `or`, with results as chunks or lines. With only those that a plain word needs, the first `sym:` search compiled
# eight kernels in the process that serves, for 17 s (decision 0040). tests/search/kernels measures the set. The slowest
# to compile come first, so that several compiler processes finish at about the same time.
ESSENTIAL = (
    "encode_chunks", "_blank", "select_in_parts", "_outline", "scan_parts", "encode_lines", "intersect", "score_parts",
    "places_in_documents", "parts_with_all", "scan", "_blank_bodies", "_nest", "mark_traits", "score_matches",
    "lines_around", "collect_keys", "_squeeze", "_blank_arguments", "cut_blocks", "best_of", "_place", "distinct_keys",
    "gather", "score_names", "entries_of", "best_points", "_keys_of", "ranges_of", "documents_of", "unite", "_columns",
    "fill_postings", "blocks_within", "mark_documents", "mark_first_documents", "without_overlaps",
)  # fmt: skip


def import_all() -> list[str]:
    """Imports every module that declares kernels; returns the names of those in `kernels`."""
    names = sorted(module.name for module in iter_modules(kernels.__path__))
    for name in names:
        import_module(f"{kernels.__name__}.{name}")
    import_module("argosy.search.symbols.extract")
    return names


def warm() -> list[str]:
    """Loads every kernel; compiles those that are not cached in this process."""
    from argosy.search.kernels import compiler  # loads numba

    names = import_all()
    compiler.load(compiler.not_loaded())
    return names


def prepare(progress: Callable[[int, int], None] | None = None) -> "Background | None":
    """Compiles ESSENTIAL, loads everything cached, and starts compiling the rest in the background.

    Returns the background compilation, which the caller must stop, or None if nothing is left to compile.
    """
    from argosy.search.kernels import compiler  # loads numba

    import_all()
    compile_essential(progress)
    compiler.load_cached()
    compiler.load(compiler.missing(ESSENTIAL))  # in memory only, if no cache directory is writable
    return Background() if any(each._cache.folder for each in compiler.missing()) else None


def compile_essential(progress: Callable[[int, int], None] | None = None) -> None:
    """Compiles the missing kernels of ESSENTIAL in worker processes, if a cache directory is writable."""
    from argosy.search.kernels import compiler  # loads numba

    if not any(each._cache.folder for each in compiler.missing(ESSENTIAL)):
        return
    with Compilation(everything=False) as compilation:
        try:
            compilation.wait(progress)
        # The caller then compiles in this process: slower, with the same result.
        except CompilationFailed as error:
            log.warning("kernel workers failed, compiling in this process", reason=str(error))


class CompilationFailed(Exception):
    """A worker exited before it was done; its error is on stderr."""


class Compilation:
    """Workers that compile the missing kernels until they are done or stopped."""

    def __init__(self, *, everything: bool, jobs: int | None = None, background: bool = False) -> None:
        jobs = jobs or min(os.cpu_count() or 1, JOBS_MAX)
        command = [sys.executable, "-m", MODULE, "--child", *["--all"] * everything, *["--background"] * background]
        # Bytecode is written even if PYTHONDONTWRITEBYTECODE is set: compiling numba's source takes a second per start.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # Workers inherit the blocked SIGINT: they would print a traceback at Ctrl-C until they ignore it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # Processes, because numba holds its global compiler lock, and the interpreter's, while it compiles.
            self._workers = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
                for _ in range(jobs)
            ]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._is_stopped = False

    def wait(self, progress: Progress | None = None) -> None:
        """Waits until all workers are done. Raises CompilationFailed if one failed.

        Calls `progress` at each kernel and every `TICK_S`, once the total is known.
        """
        for worker in self._workers:
            # A thread for each pipe: a blocking read of one worker would delay the lines of the others.
            threading.Thread(target=self._read, args=(worker,), daemon=True).start()
        # Workers report kernels that others compiled, too, so names are counted once. The first worker to start sees
        # the most kernels missing, so the greatest total is the true one.
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
        # A worker that `stop` has terminated reports a failure which is none.
        if any(codes) and not self._is_stopped:
            raise CompilationFailed("the search kernels could not be compiled: see above")

    def stop(self) -> None:
        """Stops the running workers. Idempotent and thread-safe."""
        self._is_stopped = True
        for worker in self._workers:
            with suppress(OSError):
                worker.terminate()
        # All are signalled before the first is waited for, so that stopping takes as long as the slowest, not the sum.
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
            # A worker ends when its stdin closes, so pipes are closed explicitly, not by the garbage collector.
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()

    def _read(self, worker: "subprocess.Popen[str]") -> None:
        assert worker.stdout is not None
        with suppress(ValueError):  # closed by stop() during the read
            for line in worker.stdout:
                word, _, name = line.strip().partition(" ")
                self._lines.put((word, name))
        self._lines.put(("end", ""))


class Background:
    """Compiles and then loads the kernels that are not essential, so that no later query waits for them."""

    def __init__(self) -> None:
        # One niced process: the node serves meanwhile, and a query that needs a missing kernel compiles it itself.
        self._compilation = Compilation(everything=True, jobs=1, background=True)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="argosy-kernels", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from argosy.search.kernels import compiler

        with self._compilation as compilation:
            try:
                compilation.wait()
            except CompilationFailed:  # the error is on stderr; a query that needs the kernel compiles it
                return
        # Loading waits for the global compiler lock, so it is done one by one, and a stop takes effect in between.
        for dispatcher in compiler.not_loaded():
            if self._is_stopping.is_set():
                return
            if compiler.is_cached(dispatcher):
                compiler.load([dispatcher])

    def stop(self) -> None:
        self._is_stopping.set()
        self._compilation.stop()
        self._thread.join(STOP_S)


def compile_missing(dispatchers: list[Any], done: Callable[[str], None]) -> None:
    """Compiles the kernels that are not cached, those that no other process compiles first; reports each to `done`."""
    from argosy.search.kernels import compiler  # loads numba

    # Two passes: first the kernels that no other process is compiling, then, waiting, those that another process had
    # locked.
    left = dispatchers
    for waits in (False, True):
        busy = []
        for dispatcher in left:
            with _lock(dispatcher, waits) as is_ours:
                if not is_ours:
                    busy.append(dispatcher)
                    continue
                if not compiler.is_cached(dispatcher):
                    compiler.load([dispatcher])
            done(compiler.name_of(dispatcher))
        left = busy


# Never closed: closing any descriptor of a file releases all of the process's POSIX locks on it.
_locks: dict[str, int] = {}


@contextmanager
def _lock(dispatcher: Any, waits: bool) -> Iterator[bool]:
    folder = dispatcher._cache.folder
    if folder not in _locks:
        _locks[folder] = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    # A byte chosen by hash needs no agreed numbering; two kernels with one byte only wait for each other.
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
    """The main function of a worker."""
    # First of all, because the parent can end during the imports.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which stops its workers
    if is_background:
        os.nice(BACKGROUND_NICE)
    gc.disable()  # saves a tenth of the time in a short-lived process
    from argosy.search.kernels import compiler

    import_all()
    others = {compiler.name_of(each) for each in compiler.not_loaded()} - {*ESSENTIAL}
    # In this order, because `missing` keeps it and the essential kernels are needed first.
    names = [*ESSENTIAL, *sorted(others)]
    missing = compiler.missing(names if everything else ESSENTIAL)
    # A worker's memory is of no use to its parent, so a kernel that cannot be written to disk is not compiled here.
    missing = [each for each in missing if each._cache.folder is not None]
    _print_line(f"missing {len(missing)}")
    compile_missing(missing, lambda name: _print_line(f"done {name}"))


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock the interpreter needs at exit
        pass
    # `sys.exit` would end only this thread.
    os._exit(1)


class ProgressDisplay:
    """Shows the progress of a compilation: a bar on a terminal, a few lines elsewhere."""

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
        """Writes a bar that fits the terminal, because a wrapped line cannot be overwritten."""
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
    display = ProgressDisplay(sys.stderr.isatty(), write)

    def show(done: int, total: int) -> None:
        display.show(done, total, time.monotonic() - started_at)

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by tools/setup_env.py
        with Compilation(everything=given.all) as compilation:
            compilation.wait(show)
    except CompilationFailed as error:
        write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        write("\ninterrupted: run it again to compile what is left\n")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
