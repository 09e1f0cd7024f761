"""`argosy up` as a process, and the holders listed by `argosy find`."""

import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from argosy.cli.find import find
from tests.journeys.fleet import eventually

PATIENCE_S = 90.0


class Up:
    """`argosy up`, restartable over one data directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "up.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def start(self, *words: str, **settings: str) -> None:
        self.log.write_bytes(b"")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
        ours = {
            "node_data_dir": str(self.folder / "data"),
            "log_format": "json",
            "node_id": "front",
            "search_refresh_s": "1",
            **settings,
        }
        environ = {**inherited, **{f"ARGOSY_{name.upper()}": value for name, value in ours.items()}}
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "argosy.cli", "up", "--port", "0", *words]
            self.process = subprocess.Popen(command, stderr=log, env=environ)
        eventually(
            lambda: self.find_event("node up", node="front") is not None, within_s=PATIENCE_S, what="argosy up is ready"
        )
        up = self.find_event("node up", node="front")
        assert up is not None
        self.url = f"http://{up['address']}"

    def find_event(self, event: str, **fields: str) -> dict[str, Any] | None:
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return next((line for line in lines if line["event"] == event and fields.items() <= line.items()), None)

    def stop(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)

    def find(self, *words: str) -> Result:
        return CliRunner().invoke(find, [*words, "--url", self.url])

    def holders(self, content: bytes) -> list[str]:
        """The holders, as `repository@commit`."""
        answer = self.find(f"1220{sha256(content).hexdigest()}", "--json")
        assert answer.exit_code in (0, 1), answer.output
        [result] = json.loads(answer.stdout)
        return sorted(f"{holder['repository']}@{holder['version']}" for holder in result["holders"])

    def wait_held(self, content: bytes, *holders: str) -> None:
        eventually(lambda: self.holders(content) == sorted(holders), within_s=PATIENCE_S, what=f"held by {holders}")
