"""`argosy bench`: a table for people, one JSON object for machines."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.base.errors import Unavailable
from argosy.bench import harness
from argosy.bench.harness import Bench, Figure
from argosy.cli.root import cli


async def fake(bench: Bench) -> None:
    """Measures a constant."""
    rate = Figure("fake.rate", "1/s", "higher", goal=100)
    await bench.measure(rate, run=lambda: 250.0, peers={"other": lambda: 50.0})


async def lonely(bench: Bench) -> None:
    """Has no peers."""
    await bench.measure(Figure("lonely.rate", "1/s", "higher"), run=lambda: 250.0)


async def missing(bench: Bench) -> None:
    """Cannot measure."""
    bench.record_error([Figure("missing.rate", "1/s", "higher")], Unavailable("no server"))


@pytest.fixture(autouse=True)
def _fake_benches(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {"fake": fake, "lonely": lonely, "missing": missing}
    monkeypatch.setattr(harness, "BENCHES", dict.fromkeys(functions, ""))
    monkeypatch.setattr(harness, "load_bench", functions.__getitem__)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *words])


def test_without_a_name_the_benchmarks_are_listed() -> None:
    assert "Measures a constant." in run().output
    listed = json.loads(run("--json").output)
    assert listed[0] == {"bench": "fake", "measures": "Measures a constant."}


def test_json_is_for_machines() -> None:
    document = json.loads(run("fake", "--json").output)
    assert (document["bench"], document["results"][0]["id"], document["results"][0]["ok"]) == (
        "fake",
        "fake.rate",
        True,
    )


def test_the_table_is_for_people() -> None:
    answer = run("fake")
    assert answer.exit_code == 0
    assert "other 50.0 (5x)" in answer.output
    assert ">= 100" in answer.output


def test_the_result_is_written_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    assert run("fake", "--out", str(out)).exit_code == 0
    assert json.loads(out.read_text())["bench"] == "fake"


def test_peers_are_plotted(tmp_path: Path) -> None:
    drawing = tmp_path / "bench.svg"
    assert run("fake", "--plot", str(drawing)).exit_code == 0
    assert "<title>other: 5×</title>" in drawing.read_text()


def test_without_peers_plotting_is_an_error_after_the_table(tmp_path: Path) -> None:
    answer = run("lonely", "--plot", str(tmp_path / "bench.svg"))
    assert answer.exit_code == 2
    assert "lonely.rate" in answer.output
    assert "has a peer to plot; omit --plot" in answer.stderr
    assert not (tmp_path / "bench.svg").exists()


def test_a_failed_measurement_is_a_failure() -> None:
    answer = run("missing")
    assert answer.exit_code == 1
    assert "no server" in answer.output


def test_sigterm_stops_the_servers_of_a_benchmark() -> None:
    answer = subprocess.run([sys.executable, "-c", STOPPED_MIDWAY], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(answer.stdout), 0)


STOPPED_MIDWAY = """
import asyncio, os, signal, sys
from argosy.bench import harness
from argosy.base.backends.servers import Valkey
from argosy.cli import main

async def stopped(bench):
    with Valkey() as server:
        print(server.pid, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

harness.load_bench = lambda name: stopped
sys.argv = ["argosy", "bench", "stopped"]
main()
"""


def test_a_selection_without_figures_is_an_error() -> None:
    answer = run("fake", "--only", "no-such-figure")
    assert answer.exit_code == 2
    assert "no measurement of fake matches 'no-such-figure'" in answer.stderr
