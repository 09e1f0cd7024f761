"""The query layer as processes: an indexer writes to query nodes, a front answers, and a node joins by command."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.base.backends.servers import free_ports
from argosy.cli import root
from tests.journeys.fleet import eventually
from tests.journeys.test_content_commands import PATIENCE_S, Harbour, publishing

TOKEN = "the-token-of-the-layer"
FILES = 40


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    made = Harbour(tmp_path)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


def up(harbour: Harbour, name: str, role: str, event: str, **settings: str) -> dict[str, str]:
    layer = {"keyspace_layout_file": str(harbour.folder / "layout.json"), "keyspace_token": TOKEN, "node_port": "0"}
    log = harbour.run(name, "serve", "--role", role, **{**layer, **settings})
    eventually(lambda: harbour.told(log, "node up") is not None, within_s=PATIENCE_S, what=f"{name} is up")
    told = harbour.told(log, event)
    assert told is not None
    return told


def command(harbour: Harbour, *arguments: str) -> Result:
    environment = {
        "ARGOSY_KEYSPACE_LAYOUT_FILE": str(harbour.folder / "layout.json"),
        "ARGOSY_KEYSPACE_TOKEN": TOKEN,
    }
    return CliRunner().invoke(root.cli, ["ipni", "layout", *arguments], env=environment)


def test_a_query_layer_answers_for_an_indexer_and_grows(harbour: Harbour) -> None:
    papers = harbour.folder / "papers"
    papers.mkdir()
    contents = [f"file {number}".encode() for number in range(FILES)]
    for number, content in enumerate(contents):
        (papers / str(number)).write_bytes(content)
    ports = dict(zip("abc", free_ports(3), strict=True))
    nodes = {name: f"http://127.0.0.1:{ports[name]}" for name in "ab"}
    (harbour.folder / "layout.json").write_text(json.dumps({"version": 1, "replicas": 1, "nodes": nodes}))
    for name in "ab":
        up(harbour, name, "keyspace", "query node up", keyspace_node=name, keyspace_port=str(ports[name]))
    indexer = up(harbour, "indexer", "indexer", "indexer up", ipni_http_port="0", ipni_sync_allow_private="true")
    harbour.find = indexer["find"]
    publishing(harbour, papers)
    eventually(lambda: all(map(harbour.found, contents)), within_s=PATIENCE_S, what="the indexer finds all")

    front = up(harbour, "front", "content", "content gateway up", content_port="0", keyspace_indexer_urls=harbour.find)
    harbour.find = front["url"]
    assert all(map(harbour.found, contents))
    assert not harbour.found(b"nobody's")
    shown = json.loads(command(harbour, "show", "--json").stdout)
    assert sum(each["entries"] for each in shown["nodes"]) == FILES
    assert all(each["entries"] > 0 for each in shown["nodes"])

    joined = command(harbour, "add", f"c=http://127.0.0.1:{ports['c']}")
    assert joined.stdout.startswith("version 2: a, b, c;")
    assert command(harbour, "add", "d=http://127.0.0.1:1").exit_code == 2, "one move at a time"
    up(harbour, "c", "keyspace", "query node up", keyspace_node="c", keyspace_port=str(ports["c"]))
    eventually(lambda: command(harbour, "finalize").exit_code == 0, within_s=PATIENCE_S, what="the move is settled")
    assert all(map(harbour.found, contents))
    eventually(lambda: _has_moved(harbour), within_s=PATIENCE_S, what="each entry is at one node")
    assert all(map(harbour.found, contents))


def _has_moved(harbour: Harbour) -> bool:
    shown = command(harbour, "show", "--json")
    if shown.exit_code != 0:
        return False  # somebody has not read the new version yet
    entries = [each["entries"] for each in json.loads(shown.stdout)["nodes"]]
    return len(entries) == 3 and sum(entries) == FILES and all(entries)
