"""The search benchmark end to end on a small tree: every figure is measured, and absent peers are named."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from argosy.base.errors import Invalid
from argosy.bench import report
from argosy.bench.harness import Bench
from argosy.bench.search import figures, run
from argosy.bench.search.bench_query import KINDS
from argosy.bench.search.run import SearchSizes, search
from argosy.cli.root import cli
from tests.bench.search_tree import FILES, write_tree

TINY = SearchSizes(queries=2, identifiers=3, rounds=1, builds=1, cold_starts=1, cancellations=1, throughput_s=0.05)
PROGRAMS = ("git", "sh", "xargs")


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)


@pytest.fixture(autouse=True)
def _only_some_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH on which csearch and zoekt are not, whatever is installed. ripgrep comes with the environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree")


async def test_every_figure_is_measured_and_absent_peers_are_named(tree: Path) -> None:
    bench = Bench("search", is_quick=True, corpus=str(tree))
    await search(bench)
    measured = {result.figure.id for result in bench.results if result.value is not None}
    all_figures = [figures.COLD, figures.COLD_CPU, *run.corpus_figures()]
    wanted = {figure.id for figure in all_figures if not {"csearch", "zoekt"} & set(figure.id.split("."))}
    assert measured == wanted - {figures.CANCEL.id} | (measured & {figures.CANCEL.id})  # it may be too fast to stop
    assert [result.figure.id for result in bench.results if result.error] == []
    assert set(bench.results[-1].peers) <= {"rg", "git grep"}
    assert "csearch is absent: csearch is neither in this environment nor on PATH" in bench.notes
    assert "zoekt is absent: zoekt-index is neither in this environment nor on PATH" in bench.notes
    differing = next(result.value for result in bench.results if result.figure == figures.AGREEMENT)
    assert differing == 0, [note for note in bench.notes if "only" in note]
    check_details(report.with_background(report.to_json("search", {}, "c0ffee", bench.results), bench))


def check_details(results: dict[str, object]) -> None:
    """The documented details are there, and can be written as JSON."""
    assert set(results) == {"bench", "machine", "commit", "results", "notes", "details"}
    details = json.loads(json.dumps(results))["details"]
    expected = {"corpus", "peers", "memory", "queries", "agreement", "samples", "cancellations_ms"}
    assert set(details) == expected
    assert details["corpus"]["files"] == FILES + 1
    assert details["corpus"]["left_out"] == {"binary": 1}
    assert set(details["peers"]) == {"rg", "git grep", "csearch", "zoekt"}
    assert set(details["peers"]["zoekt"]) == {"absent"}
    assert {query["class"] for query in details["queries"]} == set(KINDS)
    sample = details["samples"][0]
    assert set(sample) == {"class", "query", "form", "argosy", "rg", "git grep"}
    assert set(sample["argosy"]) == set(sample["rg"]) == {"cpu_ms", "wall_ms"}


async def test_the_full_run_needs_a_corpus() -> None:
    with pytest.raises(Invalid, match="pass a large tree with --corpus PATH, or --quick"):
        await search(Bench("search", only="count."))


async def test_a_tree_without_text_is_rejected(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(Invalid, match="no text found in 'empty'"):
        await search(Bench("search", is_quick=True, only="memory", corpus=str(empty)))


def test_a_saved_result_contains_no_path_of_this_machine(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["bench", "search", "--quick", "--corpus", str(tree), "--queries", "1", "--only", "files.", "--save"]
    answer = CliRunner().invoke(cli, words)
    assert answer.exit_code == 0, answer.output
    text = (tmp_path / "bench" / "results" / "search-tree-quick.json").read_text()
    assert "zoekt is absent" in answer.output
    assert str(tmp_path) not in text
    (result,) = json.loads(text)["results"]
    assert result["command"] == "argosy bench search --quick --corpus tree --only files.differing_from_rg"


def test_only_the_search_benchmark_has_a_corpus() -> None:
    answer = CliRunner().invoke(cli, ["bench", "ownership", "--corpus", "."])
    assert answer.exit_code == 2
    assert "takes no --corpus" in answer.stderr


def test_goals() -> None:
    goals = {figure.id: figure.goal for figure in run.corpus_figures() if figure.goal is not None}
    assert (
        goals.items()
        >= {
            "build.index": 60,
            "build.index_symbols": 15,
            "memory.ratio": 1.4,
            "memory.accounting_error": 2,
            "cancel.overshoot": 20,
            "p95.identifier.count": 20,
            "p95.identifier.top": 20,
            "times.csearch.rare.cpu": 30,
            "times.csearch.zero.wall": 30,
            "times.csearch.identifier.cpu": 20,
            "times.csearch.regex.cpu": 5,
            "times.rg.rare.cpu": 100,
            "times.rg.zero.cpu": 100,
            "times.rg.identifier.cpu": 40,
            "least_times.rg.count.wall": 1,
            "least_times.rg.top.cpu": 1,
            "times.zoekt.common.wall": 1,
            "times.zoekt.build": 2,
        }.items()
    )
    assert figures.COLD.goal == 1.5
