"""Programs that are run for comparison: what they cost is told, what goes wrong is too, and files are compared."""

import json
import os
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from argosy.base.errors import NotFound, Unavailable
from argosy.bench.search import agreement
from argosy.bench.search.bench_query import Ask, Form
from argosy.bench.search.corpus import own_environment, set_out
from argosy.bench.search.engine import Engine
from argosy.bench.search.peers import Built, program
from argosy.bench.search.programs import Spent, run
from argosy.bench.search.zoekt import Zoekt
from argosy.search.backends.folder import FolderSource
from argosy.search.index.build import build
from argosy.search.skip_policy import Policy
from tests.bench.search_tree import FILES, write_tree


def test_the_cpu_of_a_whole_pipeline_is_counted(tmp_path: Path) -> None:
    busy = f"{shlex.quote(sys.executable)} -c 'sum(range(3_000_000))'"
    idle = run(["sh", "-c", ":"], cwd=tmp_path).spent
    both = run(["sh", "-c", f"{busy} | {busy}"], cwd=tmp_path).spent
    assert both.cpu_s > 10 * idle.cpu_s  # starting two interpreters is a hundred times the work
    assert both.wall_s > 0


def test_output_is_kept_where_it_is_wanted(tmp_path: Path) -> None:
    assert run(["echo", "found"], cwd=tmp_path, keeps_output=True).output == b"found\n"
    assert run(["echo", "found"], cwd=tmp_path).output == b""


def test_finding_nothing_is_no_failure(tmp_path: Path) -> None:
    assert run(["sh", "-c", "exit 1"], cwd=tmp_path).output == b""


@pytest.mark.parametrize("script", ["echo no such flag >&2; exit 2", "echo cannot read >&2; exit 0"])
def test_a_program_that_fails_is_quoted(tmp_path: Path, script: str) -> None:
    with pytest.raises(Unavailable, match=r"sh failed with code \d: (no such flag|cannot read)"):
        run(["sh", "-c", script], cwd=tmp_path)


def test_ripgrep_comes_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert Path(program("rg")).is_file()
    with pytest.raises(NotFound, match="csearch is neither in this environment nor on PATH"):
        program("csearch")


def test_a_corpus_holds_what_is_indexed_and_nothing_else(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    (tree / ".gitignore").write_text("*\n")
    corpus = set_out("tree", {"": tree}, tmp_path / "corpus", Policy())
    found = {path.relative_to(corpus.folder) for path in corpus.folder.rglob("*") if path.is_file()}
    assert (corpus.files, dict(corpus.left_out)) == (FILES + 2, {"binary": 1})
    assert len(found) == FILES + 2
    assert Path("picture.png") not in found
    assert corpus.text_bytes == sum((corpus.folder / path).stat().st_size for path in found)


def test_the_own_environment_is_named_once() -> None:
    folders = list(own_environment().values())
    assert folders
    assert not [folder for folder in folders for other in folders if other in folder.parents]


@dataclass
class Forgetful:
    """Leaves out one file, and finds one that is not there."""

    files_found: frozenset[str]
    name: str = "forgetful"
    version: str = "1"
    built: Built | None = None
    is_threaded: bool = False

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        return Spent(0.0, 0.0)

    def files(self, ask: Ask) -> frozenset[str] | None:
        return self.files_found if len(ask.words) == 1 else None

    def close(self) -> None:
        pass


def test_files_that_only_one_of_them_finds_are_named(tmp_path: Path) -> None:
    engine = Engine(build(FolderSource(str(write_tree(tmp_path))), Policy()), cores=1)
    ask = Ask("rare", ("anchor_007",))
    peer = Forgetful(frozenset({"port\n9/x.py"}))
    found = agreement.compared(engine, [peer], [ask, Ask("and", ("anchor_007", "vessel"))])
    engine.close()
    assert found.compared == {"forgetful": 1}
    (difference,) = found.of("forgetful")
    assert difference.as_text() == (
        r"content:anchor_007: 1 files, forgetful 1 (only ours: port_1/quay_007.py; only theirs: 'port\n9/x.py')"
    )


ZOEKT_INDEX = """#!/bin/sh
echo finished >&2
echo shard > "$2/tree_v16.00000.zoekt"
"""
# Answers as the real one is documented to, and keeps what it was asked.
# sh runs the second line, which is a string to Python: a first line cannot name an interpreter whose path has blanks.
ZOEKT_WEBSERVER = f"""#!/bin/sh
'''exec' {shlex.quote(sys.executable)} "$0" "$@" # '''
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open("asked.json", "w") as book:
            json.dump([self.path, asked, sys.argv[1:]], book)
        body = json.dumps({{"Result": {{"FileCount": 1}}}}).encode()
        self.send_response(200 if asked["Q"] != "broken" else 418)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

host, port = sys.argv[sys.argv.index("-listen") + 1].split(":")
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
"""


def test_zoekt_is_built_started_asked_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("zoekt-index", ZOEKT_INDEX), ("zoekt-webserver", ZOEKT_WEBSERVER)):
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    peer = Zoekt.open(write_tree(tmp_path / "tree"), tmp_path)
    try:
        spent = peer.ask(Ask("rare", ("anchor_007",)), "top", 1)
        path, asked, words = json.loads((tmp_path / "asked.json").read_text())
        with pytest.raises(Unavailable, match="zoekt answered 418 to 'broken'"):
            peer._answer("broken", "count")
    finally:
        peer.close()
    assert peer.built.index_bytes == len("shard\n")
    assert spent.wall_s > 0
    assert (path, asked["Q"], asked["Opts"]["MaxDocDisplayCount"]) == ("/api/search", "content:anchor_007", 50)
    assert "-rpc" in words
    assert peer._process.returncode is not None
