"""Small wrong changes of the arithmetic are noticed: a test of the tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.throttle.mutants.catalogue import MUTANTS, Mutant
from tests.throttle.mutants.hunt import CONTROL

PARTS = 2  # hunted side by side
PASSED, FAILED = 0, 1  # what pytest says; anything else means that it could not even begin
HUNT_S_MAX = 280.0  # about 15 s on an idle machine
KILLED_MIN = 0.95
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, int]]:
    folder = tmp_path_factory.mktemp("mutants")
    command = [sys.executable, "-m", "tests.throttle.mutants.hunt"]
    hunts = [
        subprocess.Popen(
            [*command, str(folder / str(part)), str(part), str(PARTS)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for part in range(PARTS)
    ]
    try:
        return [json.loads(hunt.communicate(timeout=HUNT_S_MAX)[0]) for hunt in hunts]
    finally:
        for hunt in hunts:
            hunt.kill()
            hunt.wait()


def test_without_a_mutant_the_same_tests_pass(verdicts: list[dict[str, int]]) -> None:
    assert [found[CONTROL] for found in verdicts] == [PASSED] * PARTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_mutant_is_killed_or_has_an_excuse(mutant: Mutant, verdicts: list[dict[str, int]]) -> None:
    (verdict,) = [found[mutant.name] for found in verdicts if mutant.name in found]
    assert verdict == (PASSED if mutant.survives else FAILED)


def test_there_are_enough_mutants_and_few_survive() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(not mutant.survives for mutant in MUTANTS) / len(MUTANTS) >= KILLED_MIN
