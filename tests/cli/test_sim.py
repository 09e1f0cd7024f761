"""`argosy sim`: figures for operators, bytes that repeat, and an exit code when an invariant breaks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli
from argosy.sim import chaos
from argosy.sim.chaos import ChaosReport, SeedViolations

SMALL = ("fleet", "--repos", "10", "--nodes", "3", "--seed", "1", "--window", "5", "--ttl", "5")


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sim", *words])


def test_a_fleet_is_simulated_and_the_bytes_repeat() -> None:
    first, second = run(*SMALL, "--json"), run(*SMALL, "--json")
    assert first.exit_code == 0, first.stderr
    assert first.stdout_bytes == second.stdout_bytes
    report = json.loads(first.output)
    assert report["plan"]["repos"] == 10
    assert report["all_owned_s"] > 0


def test_the_statistics_are_printed_and_plotted(tmp_path: Path) -> None:
    plot = tmp_path / "fleet.svg"
    answer = run(*SMALL, "--plot", str(plot))
    assert answer.exit_code == 0, answer.stderr
    assert "all repositories owned after" in answer.output
    assert plot.read_text().startswith("<svg")


@pytest.mark.parametrize("words", [("--max-bids", "many"), ("--max-bids", "0"), ("--kill", "3"), ("--ttl", "0")])
def test_a_fleet_that_cannot_be_is_refused(words: tuple[str, str]) -> None:
    assert run(*SMALL, *words).exit_code == 2


def test_chaos_without_violations_ends_well() -> None:
    answer = run("chaos", "--seeds", "2", "--jobs", "1")
    assert answer.exit_code == 0, answer.output
    assert "2 seeds, no violations" in answer.output
    assert json.loads(run("chaos", "--seeds", "1", "--jobs", "1", "--json").output)["violations"] == []


def test_chaos_runs_in_its_own_processes() -> None:
    command = [sys.executable, "-m", "argosy.cli", "sim", "chaos", "--seeds", "2", "--jobs", "2", "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["seeds"] == 2


def test_a_violation_is_reported_with_its_seed_and_a_failing_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = "argosy sim chaos --first-seed 3 --seeds 1"
    broken = ChaosReport(1, 5, 0, (SeedViolations(3, ("OWN-1: two serve alpha",), replay),), None, "")
    monkeypatch.setattr(chaos, "run_chaos", lambda *_, **__: broken)
    answer = run("chaos")
    assert answer.exit_code == 1
    assert "OWN-1: two serve alpha" in answer.output
    assert replay in answer.output
