"""Starts `argosy serve` processes, each with its log in a file, and waits for what they do.

A benchmark measures processes as an operator starts them, and not components in its own process: only then are their
CPU time, memory and threads their own, and one of them can be killed.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.base.errors import Unavailable
from argosy.bench.machine import cpu_s

TOKEN = "bench"  # admin routes are closed without a token
UP_S_MAX = 120.0
POLL_S = 0.05
LOG_CHARACTERS_MAX = 2_000  # of a log that is quoted in an error

Settings = Mapping[str, object]


@dataclass
class ServerProcess:
    """One `argosy serve`; it starts with the object."""

    name: str
    role: str
    directory: Path
    settings: Settings
    process: "subprocess.Popen[bytes]" = field(init=False)
    address: str = ""

    def __post_init__(self) -> None:
        environment = {
            # Settings of the caller's shell would make the figures incomparable.
            **{name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")},
            **{f"ARGOSY_{name.upper()}": str(value) for name, value in self.settings.items()},
            "ARGOSY_NODE_ID": self.name,
            "ARGOSY_NODE_PORT": "0",
            "ARGOSY_LOG_FORMAT": "json",
        }
        command = [sys.executable, "-m", "argosy.cli", "serve", "--role", self.role]
        # A session of its own: Ctrl-C in the terminal reaches the benchmark, which then stops its processes in order.
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_up(self) -> bool:
        """Whether it has logged its address. Unavailable, with the end of its log, if it has ended instead."""
        if not self.is_alive:
            log = self.log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]
            raise Unavailable(f"{self.name} exited with code {self.process.returncode}; the end of its log:\n{log}")
        if not self.address:
            # The port is chosen by the system, so the log is the only place that has it.
            self.address = next((str(event["address"]) for event in self.log_events("node up")), "")
        return bool(self.address)

    def log_events(self, name: str) -> Iterator[dict[str, Any]]:
        """The log events of this name, oldest first."""
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}") and (event := json.loads(line)).get("event") == name:
                yield event

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.is_alive:
            self.process.send_signal(how)
            self.process.wait()


async def wait_until(condition: Callable[[], bool], within_s: float, what: str) -> None:
    async def is_met() -> bool:
        return condition()

    await wait_until_seen(is_met, within_s, what)


async def wait_until_seen(condition: Callable[[], Any], within_s: float, what: str) -> None:
    """Poll an asynchronous condition until it is met; Unavailable if that takes too long."""
    ends_at = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > ends_at:
            raise Unavailable(f"timed out after {within_s:g} s, waiting until {what}")
        await asyncio.sleep(POLL_S)
