"""`argosy serve --role indexer`, `argosy ipni publish` and the commands that control an indexer, as users run them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argosy.cli import root
from tests.journeys.fleet import eventually

TOKEN = "the-admin-token"
PATIENCE_S = 60.0
PEER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"


@dataclass
class ContentProcesses:
    """The processes of one test, and their logs."""

    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    find: str = ""

    def run(self, name: str, *arguments: str, **settings: str) -> Path:
        log = self.folder / f"{name}.log"
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ARGOSY_")}
        ours = {f"ARGOSY_{key.upper()}": value for key, value in settings.items()}
        data = {"ARGOSY_NODE_DATA_DIR": str(self.folder / name), "ARGOSY_LOG_FORMAT": "json"}
        with log.open("ab") as out:
            command = [sys.executable, "-m", "argosy.cli", *arguments]
            self.processes.append(subprocess.Popen(command, stdout=out, stderr=out, env={**kept, **data, **ours}))
        return log

    def find_event(self, log: Path, event: str) -> dict[str, Any] | None:
        lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
        return next((line for line in lines if line["event"] == event), None)

    def command(self, *arguments: str, is_json: bool = True) -> Result:
        name, *rest = arguments
        options = ["--url", self.find, "--token", TOKEN, *(["--json"] if is_json else [])]
        return CliRunner().invoke(root.cli, ["ipni", name, *rest, *options])

    def query(self, *arguments: str) -> Any:
        result = self.command(*arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def is_found(self, content: bytes) -> bool:
        connection = HTTPConnection(self.find.removeprefix("http://"), timeout=PATIENCE_S)
        try:
            connection.request("GET", f"/multihash/1220{sha256(content).hexdigest()}")
            return connection.getresponse().status == 200
        finally:
            connection.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[ContentProcesses]:
    started = ContentProcesses(tmp_path)
    log = started.run(
        "indexer",
        "serve",
        "--role",
        "indexer",
        node_port="0",
        ipni_http_port="0",
        node_admin_token=TOKEN,
        ipni_sync_allow_private="true",
    )
    try:
        eventually(
            lambda: started.find_event(log, "node up") is not None, within_s=PATIENCE_S, what="the indexer is up"
        )
        up = started.find_event(log, "indexer up")
        assert up is not None
        started.find = up["find"]
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_bytes(name.encode())
    return folder


def start_publisher(processes: ContentProcesses, documents: Path) -> Callable[[], str]:
    log = processes.run("publisher", "ipni", "publish", str(documents), "--port", "0", "--announce", processes.find)
    eventually(lambda: "serving" in log.read_text(), within_s=PATIENCE_S, what="the publisher serves")
    return log.read_text


def test_files_are_published_found_and_withdrawn_when_removed(processes: ContentProcesses, documents: Path) -> None:
    output = start_publisher(processes, documents)
    publisher = output().split()[1]
    assert f"{documents}  2 files, 6 bytes  baguqeera" in output()
    eventually(
        lambda: processes.is_found(b"one") and processes.is_found(b"two"),
        within_s=PATIENCE_S,
        what="both files are found",
    )
    assert not processes.is_found(b"three")
    assert [(each["id"], each["publisher"], each["lag"]) for each in processes.query("providers")] == [
        (publisher, publisher, 0)
    ]
    assert processes.query("status")["entries"] == 2
    assert processes.query("progress", publisher)["State"] == "idle"
    processes.processes[-1].send_signal(signal.SIGINT)
    assert processes.processes[-1].wait(PATIENCE_S) == 0

    (documents / "two").write_bytes(b"three")  # the chain continues at its head
    start_publisher(processes, documents)
    eventually(lambda: processes.is_found(b"three"), within_s=PATIENCE_S, what="the new file is found")
    eventually(lambda: not processes.is_found(b"two"), within_s=PATIENCE_S, what="the old file is removed")
    assert processes.is_found(b"one")


def test_publish_once_in_another_process_extends_the_served_chain(processes: ContentProcesses, documents: Path) -> None:
    output = start_publisher(processes, documents)
    multiaddr = output().rpartition("serving ")[2].split()[0]
    eventually(lambda: processes.is_found(b"one"), within_s=PATIENCE_S, what="the first folder is found")
    (documents / "two").write_bytes(b"three")
    processes.run(
        "publisher", "ipni", "publish", str(documents), "--once", "--address", multiaddr, "--announce", processes.find
    )
    assert processes.processes[-1].wait(PATIENCE_S) == 0
    eventually(
        lambda: processes.is_found(b"three"), within_s=PATIENCE_S, what="the file published with --once is found"
    )
    eventually(lambda: not processes.is_found(b"two"), within_s=PATIENCE_S, what="the old file is removed")


def test_commands_control_an_indexer(processes: ContentProcesses, documents: Path) -> None:
    assert processes.command("check", is_json=False).stdout == "the indexer is healthy\n"
    assert processes.command("block", PEER, is_json=False).stdout == f"blocked {PEER}\n"
    assert processes.command("allow", PEER, is_json=False).stdout == f"allowed {PEER}\n"
    assert processes.query("reload") == {"done": "reloaded policy"}
    assert processes.query("syncs") == []
    assert processes.command("assignments").exit_code == 1  # no assigner configured
    start_publisher(processes, documents)
    eventually(lambda: processes.is_found(b"one"), within_s=PATIENCE_S, what="the file is found")
    [provider] = processes.query("providers")
    assert [row["multihashes"] for row in processes.query("telemetry")] == [2]
    assert processes.command("sync", provider["id"], "--resync", is_json=False).stdout.startswith("sync started: ")
    eventually(
        lambda: processes.query("progress", provider["id"])["State"] == "idle",
        within_s=PATIENCE_S,
        what="the chain has been read again",
    )
    assert processes.query("freeze") == {"done": "froze the indexer"}
    assert processes.query("status")["is_frozen"]
    frozen_at = processes.query("providers", provider["id"])[0]["frozen_at"]
    assert frozen_at == provider["last_ad"]
    processes.query("remove-provider", provider["id"])
    assert not processes.is_found(b"one")
    missing = processes.command("remove-provider", provider["id"])
    assert (missing.exit_code, "not" in missing.stderr) == (1, True)


def test_commands_without_the_token_are_rejected_and_bad_input_is_reported(
    processes: ContentProcesses, tmp_path: Path
) -> None:
    for token in ("", "a-wrong-token"):
        error = CliRunner().invoke(root.cli, ["ipni", "freeze", "--url", processes.find, "--token", token])
        assert error.exit_code == 1
        assert "authorization: Bearer" in error.stderr
    assert not processes.query("status")["is_frozen"]

    def output(*arguments: str) -> str:
        result = CliRunner().invoke(root.cli, ["ipni", *arguments])
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "is not a CID" in output("mark-processed", PEER, "nonsense", "--url", processes.find)
    assert "invalid URL 'elsewhere'" in output("import-providers", "elsewhere", "--url", processes.find)
    assert "not found: " in output("publish", str(tmp_path / "nothing"))
    assert "--once requires --address" in output("publish", str(tmp_path), "--once")
