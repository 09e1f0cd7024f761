"""`argosy search`: options, exit codes like grep's, and every omission reported."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli
from argosy.cli.search import load_engine
from argosy.cli.search_progress import SearchProgress

UNPRIVILEGED_UID = 65534
FILES = {
    "src/shelf.py": "import os\n\n\nclass Shelf:\n    def put(self, book):\n        self.books.append(book)\n",
    "src/reader.py": "from shelf import Shelf\n\nshelf = Shelf()\nshelf.put('one')\n# the end\n",
    "tests/test_shelf.py": "from shelf import Shelf\n\n\ndef test_put():\n    assert Shelf()\n",
    "notes.txt": "A shelf is a place.\na.b and aXb\n",
}


def written(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    """Loads the engine before the tests, so that a compiler that must run once runs now."""
    load_engine(SearchProgress())


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small working directory."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, FILES)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["search", *words])


def lines(*words: str) -> list[str]:
    answer = run(*words)
    assert answer.exit_code == 0, answer.output
    return answer.stdout.splitlines()


def test_definitions_come_first_and_every_line_has_its_position(library: Path) -> None:
    found = lines("shelf")
    assert found[0] == "src/shelf.py:4:class Shelf:"
    assert "src/reader.py:3:shelf = Shelf()" in found
    assert "notes.txt:1:A shelf is a place." in found


def test_under_headings_definitions_are_marked(library: Path) -> None:
    assert run("Shelf", "src", "--heading").stdout == (
        "src/shelf.py\n4:class Shelf:  ‹class›\n\nsrc/reader.py\n1:from shelf import Shelf\n3:shelf = Shelf()\n"
    )
    assert "‹class›" not in run("Shelf", "src", "--heading", "--no-symbols").stdout


def test_context_is_shown_around_a_match(library: Path) -> None:
    assert lines("append", "-C", "1") == [
        "src/shelf.py-5-    def put(self, book):",
        "src/shelf.py:6:        self.books.append(book)",
    ]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["shelf", "-s"], {"src/reader.py", "src/shelf.py", "tests/test_shelf.py", "notes.txt"}),
        (["Shelf", "-s", "notes.txt"], set()),
        (["SHELF", "-i"], {"src/reader.py", "src/shelf.py", "tests/test_shelf.py", "notes.txt"}),
        (["SHELF"], set()),
        (["a.b", "notes.txt"], {"notes.txt"}),
        (["aXb -a.b", "-F"], set()),
        (["end -x", "--keyword"], set()),
        (["sym:put"], {"src/shelf.py", "tests/test_shelf.py"}),
        (["shelf file:^src/"], {"src/reader.py", "src/shelf.py"}),
        (["shelf", "src"], {"src/reader.py", "src/shelf.py"}),
        (["shelf", "tests", "src/shelf.py"], {"tests/test_shelf.py", "src/shelf.py"}),
    ],
)
def test_words_options_and_paths_choose_files(library: Path, words: list[str], found: set[str]) -> None:
    answer = run("-l", *words)
    assert set(answer.stdout.splitlines()) == found
    assert answer.exit_code == (0 if found else 1)


def test_literal_words_are_no_regexes(library: Path) -> None:
    assert lines("-F", "--vimgrep", "a.b") == ["notes.txt:2:1:a.b and aXb"]
    assert len(lines("--vimgrep", "a.b")) == 2


def test_query_options_override_the_command_line(library: Path) -> None:
    assert lines("-l", "count:1 shelf") == ["src/shelf.py"]
    assert len(lines("-l", "count:1 shelf", "--max-files", "2")) == 2
    assert lines("-l", "a.b patterntype:literal") == ["notes.txt"]
    assert lines("type:repo shelf", "src", "tests") == ["src", "tests"]
    assert run("type:repo nothing.here").exit_code == 1


def test_counts_are_of_all_matches(library: Path) -> None:
    assert sorted(lines("-c", "-s", "Shelf")) == ["src/reader.py:2", "src/shelf.py:1", "tests/test_shelf.py:2"]
    assert run("-c", "-s", "Shelf").stderr == ""


def test_files_are_sorted_by_score_or_by_name(library: Path) -> None:
    by_worth, by_name = lines("-l", "shelf"), lines("-l", "shelf", "--sort", "path")
    assert by_name == sorted(by_worth) != by_worth
    assert set(lines("-l", "shelf", "--bm25")) == set(by_worth)


def test_names_for_other_programs_are_exact(library: Path) -> None:
    written(library, {os.fsdecode(b"odd\n\xff.txt"): "shelf"})
    answer = run("-l", "-0", "shelf", "--sort", "path")
    assert answer.stdout_bytes.split(b"\0")[:2] == [b"notes.txt", b"odd\n\xff.txt"]
    assert r"odd\n\xff.txt" in lines("-l", "shelf")


def test_json_contains_the_whole_result(library: Path) -> None:
    document = json.loads(run("--json", "class Shelf").stdout)
    assert document["query"] == "class Shelf"
    assert (document["is_complete"], document["limits_hit"]) == (True, [])
    assert document["stats"]["files"] == len(document["files"]) == 1
    assert document["indexed"]["files"] == 4
    (file,) = document["files"]
    assert (file["file"], file["path"], file["language"]) == ("src/shelf.py", "src/shelf.py", "Python")
    chunk = file["chunks"][0]
    assert chunk["content"] == "class Shelf:\n"
    assert chunk["ranges"][1]["start"] == {"offset": 18, "line": 4, "column": 7}
    assert chunk["symbols"][1]["kind"] == "class"


def test_jsonl_is_a_line_for_each_file_and_one_of_figures(library: Path) -> None:
    document = [json.loads(line) for line in lines("--jsonl", "shelf", "--max-files", "3")]
    assert [each["type"] for each in document] == ["file", "file", "file", "stats"]
    assert document[-1]["limits_hit"] == ["files_max"]
    assert [json.loads(line)["type"] for line in lines("--jsonl", "type:repo shelf")] == ["repository"]


def test_json_of_names_and_counts_has_no_lines(library: Path) -> None:
    document = json.loads(run("--json", "-c", "-s", "Shelf").stdout)
    assert sorted((file["file"], file["match_count"]) for file in document["files"])[0] == ("src/reader.py", 2)
    assert all("chunks" not in file for file in document["files"])
    assert document["is_complete"]


def test_no_match_is_exit_code_one_and_no_output(library: Path) -> None:
    answer = run("no.such.thing.anywhere")
    assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "", "")
    assert json.loads(run("--json", "no.such.thing.anywhere").stdout)["files"] == []


def test_a_limited_result_is_reported_with_the_option_that_raises_the_limit(library: Path) -> None:
    answer = run("shelf", "--max-files", "2")
    assert answer.stderr == "note: 2 of 4 files shown; raise the limit with --max-files N\n"
    answer = run("shelf", "--max-matches", "1")
    assert answer.stderr.startswith("note: 1 of ")
    assert "--max-matches" in answer.stderr
    assert len(answer.stdout.splitlines()) == 1


@pytest.mark.parametrize("option", ["--max-files", "--max-matches", "--match-limit", "--context"])
@pytest.mark.parametrize("form", ["--jsonl", "--vimgrep", "--no-heading"])
def test_a_number_above_all_bounds_means_all(library: Path, option: str, form: str) -> None:
    answer = run("append", form, option, "9" * 30)
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert "self.books.append(book)" in answer.stdout


def test_a_search_that_stops_early_reports_it(library: Path) -> None:
    for number in range(12):  # more than one batch
        written(library, {f"many/{number:02}.txt": "word " * 350_000})
    answer = run("-c", "word", "many", "--match-limit", "1000")
    assert answer.exit_code == 0
    counts = [int(line.rpartition(":")[2]) for line in answer.stdout.splitlines()]
    assert len(counts) < 12
    assert answer.stderr == (
        f"note: stopped after {sum(counts):,} matches (limit 1,000 per path); raise it with --match-limit N\n"
    )
    assert len(lines("-c", "word", "many", "--match-limit", "0")) == 12


def test_no_time_is_no_proof_of_absence(library: Path) -> None:
    answer = run("shelf", "--max-time", "0.000000001")
    assert answer.exit_code == 2
    assert "note: stopped after 1e-09 s; raise the limit with --max-time SECONDS" in answer.stderr


def test_long_lines_are_clipped_and_reported(library: Path) -> None:
    written(library, {"long.txt": "x" * 9000 + "needle" + "y" * 9000})
    answer = run("needle")
    assert answer.stderr == "note: 1 long line truncated to 2,000 bytes\n"
    assert "needle" in answer.stdout
    assert answer.stdout.endswith("…\n")
    (place,) = lines("--vimgrep", "needle")
    assert place.startswith("long.txt:1:9001:")
    for names in ("-l", "-c"):  # no line is printed, so none is clipped
        assert run(names, "needle").stderr == ""


def test_the_cost_is_printed_on_request(library: Path) -> None:
    written(library, {"picture.png": b"\x89PNG\0\0"})
    document = run("shelf", "--stats").stderr.splitlines()
    assert document[0].startswith("indexed 5 files, ")
    assert document[1] == "by name only: 1 binary"
    assert document[2].startswith("found 10 matches in 4 files; read ")


def test_large_files_are_let_in_by_glob_or_by_name(library: Path) -> None:
    written(library, {"dump.sql": "-- row\n" * 400_000 + "needle\n"})
    answer = run("-l", "needle")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("note: 1 file too large to search; include them")
    assert lines("-l", "needle", "--large-file", "*.sql") == ["dump.sql"]
    assert lines("-l", "needle", "dump.sql") == ["dump.sql"]


def test_ignored_files_are_searched_on_request(library: Path) -> None:
    written(library, {".gitignore": "build/\n", "build/out.txt": "needle\n"})
    assert run("-l", "needle").exit_code == 1
    assert lines("-l", "needle", "--no-ignore") == ["build/out.txt"]
    assert lines("-l", "needle", "build") == ["build/out.txt"]


def test_two_folders_of_one_name_are_both_searched(library: Path) -> None:
    written(library, {"a/same/x.txt": "needle", "b/same/x.txt": "needle"})
    assert sorted(lines("needle", "a/same", "b/same/")) == ["a/same/x.txt:1:needle", "b/same/x.txt:1:needle"]
    assert lines("needle", "a/same", "a/../a/same") == ["a/same/x.txt:1:needle"]


def test_files_named_one_by_one_go_by_these_names(library: Path) -> None:
    found = lines("-l", "-s", "Shelf", "./src/../src/shelf.py", str(library / "src/reader.py"), "notes.txt")
    assert sorted(found) == sorted(["./src/../src/shelf.py", str(library / "src/reader.py")])


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(library: Path) -> Path:
    git(library, "init")
    git(library, "add", ".")
    git(library, "commit", "-m", "one")
    git(library, "branch", "old")
    written(library, {"notes.txt": "A shelf with a needle.\n"})
    git(library, "commit", "-am", "two")
    written(library, {"notes.txt": "uncommitted pins.\n"})
    return library


def test_a_working_copy_is_searched_from_disk_unless_branches_are_named(repository: Path) -> None:
    assert lines("pins|needle") == ["notes.txt:1:uncommitted pins."]
    assert lines("pins|needle", "--branch", "HEAD") == ["notes.txt:1:A shelf with a needle."]
    assert run("pins|needle", "--branch", "old").exit_code == 1
    found = lines("place|needle", "--branch", "main", "--branch", "old")
    assert sorted(found) == ["notes.txt:1:A shelf is a place.", "notes.txt:1:A shelf with a needle."]
    shown = run("class", "--branch", "main", "--branch", "old", "--heading").stdout
    assert shown.startswith("src/shelf.py [main, old]\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "no/such/place"], "'no/such/place' not found"),
        (["x", "https://me:hunter2@example.org/r.git"], "is a URL"),
        (["x", "--branch", "main"], "is not a git repository"),
        (["x", "notes.txt", "--branch", "main"], "is a file and has no branches"),
        (["x", "--json", "--jsonl"], "are mutually exclusive"),
        (["x", "-c", "-l"], "are mutually exclusive"),
        (["x", "--vimgrep", "--json"], "are mutually exclusive"),
        (["x", "-0"], "--null requires --files-with-matches"),
        (["x -(a or sym:b)", "--no-symbols"], "sym: requires symbols; omit --no-symbols"),
        (["x", "--max-files", "-1"], "-1"),
    ],
)
def test_an_error_is_one_line_with_exit_code_two(library: Path, words: list[str], message: str) -> None:
    answer = run(*words)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert message in answer.stderr
    assert "hunter2" not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_wrong_query_is_pointed_at(library: Path) -> None:
    answer = run("shelf (a|b", "src")
    assert answer.exit_code == 2
    error, text, caret = answer.stderr.splitlines()
    assert error.startswith("error: ")
    assert text == "  shelf (a|b"
    assert caret.index("^") == text.index("(")


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_errors_for_machines_are_objects(library: Path, form: str) -> None:
    answer = run(form, "x", "no/such/place")
    assert answer.exit_code == 2
    assert json.loads(answer.stderr)["error"]["kind"] == "NotFound"
    assert json.loads(run(form, "(((").stderr)["error"]["kind"] == "QuerySyntaxError"


def test_hostile_names_and_lines_are_escaped(library: Path) -> None:
    written(library, {"evil\x1b[2J\nname.txt": b"needle \x1b]0;title\x07 \xff end\n"})
    for words in (["needle"], ["needle", "--heading"], ["needle", "--vimgrep"], ["-c", "needle"], ["-l", "needle"]):
        answer = run(*words)
        assert answer.exit_code == 0
        assert [byte for byte in answer.stdout_bytes if byte < 32 and byte != 10] == []
        assert r"evil\x1b[2J\nname.txt" in answer.stdout
    document = json.loads(run("--json", "needle").stdout)["files"][0]
    assert document["path"] == "evil\x1b[2J\nname.txt"


@contextmanager
def powerless() -> Iterator[None]:
    """Drops to an unprivileged user if the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(UNPRIVILEGED_UID)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_cannot_be_read_is_counted_and_the_rest_is_searched() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        root = written(Path(name), {"closed.txt": "needle", "shut.txt": "needle", "open.txt": "needle"})
        root.chmod(0o755)
        (root / "closed.txt").chmod(0)
        (root / "shut.txt").chmod(0)
        with powerless():
            answer, nothing = run("needle", name), run("nowhere", name)
    assert (answer.exit_code, answer.stdout) == (0, f"{name}/open.txt:1:needle\n")
    warning = f"warning: 2 files could not be read, such as {name}/"
    assert answer.stderr in {f"{warning}closed.txt\n", f"{warning}shut.txt\n"}
    assert nothing.exit_code == 2  # it may be in one of them


