"""Real servers on this host's loopback, for local fleets, benchmarks and tests, and child processes that do not outlive
this one. Each server has a directory of its own, which is removed with it.

Where the programs come from is in `server_programs.py`.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import IO, Any, Self

from argosy.base.backends.server_programs import ETCD, VALKEY, find_in_wheel, find_program
from argosy.base.errors import Invalid, Unavailable

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h
_C = ctypes.CDLL(None) if sys.platform == "linux" else None


def start_child(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    output: IO[Any] | None = None,
    in_own_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts a process that the kernel ends when this one is gone, even if it was killed outright (on Linux).

    Must be called from the main thread: the kernel ends the child when the thread that started it ends.
    """
    return subprocess.Popen(
        command,
        env=environ,
        stdout=output,
        stderr=output,
        start_new_session=in_own_session,
        # An atexit handler or a signal handler would not run after SIGKILL, and the child would keep its port and
        # memory.
        preexec_fn=None if _C is None else _end_with_parent,
    )


def _end_with_parent() -> None:
    """Runs in the new process before its program: nothing here may import or take locks."""
    assert _C is not None
    _C.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


# An address and not a name: `localhost` may be ::1 first, where nothing listens.
HOST = "127.0.0.1"
READY_S_MAX = 90.0  # they take 0.1 to 2 s on an idle machine
POLL_S = 0.01


class Server(ABC):
    """Starts with the object; `stop`, or leaving the `with` block, ends it and removes what it wrote."""

    NAME = ""

    def __init__(self, *, options: tuple[str, ...] = (), ends_with_us: bool = False) -> None:
        """With `ends_with_us` it does not outlive this process, however that ends; start it from the main thread."""
        self._options = options
        self._ends_with_us = ends_with_us
        # Another process may take the port before the server binds it; then the start fails and reports the server's
        # log.
        (self.port,) = free_ports(1)
        self.home = Path(tempfile.mkdtemp(prefix=f"argosy-{self.NAME}-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the server, as in the settings."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> bool: ...

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        assert self._process is None, "the server is already running"
        command = [*self._command(), *self._options]
        with (self.home / "log").open("ab") as log:
            if self._ends_with_us:
                self._process = start_child(command, output=log, in_own_session=True)
            else:
                self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_ready()

    def stop(self) -> None:
        """Stops the server and removes its files."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self.home, ignore_errors=True)

    def kill(self) -> None:
        """Kills the server, as a crash would; `start` restarts it with what it had written."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops the server cleanly and starts it again."""
        self._end(signal.SIGTERM)
        self.start()

    def pause(self) -> None:
        """Suspends the server: connections stay open without responses."""
        self._send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)  # its last thread may still send a response

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _send(self, how: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        self._process.send_signal(how)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._send(signal.SIGCONT)  # a paused process would not receive the next signal
            self._send(how)
            # Without a timeout: its port and its files are in use until it has ended.
            self._process.wait()
            self._process = None

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_S_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self.home / "log").read_text(errors="replace")
                raise Unavailable(f"{self.NAME} did not start; its log ends:\n{log[-2000:]}")
            Event().wait(POLL_S)


class Valkey(Server):
    """A Valkey server. `is_durable` keeps an append-only file, so that a restart remembers all but the last second."""

    NAME = "valkey"

    def __init__(
        self,
        *,
        is_durable: bool = False,
        options: tuple[str, ...] = (),
        ends_with_us: bool = False,
        program: str | None = None,
    ) -> None:
        """`program` names a Valkey or Redis server to start instead of the wheel's or the one on PATH."""
        self._is_durable = is_durable
        self._program = program
        super().__init__(options=options, ends_with_us=ends_with_us)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def _command(self) -> list[str]:
        return [
            str(find_program(VALKEY, self._program)),
            *("--port", str(self.port), "--bind", HOST, "--dir", str(self.home), "--save", ""),
            *("--appendonly", "yes" if self._is_durable else "no", "--appendfsync", "everysec"),
        ]

    def _answers(self) -> bool:
        # A server with a password answers -NOAUTH, one that still reads its file -LOADING.
        return exchange(self.port, b"PING\r\n").startswith((b"+PONG", b"-NOAUTH"))


class Etcd(Server):
    """A single etcd. It does not wait for the disk, so a test is fast and a crash of the machine would lose data.

    `scheme` https needs the certificates among the options.
    """

    NAME = "etcd"

    def __init__(self, *, scheme: str = "http", options: tuple[str, ...] = (), program: str | None = None) -> None:
        """`program` names an etcd to start instead of the wheel's or the one on PATH."""
        self.scheme = scheme
        self._program = program
        self._peer_port, self._health_port = free_ports(2)
        super().__init__(options=options)

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"etcd{'s' if self.scheme == 'https' else ''}://{self.endpoint}"

    @property
    def folder(self) -> Path:
        """Where it keeps its data: 123 MB from the start. With --auto-tls its certificate is there too."""
        return self.home / "data"

    def _command(self) -> list[str]:
        client, peer = f"{self.scheme}://{self.endpoint}", f"http://{HOST}:{self._peer_port}"
        return [
            str(find_program(ETCD, self._program)),
            *("--name", "argosy", "--data-dir", str(self.folder), "--log-level", "warn"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"argosy={peer}"),
            *("--listen-metrics-urls", f"http://{HOST}:{self._health_port}"),
            # A single member waits for no other: with short elections it starts in 0.2 s instead of 1 to 2.
            *("--unsafe-no-fsync", "--heartbeat-interval", "10", "--election-timeout", "100"),
        ]

    def _answers(self) -> bool:
        return b'"health":"true"' in exchange(self._health_port, b"GET /health HTTP/1.0\r\n\r\n")


def program(package: str, pattern: str) -> Path:
    """A program that comes only in a wheel, such as etcdctl."""
    found = find_in_wheel(package, pattern)
    if found is None:
        raise Invalid(f"wheel {package!r} is not installed; run `make setup`, or pip install it")
    return found


def free_ports(number: int) -> list[int]:
    """Free ports; all are bound at the same time, so that no two are equal."""
    listeners = [socket.socket() for _ in range(number)]
    try:
        for listener in listeners:
            listener.bind((HOST, 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


def exchange(port: int, request: bytes) -> bytes:
    """Sends `request` and returns the response, empty if there is none."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(request)
            answer = connection.recv(4096)
            while request.startswith(b"GET") and (more := connection.recv(4096)):
                answer += more
            return answer
    # Not listening yet, or gone: the caller tries again until its own deadline.
    except OSError:
        return b""
