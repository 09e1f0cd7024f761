"""Programs that are run for comparison: their cost, their errors, and the files that they find."""

import json
import os
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from argosy.base.errors import NotFound, Unavailable
from argosy.bench.search.bench_query import BenchQuery, Form
from argosy.bench.search.corpus import environment_roots, prepare_corpus
from argosy.bench.search.engine import Engine
from argosy.bench.search.peers import IndexCost, compare_files
from argosy.bench.search.programs import CpuAndWall, run_program
from argosy.search.backends.folder import FolderSource
from argosy.search.index.build import build
from argosy.search.skip_policy import Policy
from bench.peers.zoekt import Zoekt, find_program
from tests.bench.search_tree import FILES, write_tree


def test_the_cpu_of_a_whole_pipeline_is_counted(tmp_path: Path) -> None:
    busy = f"{shlex.quote(sys.executable)} -c 'sum(range(3_000_000))'"
    idle = run_program(["sh", "-c", ":"], cwd=tmp_path).spent
    both = run_program(["sh", "-c", f"{busy} | {busy}"], cwd=tmp_path).spent
    assert both.cpu_s > 10 * idle.cpu_s  # starting two interpreters is a hundred times the work
    assert both.wall_s > 0


def test_output_is_returned_if_needed(tmp_path: Path) -> None:
    assert run_program(["echo", "found"], cwd=tmp_path, keeps_output=True).output == b"found\n"
    assert run_program(["echo", "found"], cwd=tmp_path).output == b""


def test_no_match_is_no_error(tmp_path: Path) -> None:
    assert run_program(["sh", "-c", "exit 1"], cwd=tmp_path).output == b""


@pytest.mark.parametrize("script", ["echo no such flag >&2; exit 2", "echo cannot read >&2; exit 0"])
def test_error_of_a_program_has_its_output(tmp_path: Path, script: str) -> None:
    with pytest.raises(Unavailable, match=r"sh failed with code \d: (no such flag|cannot read)"):
        run_program(["sh", "-c", script], cwd=tmp_path)


def test_ripgrep_comes_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert Path(find_program("rg")).is_file()
    with pytest.raises(NotFound, match="csearch is neither in this environment nor on PATH"):
        find_program("csearch")


def test_a_corpus_has_the_indexed_files_and_no_others(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    (tree / ".gitignore").write_text("*\n")
    corpus = prepare_corpus("tree", {"": tree}, tmp_path / "corpus", Policy())
    found = {path.relative_to(corpus.directory) for path in corpus.directory.rglob("*") if path.is_file()}
    assert (corpus.files, dict(corpus.left_out)) == (FILES + 2, {"binary": 1})
    assert len(found) == FILES + 2
    assert Path("picture.png") not in found
    assert corpus.text_bytes == sum((corpus.directory / path).stat().st_size for path in found)


def test_no_root_of_the_environment_is_below_another() -> None:
    roots = list(environment_roots().values())
    assert roots
    assert not [root for root in roots for other in roots if other in root.parents]


@dataclass
class WrongPeer:
    """Misses one file, and finds one that does not exist."""

    files_found: frozenset[str]
    name: str = "wrong"
    version: str = "1"
    built: IndexCost | None = None
    is_threaded: bool = False

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        return CpuAndWall(0.0, 0.0)

    def matching_files(self, query: BenchQuery) -> frozenset[str] | None:
        return self.files_found if len(query.words) == 1 else None

    def close(self) -> None:
        pass


def test_files_that_only_one_program_finds_are_named(tmp_path: Path) -> None:
    engine = Engine(build(FolderSource(str(write_tree(tmp_path))), Policy()), cores=1)
    query = BenchQuery("rare", ("anchor_007",))
    peer = WrongPeer(frozenset({"port\n9/x.py"}))
    found = compare_files(engine, [peer], [query, BenchQuery("and", ("anchor_007", "vessel"))])
    engine.close()
    assert found.compared == {"wrong": 1}
    (difference,) = found.of("wrong")
    assert difference.as_text() == (
        r"content:anchor_007: 1 files, wrong 1 (only ours: port_1/quay_007.py; only theirs: 'port\n9/x.py')"
    )


ZOEKT_INDEX = """#!/bin/sh
echo finished >&2
echo shard > "$2/tree_v16.00000.zoekt"
"""
# Responds as the real one is documented to, and stores the request.
# sh runs the second line, which is a string to Python: a first line cannot name an interpreter whose path has blanks.
ZOEKT_WEBSERVER = f"""#!/bin/sh
'''exec' {shlex.quote(sys.executable)} "$0" "$@" # '''
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open("request.json", "w") as file:
            json.dump([self.path, request, sys.argv[1:]], file)
        body = json.dumps({{"Result": {{"FileCount": 1}}}}).encode()
        self.send_response(200 if request["Q"] != "broken" else 418)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

host, port = sys.argv[sys.argv.index("-listen") + 1].split(":")
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
"""


def test_zoekt_is_built_started_queried_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("zoekt-index", ZOEKT_INDEX), ("zoekt-webserver", ZOEKT_WEBSERVER)):
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    peer = Zoekt.open(write_tree(tmp_path / "tree"), tmp_path)
    try:
        spent = peer.run_query(BenchQuery("rare", ("anchor_007",)), "top", 1)
        path, request, words = json.loads((tmp_path / "request.json").read_text())
        with pytest.raises(Unavailable, match="zoekt responded with 418 to 'broken'"):
            peer._request("broken", "count")
    finally:
        peer.close()
    assert peer.index_cost.index_bytes == len("shard\n")
    assert spent.wall_s > 0
    assert (path, request["Q"], request["Opts"]["MaxDocDisplayCount"]) == ("/api/search", "content:anchor_007", 50)
    assert "-rpc" in words
    assert peer._process.returncode is not None
