"""`argosy serve --role indexer`, `argosy ipni publish` and the commands that steer an indexer, as users run them."""

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
STRANGER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"


@dataclass
class Harbour:
    """Processes of one test, and what they said."""

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

    def told(self, log: Path, event: str) -> dict[str, Any] | None:
        lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
        return next((line for line in lines if line["event"] == event), None)

    def command(self, *arguments: str, is_json: bool = True) -> Result:
        name, *rest = arguments
        options = ["--url", self.find, "--token", TOKEN, *(["--json"] if is_json else [])]
        return CliRunner().invoke(root.cli, ["ipni", name, *rest, *options])

    def asked(self, *arguments: str) -> Any:
        result = self.command(*arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def found(self, content: bytes) -> bool:
        connection = HTTPConnection(self.find.removeprefix("http://"), timeout=PATIENCE_S)
        try:
            connection.request("GET", f"/multihash/1220{sha256(content).hexdigest()}")
            return connection.getresponse().status == 200
        finally:
            connection.close()


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    made = Harbour(tmp_path)
    log = made.run(
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
        eventually(lambda: made.told(log, "node up") is not None, within_s=PATIENCE_S, what="the indexer is up")
        up = made.told(log, "indexer up")
        assert up is not None
        made.find = up["find"]
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_bytes(name.encode())
    return folder


def publishing(harbour: Harbour, papers: Path) -> Callable[[], str]:
    log = harbour.run("publisher", "ipni", "publish", str(papers), "--port", "0", "--announce", harbour.find)
    eventually(lambda: "serving" in log.read_text(), within_s=PATIENCE_S, what="the publisher serves")
    return log.read_text


def test_files_are_published_found_and_withdrawn_by_their_removal(harbour: Harbour, papers: Path) -> None:
    said = publishing(harbour, papers)
    publisher = said().split()[1]
    assert f"{papers}  2 files, 6 bytes  baguqeera" in said()
    eventually(lambda: harbour.found(b"one") and harbour.found(b"two"), within_s=PATIENCE_S, what="both are found")
    assert not harbour.found(b"three")
    assert [(each["id"], each["publisher"], each["lag"]) for each in harbour.asked("providers")] == [
        (publisher, publisher, 0)
    ]
    assert harbour.asked("status")["entries"] == 2
    assert harbour.asked("progress", publisher)["State"] == "idle"
    harbour.processes[-1].send_signal(signal.SIGINT)
    assert harbour.processes[-1].wait(PATIENCE_S) == 0

    (papers / "two").write_bytes(b"three")  # the chain goes on where it ended
    publishing(harbour, papers)
    eventually(lambda: harbour.found(b"three"), within_s=PATIENCE_S, what="the new file is found")
    eventually(lambda: not harbour.found(b"two"), within_s=PATIENCE_S, what="the old one no more")
    assert harbour.found(b"one")


def test_another_process_publishes_once_to_the_chain_that_is_served(harbour: Harbour, papers: Path) -> None:
    said = publishing(harbour, papers)
    multiaddr = said().rpartition("serving ")[2].split()[0]
    eventually(lambda: harbour.found(b"one"), within_s=PATIENCE_S, what="the first folder is found")
    (papers / "two").write_bytes(b"three")
    harbour.run(
        "publisher", "ipni", "publish", str(papers), "--once", "--address", multiaddr, "--announce", harbour.find
    )
    assert harbour.processes[-1].wait(PATIENCE_S) == 0
    eventually(lambda: harbour.found(b"three"), within_s=PATIENCE_S, what="what was published once is found")
    eventually(lambda: not harbour.found(b"two"), within_s=PATIENCE_S, what="the old one no more")


def test_an_indexer_is_steered_by_commands(harbour: Harbour, papers: Path) -> None:
    assert harbour.command("check", is_json=False).stdout == "the indexer is healthy\n"
    assert harbour.command("block", STRANGER, is_json=False).stdout == f"blocked {STRANGER}\n"
    assert harbour.command("allow", STRANGER, is_json=False).stdout == f"allowed {STRANGER}\n"
    assert harbour.asked("reload") == {"done": "reloaded policy"}
    assert harbour.asked("syncs") == []
    assert harbour.command("assignments").exit_code == 1  # there is no assigner
    publishing(harbour, papers)
    eventually(lambda: harbour.found(b"one"), within_s=PATIENCE_S, what="it is found")
    [provider] = harbour.asked("providers")
    assert [row["multihashes"] for row in harbour.asked("telemetry")] == [2]
    assert harbour.command("sync", provider["id"], "--resync", is_json=False).stdout.startswith("sync started: ")
    eventually(
        lambda: harbour.asked("progress", provider["id"])["State"] == "idle", within_s=PATIENCE_S, what="it is reread"
    )
    assert harbour.asked("freeze") == {"done": "froze the indexer"}
    assert harbour.asked("status")["is_frozen"]
    frozen_at = harbour.asked("providers", provider["id"])[0]["frozen_at"]
    assert frozen_at == provider["last_ad"]
    harbour.asked("remove-provider", provider["id"])
    assert not harbour.found(b"one")
    missing = harbour.command("remove-provider", provider["id"])
    assert (missing.exit_code, "not" in missing.stderr) == (1, True)


def test_without_the_token_nothing_is_steered_and_bad_input_is_told(harbour: Harbour, tmp_path: Path) -> None:
    for token in ("", "a-wrong-token"):
        refused = CliRunner().invoke(root.cli, ["ipni", "freeze", "--url", harbour.find, "--token", token])
        assert refused.exit_code == 1
        assert "authorization: Bearer" in refused.stderr
    assert not harbour.asked("status")["is_frozen"]

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(root.cli, ["ipni", *arguments])
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "is not a CID" in said("mark-processed", STRANGER, "nonsense", "--url", harbour.find)
    assert "invalid URL 'elsewhere'" in said("import-providers", "elsewhere", "--url", harbour.find)
    assert "not found: " in said("publish", str(tmp_path / "nothing"))
    assert "--once requires --address" in said("publish", str(tmp_path), "--once")
