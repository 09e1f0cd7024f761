"""`argosy sim throttle`: many worlds, and an exit code when an invariant breaks."""

import json

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli
from argosy.sim import throttle_chaos
from argosy.sim.chaos import ChaosReport, SeedViolations


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "throttle", *words])


def test_worlds_without_violations_end_well() -> None:
    small = ("--seeds", "2", "--instances", "4", "--jobs", "1")
    answer = run(*small)
    assert answer.exit_code == 0, answer.output
    assert "2 seeds, no violations" in answer.output
    assert json.loads(run(*small, "--json").output)["violations"] == []


def test_a_violation_is_reported_with_its_seed_and_a_failing_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = "argosy sim throttle --instances 100 --first-seed 3 --seeds 1"
    broken = ChaosReport(1, 5, 0, (SeedViolations(3, ("THR-1: a bucket stands at 2",), replay),), None, "")
    monkeypatch.setattr(throttle_chaos, "run_throttle_chaos", lambda *_, **__: broken)
    answer = run()
    assert answer.exit_code == 1
    assert "THR-1: a bucket stands at 2" in answer.output
    assert replay in answer.output
