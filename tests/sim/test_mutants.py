"""Mutation tests of the simulator: each patch in `mutants` plants one bug, and a chaos run must report its invariant.

A patch is applied to a copy of the source, and a separate interpreter runs the simulator of that copy.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import argosy

MUTANTS = sorted((Path(__file__).parent / "mutants").glob("*.patch"))
SEEDS_MAX = 150  # most bugs are caught within a few seeds; "Seed:" in a patch sets the first one

RUN_SEEDS = """
import sys
from importlib import import_module

invariant, world, first, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
judge_seed = import_module(world).judge_seed
for seed in range(first, first + seeds):
    found = [violation for violation in judge_seed(seed).violations if violation.invariant == invariant]
    if found:
        sys.exit(f"seed {seed}: {found[0]}")
"""


def _world(invariant: str) -> str:
    """The chaos module whose checkers report the invariant."""
    return "argosy.sim.jobs_chaos" if invariant.startswith("JOB-") else "argosy.sim.chaos"


def _expected(patch: Path) -> str:
    return _fields(patch, "Expected:")[0]


def _first_seed(patch: Path) -> int:
    return int([*_fields(patch, "Seed:"), "1"][0])


def _fields(patch: Path, heading: str) -> list[str]:
    return [line.split()[1] for line in patch.read_text().splitlines() if line.startswith(heading)]


def _delete_bytecode(source: Path, patch: Path) -> None:
    """Of the modules that the patch changes: a stale .pyc with the same time and size would hide the change."""
    changed = re.findall(r"^\+\+\+ b/src/argosy/(\S+)\.py$", patch.read_text(), re.MULTILINE)
    assert changed, patch.name
    for module in changed:
        for bytecode in (source / module).parent.glob(f"__pycache__/{Path(module).name}.*.pyc"):
            bytecode.unlink()


@pytest.mark.parametrize("patch", MUTANTS, ids=lambda patch: patch.stem)
def test_planted_bug_is_caught(patch: Path, tmp_path: Path) -> None:
    expected = _expected(patch)
    source = tmp_path / "src" / "argosy"
    # The copy includes the compiled kernels, which take a minute to build, but not files that are being written.
    shutil.copytree(Path(argosy.__file__).parent, source, ignore=shutil.ignore_patterns("*.pyc.*", "*.tmp.*"))
    _delete_bytecode(source, patch)
    applied = subprocess.run(["git", "apply", "-p1", "-C1", str(patch)], cwd=tmp_path, capture_output=True, text=True)
    assert applied.returncode == 0, f"the source has changed: update {patch.name}\n{applied.stderr}"
    run_seeds = subprocess.run(
        [sys.executable, "-c", RUN_SEEDS, expected, _world(expected), str(_first_seed(patch)), str(SEEDS_MAX)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert run_seeds.stderr.startswith("seed "), f"{patch.name} was not caught in {SEEDS_MAX} seeds: {run_seeds.stderr}"
    assert expected in run_seeds.stderr


def test_there_is_a_mutant_for_every_invariant() -> None:
    assert {_expected(patch) for patch in MUTANTS} >= {
        "OWN-1",
        "OWN-2",
        "OWN-3",
        "OWN-4",
        "OWN-5",
        "OWN-6",
        "NODE-1",
        "NODE-2",
        "LIVE",
        "JOB-1",
        "JOB-2",
        "JOB-3",
    }
