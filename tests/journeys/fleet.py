"""Nodes as real processes, with a client that requests the owner of every unit in a loop."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import accumulate
from pathlib import Path

POLL_S = 0.05


def eventually(condition: Callable[[], bool], *, within_s: float, what: str) -> float:
    """Wait for a condition and return how long it took."""
    started_at = time.monotonic()
    while not condition():
        assert time.monotonic() - started_at < within_s, f"timed out after {within_s} s: {what}"
        threading.Event().wait(POLL_S)
    return time.monotonic() - started_at


@dataclass
class NodeProcess:
    """One `argosy serve --role hold`, with a log file of its own."""

    name: str
    folder: Path
    settings: dict[str, str]
    process: subprocess.Popen[bytes] = field(init=False)
    _address: str | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")},
            **{f"ARGOSY_{name.upper()}": value for name, value in self.settings.items()},
            "ARGOSY_NODE_ID": self.name,
            "ARGOSY_NODE_PORT": "0",
            "ARGOSY_LOG_FORMAT": "json",
            "ARGOSY_LOG_LEVEL": "debug",
        }
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "argosy.cli", "serve", "--role", "hold"]
            self.process = subprocess.Popen(command, stderr=log, env=environment)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def address(self) -> str | None:
        """The listen address, once logged."""
        if self._address is None:
            for line in self.log.read_text().splitlines():
                if line.startswith("{") and (event := json.loads(line))["event"] == "node up":
                    self._address = str(event["address"])
        return self._address

    def get(self, path: str, timeout_s: float = 5.0) -> tuple[int, dict]:
        """Status and body; status 0 without a complete response."""
        connection = HTTPConnection(self.address() or "nowhere", timeout=timeout_s)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()

    def owners(self) -> dict[str, str]:
        """Unit to node, of the ready primaries, as this node sees them."""
        _, body = self.get("/v1/leases")
        return {row["unit"]: row["node"] for row in body.get("leases", ()) if row["state"] == "ready"}


@dataclass(frozen=True)
class Answer:
    unit: str
    node: str
    epoch: int
    sent_at: float
    received_at: float


class Prober(threading.Thread):
    """Requests every unit from every node in a loop; a stopped node's responses arrive after it continues."""

    def __init__(self, node: NodeProcess, units: list[str]) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._units = units
        self._is_over = threading.Event()
        self.answers: list[Answer] = []

    def run(self) -> None:
        while not self._is_over.is_set():
            for unit in self._units:
                sent_at = time.monotonic()
                status, body = self._node.get(f"/v1/units/{unit}", timeout_s=60.0)
                if status == 200:
                    self.answers.append(Answer(unit, body["node"], body["epoch"], sent_at, time.monotonic()))
                if status == 0 or self._is_over.wait(0.002):
                    break
            self._is_over.wait(0.02)

    def stop(self) -> list[Answer]:
        self._is_over.set()
        self.join(timeout=70)
        return self.answers


def stale_answers(answers: list[Answer]) -> list[Answer]:
    """Responses under an epoch older than one already received before the request was sent."""
    by_unit: dict[str, list[Answer]] = defaultdict(list)
    for answer in sorted(answers, key=lambda answer: answer.received_at):
        by_unit[answer.unit].append(answer)
    late = []
    for of_unit in by_unit.values():
        ends = [answer.received_at for answer in of_unit]
        newest = list(accumulate((answer.epoch for answer in of_unit), max))
        for answer in of_unit:
            before = bisect_left(ends, answer.sent_at)
            if before and newest[before - 1] > answer.epoch:
                late.append(answer)
    return late