def test_characters_the_terminal_cannot_encode_are_escaped(library: Path) -> None:
    written(library, {"umlaut.txt": "needle ä ✓"})
    runner = CliRunner(charset="ascii")
    assert runner.invoke(cli, ["search", "needle"]).stdout == "umlaut.txt:1:needle \\xe4 \\u2713\n"


@pytest.mark.parametrize(
    ("closed", "code", "document"),
    [(1, 2, "error: cannot write to stdout: it is closed\n"), (2, 0, "")],
)
def test_a_closed_stream_is_no_defect(library: Path, closed: int, code: int, document: str) -> None:
    command = [sys.executable, "-m", "argosy.cli", "search", "-l", "place"]
    answer = subprocess.run(["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (code, document)
    assert answer.stdout == ("notes.txt\n" if code == 0 else "")


@pytest.mark.parametrize(("module", "package"), [("numba", "numba"), ("numpy", "numpy"), ("re2", "google-re2")])
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(module: str, package: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from argosy.cli import main; main()"
    answer = subprocess.run([sys.executable, "-c", code, "search", "x"], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stderr == (f"error: search needs the package {package}, which is not installed: run `make setup`\n")


def test_help_loads_no_engine() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom argosy.cli.root import cli\n"
        "assert CliRunner().invoke(cli, ['search', '--help']).exit_code == 0\n"
        "print(*({'numba', 'numpy', 're2', 'rich', 'msgspec'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


def test_an_invalid_query_is_reported_before_any_kernel_is_loaded() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom argosy.cli.root import cli\n"
        "assert CliRunner().invoke(cli, ['search', '[z-a]']).exit_code == 2\n"
        "print(*({'numba', 'numpy'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
