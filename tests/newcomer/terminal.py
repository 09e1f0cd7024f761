"""A terminal for tests: a real program on a pseudo-terminal, and the screen as an emulator (pyte) shows it."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte

CTRL_C = b"\x03"
READ_BYTES = 65536
POLL_S = 0.2
EXIT_S_MAX = 30.0


class Terminal:
    """One program, the bytes it wrote, and the screen they make. Lines that scroll away are kept in `raw` only."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, *, columns: int, lines: int) -> None:
        self.process = process
        self.raw = b""
        self._master = master
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """The screen from its first to its last line with text."""
        shown = [line.rstrip() for line in self._screen.display]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, what: str | Callable[[str], bool], *, within_s: float) -> str:
        """Reads until the screen has the text, or is as the function says; returns the screen."""
        is_there = (lambda text: what in text) if isinstance(what, str) else what
        deadline = time.monotonic() + within_s
        while not is_there(self.text):
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{what!r} did not appear within {within_s} s:\n{self.text}"
            assert self._read(min(left_s, POLL_S)), f"the program ended before {what!r} appeared:\n{self.text}"
        return self.text

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for_exit(self, within_s: float = EXIT_S_MAX) -> int:
        """Reads to the end of the output; returns the exit code."""
        deadline = time.monotonic() + within_s
        while self._read(POLL_S):
            assert time.monotonic() < deadline, f"the program did not end within {within_s} s:\n{self.text}"
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, timeout_s: float) -> bool:
        """Feeds what has come to the screen; false at the end of the output."""
        if not select.select([self._master], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._master, READ_BYTES)
        except OSError:  # Linux reports the end of a pseudo-terminal as an input/output error
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


@contextmanager
def open_terminal(
    command: Sequence[str | Path], *, environ: Mapping[str, str], columns: int = 100, lines: int = 60
) -> Iterator[Terminal]:
    """Runs the program with a new terminal as its controlling one; ends it afterwards."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    try:
        process = subprocess.Popen(
            [str(word) for word in command],
            env=dict(environ),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
    finally:
        os.close(slave)
    try:
        yield Terminal(process, master, columns=columns, lines=lines)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(EXIT_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(master)


def _take_terminal() -> None:
    """Makes the terminal on stdin the session's own, so that Ctrl-C becomes a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
