"""`argosy search` as users run it: on this repository, on a terminal, interrupted, in a pipe, on bad input."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli
from argosy.cli.search import load_engine
from argosy.cli.search_progress import SearchProgress

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "argosy.cli", "search")
START_S_MAX = 120.0  # until the first output: loading, or compiling, on a busy machine
END_S_MAX = 10.0  # from Ctrl-C to the exit: takes milliseconds, and the interrupted work would take longer
MANY_FILES = 20_000

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def object_of(properties: Mapping[str, Any], *optional: str) -> dict[str, Any]:
    """An object schema with exactly these fields, all required but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def list_of(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXT, FLAG, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "number"}
COUNT, FROM_ONE = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}
PLACE = object_of({"offset": COUNT, "line": FROM_ONE, "column": FROM_ONE})
RANGE = object_of({"start": PLACE, "end": PLACE})
SYMBOL = object_of({"name": TEXT, "kind": TEXT, "parent": TEXT, "parent_kind": TEXT})
CHUNK = object_of(
    {
        "content": TEXT, "content_base64": TEXT, "start": PLACE, "ranges": list_of(RANGE),
        "symbols": list_of({"anyOf": [SYMBOL, {"type": "null"}]}), "is_file_name": FLAG, "is_clipped": FLAG,
        "best_line": COUNT, "score": NUMBER, "explanation": TEXT,
    },
    "content_base64",
)  # fmt: skip
FILE = object_of(
    {
        "file": TEXT, "file_base64": TEXT, "repository": TEXT, "path": TEXT, "path_base64": TEXT, "language": TEXT,
        "branches": list_of(TEXT), "version": TEXT, "score": NUMBER, "match_count": COUNT, "chunks": list_of(CHUNK),
        "lines": {"const": []}, "content": {"type": "null"}, "checksum": TEXT, "repository_id": COUNT,
        "repository_rank": COUNT, "skipped": TEXT, "explanation": TEXT,
    },
    "file_base64", "path_base64",
)  # fmt: skip
STATS = object_of(
    {
        **dict.fromkeys(["files", "matches", "files_considered", "files_loaded", "files_skipped"], COUNT),
        **dict.fromkeys(["content_bytes", "index_bytes", "regexps_considered", "ngram_lookups"], COUNT),
        **dict.fromkeys(["indexes_searched", "indexes_skipped", "indexes_excluded"], COUNT),
        **dict.fromkeys(["duration_s", "wait_s"], NUMBER),
    }
)
INDEXED = object_of(
    {
        **dict.fromkeys(["files", "text_bytes", "memory_bytes"], COUNT),
        "duration_s": NUMBER,
        "by_name_only": {"type": "object", "additionalProperties": COUNT},
    }
)
BOUND = {"enum": ["index_match_limit", "total_match_limit", "wall_time_s", "files_max", "matches_max", "cancelled"]}
ANSWER = object_of(
    {
        "query": TEXT, "files": list_of(FILE), "stats": STATS, "limits_hit": list_of(BOUND), "is_complete": FLAG,
        "indexed": INDEXED,
    }
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    """Loads the engine before the tests, so that a one-time compilation is not timed."""
    load_engine(SearchProgress())


def run_in_process(*words: str) -> Result:
    """Run the command in this process, where the engine is already loaded."""
    return CliRunner().invoke(cli, ["search", *words])


class Terminal:
    """The command on its own pseudo-terminal."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self._seen = b""
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "150"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [*COMMAND, *words], cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def read_until(self, text: bytes | None, within_s: float) -> str:
        """The output when the text has appeared, or when the command has exited."""
        deadline = time.monotonic() + within_s
        while text is None or text not in self._seen:
            left_s = deadline - time.monotonic()
            assert left_s > 0, (text, self._seen[-2000:])
            if select.select([self._ours], [], [], left_s)[0]:
                try:
                    self._seen += os.read(self._ours, 1 << 16)
                except OSError:  # the other side is closed
                    assert text is None, self._seen[-2000:]
                    break
        return self._seen.decode()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that takes a while to search, with text that takes RE2 far longer."""
    root = tmp_path_factory.mktemp("big")
    body = b"    value = compute(self, alpha, while_index, needle)\n" * 36_000
    for number in range(30):
        (root / f"f{number}.py").write_bytes(b"def f%d():\n" % number + body)
    yield root
    for path in root.iterdir():
        path.unlink()


# A run of any of 20 letters, so long that its automaton has a state for nearly every position: RE2 has no fast path.
SLOW = r"[a-q][^u-z\n]{100,200}[^a-z\s]\pL{9}"


def test_the_engine_is_found_in_its_own_repository_and_json_matches_the_schema() -> None:
    answer = subprocess.run([*COMMAND, "--json", "class IndexSet"], cwd=ROOT, capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")
    body = json.loads(answer.stdout)
    jsonschema.validate(body, ANSWER)
    best = body["files"][0]
    assert best["file"] == "src/argosy/search/index_set.py"
    kinds = [symbol["kind"] for symbol in best["chunks"][0]["symbols"] if symbol]
    assert kinds == ["class"]


def test_editor_locations_point_at_the_match() -> None:
    answer = run_in_process("--vimgrep", "budget", str(ROOT / "src"), str(ROOT / "docs" / "query-language.md"))
    assert answer.exit_code == 0
    places = [line.split(":", 3) for line in answer.stdout.splitlines()]
    assert len(places) > 20
    for path, line, column, text in places:
        content = Path(path).read_bytes().splitlines()[int(line) - 1]
        assert content.decode() == text
        assert content[int(column) - 1 :].lower().startswith(b"budget")


def test_terminal_output_has_headings_and_colours_and_escapes_hostile_text(tmp_path: Path) -> None:
    names = ["new\nline", "escape\x1b[2J", "bell\x07", "tab\t", "round\u202e", "[red]", "-l", os.fsdecode(b"\xff")]
    for name in names:
        (tmp_path / name).write_bytes(b"needle \x1b]0;owned\x07\n")
    with Terminal(
        "needle or sym:^IndexSet$", "src/argosy/search", str(tmp_path), "-C", "1", "--sort", "path"
    ) as terminal:
        shown = terminal.read_until(None, START_S_MAX)
        assert terminal.process.wait(END_S_MAX) == 0
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # every hidden cursor is shown again
    answer = shown.replace("\r", "")[shown.replace("\r", "").index("\x1b[35m/") :]
    assert "class \x1b[31m\x1b[1mIndexSet\x1b[0m:" in answer
    text = COLOURS.sub("", answer)
    assert not set(text) & set("\x1b\x07\u202e\t")
    assert re.search(r"\n\nsrc/argosy/search/index_set\.py\n\d+-.*\n\d+:class IndexSet:  ‹class›\n\d+-", text)
    heads = [line for line in text.splitlines() if line.startswith(str(tmp_path))]
    shown_as = ("-l", "[red]", r"bell\x07", r"escape\x1b[2J", r"new\nline", r"round\u202e", r"tab\t", r"\xff")
    assert heads == [f"{tmp_path}/{name}" for name in shown_as]
    body = json.loads(run_in_process("--json", "needle", str(tmp_path)).stdout)
    assert {file.get("path_base64") or file["path"] for file in body["files"]} == {*names[:-1], "/w=="}


@pytest.mark.parametrize("moment", [b"indexing", b"searching"])
def test_ctrl_c_exits_at_once(big: Path, moment: bytes) -> None:
    with Terminal(SLOW, str(big), "--no-symbols", "--max-time", "0") as terminal:
        terminal.read_until(moment, START_S_MAX)
        terminal.process.send_signal(signal.SIGINT)
        shown = terminal.read_until(None, END_S_MAX)
        assert terminal.process.wait(END_S_MAX) == 130
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") > 0
    assert "Traceback" not in shown
    assert "Aborted" not in shown


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    words = ["return", "src", "--max-files", "0"]
    with subprocess.Popen([*COMMAND, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        complaints = process.stderr.read()
        assert process.wait() == 0
    assert b"return" in first.lower()
    assert complaints == b""


def test_a_failed_write_to_stdout_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run([*COMMAND, "IndexSet", "src"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: cannot write to stdout: No space left on device")
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("query", ["(", "[z-a]", r"a{2001}", r"(?P<x>a)\1", "foo("])
def test_an_invalid_regex_error_marks_the_position(query: str) -> None:
    answer = run_in_process(query, str(ROOT / "docs"))
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.splitlines()[1] == f"  {query}"
    assert answer.stderr.splitlines()[2].strip() == "^"


def repository(folder: Path) -> Path:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init"], ["commit", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)
    return folder / ".git"


def test_a_broken_repository_is_reported_in_one_line_with_the_fix(tmp_path: Path) -> None:
    hidden = repository(tmp_path)
    for path in (hidden / "objects").glob("??/*"):
        path.unlink()
    answer = run_in_process("x", str(tmp_path), "--branch", "HEAD")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert len(answer.stderr.splitlines()) == 1
    assert str(tmp_path) in answer.stderr
    (hidden / "HEAD").write_bytes(b"\x1b[2Jnothing\n")
    answer = run_in_process("x", str(tmp_path))
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert len(answer.stderr.splitlines()) == 1
    assert "\x1b" not in answer.stderr


def test_a_directory_of_very_many_files_is_searched(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(MANY_FILES // 1000)]
    for folder in folders:
        folder.mkdir()
        for number in range(1000):
            word = "needle" if number == 7 else "hay"
            (folder / f"{number}.txt").write_text(f"{word} {number} of {folder}\n")
    try:
        answer = run_in_process("--jsonl", "--sort", "path", "needle", str(tmp_path))
        assert (answer.exit_code, answer.stderr) == (0, "")
        *files, figures = [json.loads(line) for line in answer.stdout.splitlines()]
        assert [file["path"] for file in files] == sorted(f"{folder.name}/7.txt" for folder in folders)
        assert figures["indexed"]["files"] == MANY_FILES
    finally:
        for folder in folders:  # pytest would keep the files for two more runs
            for path in folder.iterdir():
                path.unlink()


def test_a_gigabyte_file_is_found_by_name_without_its_content(tmp_path: Path) -> None:
    with (tmp_path / "giant.log").open("wb") as file:
        file.write(b"needle\n")
        file.truncate(1 << 30)
    (tmp_path / "small.log").write_bytes(b"needle\n")
    for place in (tmp_path, tmp_path / "giant.log"):
        answer = run_in_process("-l", "needle or giant", str(place))
        assert answer.exit_code == 0
        assert str(tmp_path / "giant.log") in answer.stdout.splitlines()
        assert answer.stderr.startswith("note: 1 file too large to search")
    body = json.loads(run_in_process("--json", "needle", str(tmp_path)).stdout)
    assert [file["path"] for file in body["files"]] == ["small.log"]
    assert body["indexed"]["by_name_only"] == {"too_large": 1}
