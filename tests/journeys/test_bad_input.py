"""What an operator gets wrong is answered at once, in one line that says what to do, and nothing is started instead."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.journeys.fleet import NodeProcess, eventually
from tests.servers.valkey import Valkey

END_S_MAX = 60.0


def started(**settings: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
    environment |= {f"ARGOSY_{name.upper()}": value for name, value in settings.items()}
    environment.setdefault("ARGOSY_NODE_PORT", "0")
    command = [sys.executable, "-m", "argosy.cli", "serve", "--role", "hold"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def up(**settings: str) -> subprocess.CompletedProcess[str]:
    return ended(started(**settings))


def ended(process: "subprocess.Popen[str]") -> subprocess.CompletedProcess[str]:
    """What it said, once it has ended by itself."""
    with process:
        try:
            told = process.communicate(timeout=END_S_MAX)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, *told)


@dataclass(frozen=True)
class Refused:
    """A node whose store refuses its connections."""

    port: int
    process: "subprocess.Popen[str]"


@pytest.fixture(scope="module", autouse=True)
def refused() -> Iterator[dict[str, Refused]]:
    """One for each kind of store. Giving up takes them half a minute: they begin before all else and are asked last."""
    with ExitStack() as stack:
        found = {}
        for scheme in ("redis", "etcd"):
            taken = stack.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))  # bound and not listening: refused at once, and nobody else's
            port = taken.getsockname()[1]
            process = started(ownership_store=f"{scheme}://user:hush@127.0.0.1:{port}")
            stack.callback(process.communicate)
            stack.callback(process.kill)
            found[scheme] = Refused(port, process)
        yield found


def test_an_unknown_backend_is_refused_with_the_known_ones_and_a_guess() -> None:
    done = up(ownership_store="reddis://127.0.0.1:6379")
    assert done.returncode == 2
    assert "did you mean redis://" in done.stderr
    assert "etcd://" in done.stderr


def test_every_wrong_setting_is_told_at_once_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text('[ownership]\nttl_s = "soon"\nwindows_s = 60\n')
    done = up(config=str(file), ownership_max_bids="many")
    assert done.returncode == 2
    for told in ("fleet.toml", "ttl_s", "windows_s", "window_s"):
        assert told in done.stderr
    done = up(ownership_max_bids="many", ownership_renew_s="29")
    assert done.returncode == 2
    assert "max_bids must be 'live', 'pushed' or a number" in done.stderr
    assert "renew_s" in done.stderr


def test_a_file_that_is_no_toml_is_named_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("[ownership\nttl_s = 3\n")
    done = up(config=str(file))
    assert done.returncode == 2
    assert "fleet.toml" in done.stderr
    assert "line 1" in done.stderr


def test_a_taken_port_is_an_error_that_names_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = up(node_port=str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "node.port" in done.stderr


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def test_a_second_node_with_the_same_id_gives_up_and_the_first_goes_on(valkey: Valkey, tmp_path: Path) -> None:
    timing = {"ownership_store": valkey.url, "ownership_ttl_s": "1", "ownership_renew_s": "0.3"}
    first = NodeProcess("twin", tmp_path, timing)
    first.start()
    try:
        eventually(lambda: first.log.read_text().count("session opened") == 2, within_s=20, what="the first is in")
        done = up(**timing, node_id="twin")
        assert done.returncode == 1
        assert "node id 'twin' is in use" in done.stderr
        assert "use another id" in done.stderr
        assert first.is_alive()
        assert first.get("/readyz")[0] == 200
    finally:
        first.kill()


@pytest.mark.parametrize("scheme", ["redis", "etcd"])
def test_an_unreachable_store_ends_the_start_after_stated_attempts_and_never_becomes_memory(
    refused: dict[str, Refused], scheme: str
) -> None:
    done = ended(refused[scheme].process)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert f"127.0.0.1:{refused[scheme].port}" in last
    assert "store unreachable after 5 attempts" in last
    assert "hush" not in done.stderr
    assert "session opened" not in done.stderr
