"""The query layer as processes: an indexer writes to query nodes, a gateway serves finds, a node joins by command."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.base.backends.servers import free_ports
from argosy.cli import root
from tests.journeys.fleet import eventually
from tests.journeys.test_content_commands import PATIENCE_S, ContentProcesses, start_publisher

TOKEN = "the-token-of-the-layer"
FILES = 40


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[ContentProcesses]:
    started = ContentProcesses(tmp_path)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


def start_node(processes: ContentProcesses, name: str, role: str, event: str, **settings: str) -> dict[str, str]:
    layer = {"keyspace_layout_file": str(processes.folder / "layout.json"), "keyspace_token": TOKEN, "node_port": "0"}
    log = processes.run(name, "serve", "--role", role, **{**layer, **settings})
    eventually(lambda: processes.find_event(log, "node up") is not None, within_s=PATIENCE_S, what=f"{name} is up")
    event_fields = processes.find_event(log, event)
    assert event_fields is not None
    return event_fields


def run_layout(processes: ContentProcesses, *arguments: str) -> Result:
    environment = {
        "ARGOSY_KEYSPACE_LAYOUT_FILE": str(processes.folder / "layout.json"),
        "ARGOSY_KEYSPACE_TOKEN": TOKEN,
    }
    return CliRunner().invoke(root.cli, ["ipni", "layout", *arguments], env=environment)


def test_a_query_layer_serves_finds_for_an_indexer_and_grows(processes: ContentProcesses) -> None:
    documents = processes.folder / "papers"
    documents.mkdir()
    contents = [f"file {number}".encode() for number in range(FILES)]
    for number, content in enumerate(contents):
        (documents / str(number)).write_bytes(content)
    ports = dict(zip("abc", free_ports(3), strict=True))
    nodes = {name: f"http://127.0.0.1:{ports[name]}" for name in "ab"}
    (processes.folder / "layout.json").write_text(json.dumps({"version": 1, "replicas": 1, "nodes": nodes}))
    for name in "ab":
        start_node(processes, name, "keyspace", "query node up", keyspace_node=name, keyspace_port=str(ports[name]))
    indexer = start_node(
        processes, "indexer", "indexer", "indexer up", ipni_http_port="0", ipni_sync_allow_private="true"
    )
    processes.find = indexer["find"]
    start_publisher(processes, documents)
    eventually(lambda: all(map(processes.is_found, contents)), within_s=PATIENCE_S, what="the indexer finds everything")

    front = start_node(
        processes, "front", "content", "content gateway up", content_port="0", keyspace_indexer_urls=processes.find
    )
    processes.find = front["url"]
    assert all(map(processes.is_found, contents))
    assert not processes.is_found(b"unknown")
    shown = json.loads(run_layout(processes, "show", "--json").stdout)
    assert sum(each["entries"] for each in shown["nodes"]) == FILES
    assert all(each["entries"] > 0 for each in shown["nodes"])

    added = run_layout(processes, "add", f"c=http://127.0.0.1:{ports['c']}")
    assert added.stdout.startswith("version 2: a, b, c;")
    assert run_layout(processes, "add", "d=http://127.0.0.1:1").exit_code == 2, "a second move is rejected"
    start_node(processes, "c", "keyspace", "query node up", keyspace_node="c", keyspace_port=str(ports["c"]))
    eventually(
        lambda: run_layout(processes, "finalize").exit_code == 0, within_s=PATIENCE_S, what="the move is finalized"
    )
    assert all(map(processes.is_found, contents))
    eventually(lambda: _has_moved(processes), within_s=PATIENCE_S, what="each entry is on one node")
    assert all(map(processes.is_found, contents))


def _has_moved(processes: ContentProcesses) -> bool:
    shown = run_layout(processes, "show", "--json")
    if shown.exit_code != 0:
        return False  # a node has not read the new version yet
    entries = [each["entries"] for each in json.loads(shown.stdout)["nodes"]]
    return len(entries) == 3 and sum(entries) == FILES and all(entries)
