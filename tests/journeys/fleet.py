"""Real nodes as real processes, with a client that keeps asking them who holds what."""

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
    """Waits for a condition and returns how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, f"{what}: not within {within_s} s"
        threading.Event().wait(POLL_S)
    return time.monotonic() - began


@dataclass
class NodeProcess:
    """One `argosy serve --role hold`, which logs to a file of its own."""

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
        """Where it listens, once it has said so."""
        if self._address is None:
            for line in self.log.read_text().splitlines():
                if line.startswith("{") and (told := json.loads(line))["event"] == "node up":
                    self._address = str(told["address"])
        return self._address

    def get(self, path: str, timeout_s: float = 5.0) -> tuple[int, dict]:
        """Status and body; status 0 if nothing answered, or not to the end."""
        connection = HTTPConnection(self.address() or "nowhere", timeout=timeout_s)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()

    def owned(self) -> dict[str, str]:
        """Unit to node, of the primaries that are ready, as this node sees it."""
        _, body = self.get("/v1/leases")
        return {row["unit"]: row["node"] for row in body.get("leases", ()) if row["state"] == "ready"}


@dataclass(frozen=True)
class Answer:
    unit: str
    node: str
    epoch: int
    asked_at: float
    answered_at: float


class Prober(threading.Thread):
    """Asks every node about every unit, over and over; a stopped node's answers come when it wakes up."""

    def __init__(self, node: NodeProcess, units: list[str]) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._units = units
        self._is_over = threading.Event()
        self.answers: list[Answer] = []

    def run(self) -> None:
        while not self._is_over.is_set():
            for unit in self._units:
                asked_at = time.monotonic()
                status, body = self._node.get(f"/v1/units/{unit}", timeout_s=60.0)
                if status == 200:
                    self.answers.append(Answer(unit, body["node"], body["epoch"], asked_at, time.monotonic()))
                if status == 0 or self._is_over.wait(0.002):
                    break
            self._is_over.wait(0.02)

    def stop(self) -> list[Answer]:
        self._is_over.set()
        self.join(timeout=70)
        return self.answers


def answers_from_the_past(answers: list[Answer]) -> list[Answer]:
    """Answers under an epoch older than one that had been answered before they were even asked for."""
    by_unit: dict[str, list[Answer]] = defaultdict(list)
    for answer in sorted(answers, key=lambda answer: answer.answered_at):
        by_unit[answer.unit].append(answer)
    late = []
    for of_unit in by_unit.values():
        ends = [answer.answered_at for answer in of_unit]
        newest = list(accumulate((answer.epoch for answer in of_unit), max))
        for answer in of_unit:
            before = bisect_left(ends, answer.asked_at)
            if before and newest[before - 1] > answer.epoch:
                late.append(answer)
    return late
