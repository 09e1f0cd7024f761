"""`argosy up` as a newcomer starts it: in a home of its own, without any settings."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.journeys.fleet import eventually

PATIENCE_S = 180.0  # a start takes 6 s on an idle machine


@dataclass
class Session:
    """One running `argosy up`."""

    process: subprocess.Popen[bytes]
    log: Path
    running: Path

    @property
    def record(self) -> dict[str, Any] | None:
        """The record that other commands of this user read."""
        found = [json.loads(path.read_bytes()) for path in self.running.glob("*.json")]
        return next((each for each in found if each["pid"] == self.process.pid), None)

    @property
    def url(self) -> str:
        record = self.record
        assert record is not None, self.log.read_text()
        return f"http://{record['address']}"

    def wait_ready(self) -> None:
        eventually(self._is_ready, within_s=PATIENCE_S, what="it is ready")

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.record is not None and status_of(f"{self.url}/readyz") == 200

    def search(self, query: str) -> tuple[int, int]:
        """The status, and how many files match."""
        request = Request(f"{self.url}/api/search", json.dumps({"q": query}).encode(), method="POST")
        try:
            with urlopen(request, timeout=10) as answer:
                result = json.load(answer)["Result"]
                return answer.status, int(result["FileCount"]) if not result.get("Crashes") else -1
        except HTTPError as error:
            error.close()
            return error.code, -1

    def names(self) -> set[str]:
        with urlopen(f"{self.url}/v1/repositories", timeout=10) as answer:
            return {each["name"] for each in json.load(answer)["repositories"]}

    def addresses(self) -> set[str]:
        """Addresses of the members."""
        with urlopen(f"{self.url}/v1/fleet", timeout=10) as answer:
            return {each["address"] for each in json.load(answer)["nodes"] if each["is_member"]}

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0


class Home:
    """A user's home, with the commands that are run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "share" / "argosy"
        self._started = 0

    def environ(self, settings: dict[str, str]) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
        ours = {"HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder / "share"), "ARGOSY_LOG_FORMAT": "json"}
        return {**outside, **ours, **settings}

    def folder_with(self, name: str, **files: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / f"{file}.py").write_text(text)
        return folder

    def run(self, *words: object, **settings: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "argosy.cli", *map(str, words)]
        return subprocess.run(
            command, env=self.environ(settings), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    @contextmanager
    def up(self, *words: object, **settings: str) -> Iterator[Session]:
        self._started += 1
        log = self.folder / f"up-{self._started}.log"
        with log.open("wb") as output, ExitStack() as closing:
            command = [sys.executable, "-m", "argosy.cli", "up", *map(str, words)]
            process = subprocess.Popen(command, env=self.environ(settings), stderr=output)
            closing.callback(process.wait)
            closing.callback(process.kill)
            yield Session(process, log, self.data / "running")


def status_of(url: str) -> int:
    """The status of an answer, or 0 if there is none."""
    try:
        with urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0
