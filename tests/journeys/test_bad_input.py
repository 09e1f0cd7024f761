"""Wrong operator input ends at once with a one-line error that names the fix, and starts nothing."""

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


def start_node(**settings: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
    environment |= {f"ARGOSY_{name.upper()}": value for name, value in settings.items()}
    environment.setdefault("ARGOSY_NODE_PORT", "0")
    command = [sys.executable, "-m", "argosy.cli", "serve", "--role", "hold"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_node(**settings: str) -> subprocess.CompletedProcess[str]:
    return wait_exit(start_node(**settings))


def wait_exit(process: "subprocess.Popen[str]") -> subprocess.CompletedProcess[str]:
    """Its output, after it has exited by itself."""
    with process:
        try:
            fragment = process.communicate(timeout=END_S_MAX)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, *fragment)


@dataclass(frozen=True)
class RefusedNode:
    """A node whose store refuses connections."""

    port: int
    process: "subprocess.Popen[str]"


@pytest.fixture(scope="module", autouse=True)
def refused_nodes() -> Iterator[dict[str, RefusedNode]]:
    """One per kind of store. The retries take half a minute: start these nodes first and check them last."""
    with ExitStack() as stack:
        nodes_by_scheme = {}
        for scheme in ("redis", "etcd"):
            unused = stack.enter_context(socket.socket())
            unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
            port = unused.getsockname()[1]
            process = start_node(ownership_store=f"{scheme}://user:hush@127.0.0.1:{port}")
            stack.callback(process.communicate)
            stack.callback(process.kill)
            nodes_by_scheme[scheme] = RefusedNode(port, process)
        yield nodes_by_scheme


def test_an_unknown_backend_is_rejected_with_the_known_ones_and_a_suggestion() -> None:
    done = run_node(ownership_store="reddis://127.0.0.1:6379")
    assert done.returncode == 2
    assert "did you mean redis://" in done.stderr
    assert "etcd://" in done.stderr


def test_all_invalid_settings_are_reported_together_with_their_source(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text('[ownership]\nttl_s = "soon"\nwindows_s = 60\n')
    done = run_node(config=str(file), ownership_max_bids="many")
    assert done.returncode == 2
    for fragment in ("fleet.toml", "ttl_s", "windows_s", "window_s"):
        assert fragment in done.stderr
    done = run_node(ownership_max_bids="many", ownership_renew_s="29")
    assert done.returncode == 2
    assert "max_bids must be 'live', 'pushed' or a number" in done.stderr
    assert "renew_s" in done.stderr


def test_invalid_toml_is_reported_with_file_and_position(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("[ownership\nttl_s = 3\n")
    done = run_node(config=str(file))
    assert done.returncode == 2
    assert "fleet.toml" in done.stderr
    assert "line 1" in done.stderr


def test_a_port_in_use_is_reported_with_the_setting() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        unused.listen()
        done = run_node(node_port=str(unused.getsockname()[1]))
    assert done.returncode == 2
    assert "node.port" in done.stderr


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def test_a_second_node_with_the_same_id_exits_and_the_first_keeps_running(valkey: Valkey, tmp_path: Path) -> None:
    timing = {"ownership_store": valkey.url, "ownership_ttl_s": "1", "ownership_renew_s": "0.3"}
    first = NodeProcess("twin", tmp_path, timing)
    first.start()
    try:
        eventually(
            lambda: first.log.read_text().count("session opened") == 2, within_s=20, what="the first node has a session"
        )
        done = run_node(**timing, node_id="twin")
        assert done.returncode == 1
        assert "node id 'twin' is in use" in done.stderr
        assert "use another id" in done.stderr
        assert first.is_alive()
        assert first.get("/readyz")[0] == 200
    finally:
        first.kill()


@pytest.mark.parametrize("scheme", ["redis", "etcd"])
def test_startup_fails_after_bounded_attempts_at_an_unreachable_store_and_never_falls_back_to_memory(
    refused_nodes: dict[str, RefusedNode], scheme: str
) -> None:
    done = wait_exit(refused_nodes[scheme].process)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert f"127.0.0.1:{refused_nodes[scheme].port}" in last
    assert "store unreachable after 5 attempts" in last
    assert "hush" not in done.stderr
    assert "session opened" not in done.stderr
