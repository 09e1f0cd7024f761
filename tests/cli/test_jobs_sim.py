"""`argosy sim jobs`: many worlds of job brokers, and an exit code when a job is lost, doubled or over its limit."""

import json

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli
from argosy.sim import jobs_chaos
from argosy.sim.chaos import ChaosReport, SeedViolations


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "jobs", *words])


def test_worlds_without_violations_end_well() -> None:
    answer = run("--seeds", "1", "--jobs", "1")
    assert answer.exit_code == 0, answer.output
    assert "1 seeds, no violations" in answer.output
    assert json.loads(run("--seeds", "1", "--jobs", "1", "--json").output)["violations"] == []


def test_a_violation_is_reported_with_its_seed_and_a_failing_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = "argosy sim jobs --first-seed 3 --seeds 1"
    broken = ChaosReport(1, 5, 0, (SeedViolations(3, ("JOB-1 at 2.000 s: t/j is lost",), replay),), None, "")
    monkeypatch.setattr(jobs_chaos, "run_jobs_chaos", lambda *_, **__: broken)
    answer = run()
    assert answer.exit_code == 1
    assert "t/j is lost" in answer.output
    assert replay in answer.output
