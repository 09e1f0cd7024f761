"""A process of the job broker."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


class Node:
    """One process of the broker."""

    def __init__(self, name: str, folder: Path, settings: dict[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ARGOSY_", "AWS_"))}
        ours = {f"ARGOSY_{key.upper()}": value for key, value in settings.items()}
        command = [sys.executable, "-m", "tests.journeys.jobs_process"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env={**inherited, **ours, "ARGOSY_NODE_ID": name})

    def address(self) -> str | None:
        """The gRPC address, once logged."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return next((line["grpc"] for line in lines if line["event"] == "jobs up"), None)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
