"""Planted bugs are caught: each patch in `mutants` breaks one rule, and chaos must find the invariant that it names.

A patch is applied to a copy of the source, and that copy is searched in an interpreter of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import argosy

MUTANTS = sorted((Path(__file__).parent / "mutants").glob("*.patch"))
SEEDS_MAX = 150             # most are caught by the first few

HUNT = """
import sys
from importlib import import_module

invariant, seeds = sys.argv[1], int(sys.argv[2])
judge_seed = import_module(sys.argv[3]).judge_seed
for seed in range(1, seeds + 1):
    found = [violation for violation in judge_seed(seed).violations if violation.invariant == invariant]
    if found:
        sys.exit(f"seed {seed}: {found[0]}")
"""


def _world(invariant: str) -> str:
    """Whose chaos looks for it."""
    return "argosy.sim.jobs_chaos" if invariant.startswith("JOB-") else "argosy.sim.chaos"


def _expected(patch: Path) -> str:
    return next(line.split()[1] for line in patch.read_text().splitlines() if line.startswith("Expected:"))


@pytest.mark.parametrize("patch", MUTANTS, ids=lambda patch: patch.stem)
def test_a_planted_bug_is_caught(patch: Path, tmp_path: Path) -> None:
    expected = _expected(patch)
    source = tmp_path / "src" / "argosy"
    # With the compiled kernels, which take a minute to make; bytecode might hide the patch.
    shutil.copytree(Path(argosy.__file__).parent, source, ignore=shutil.ignore_patterns("*.pyc"))
    applied = subprocess.run(["git", "apply", "-p1", str(patch)], cwd=tmp_path, capture_output=True, text=True)
    assert applied.returncode == 0, f"the source has changed: write {patch.name} anew\n{applied.stderr}"
    hunt = subprocess.run(
        [sys.executable, "-c", HUNT, expected, str(SEEDS_MAX), _world(expected)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert hunt.stderr.startswith("seed "), f"{patch.name} was not caught in {SEEDS_MAX} seeds: {hunt.stderr}"
    assert expected in hunt.stderr


def test_there_is_a_mutant_for_every_invariant() -> None:
    assert {_expected(patch) for patch in MUTANTS} >= {
        "OWN-1", "OWN-2", "OWN-3", "OWN-4", "OWN-5", "OWN-6", "NODE-1", "NODE-2", "LIVE",
        "JOB-1", "JOB-2", "JOB-3",
    }  # fmt: skip
