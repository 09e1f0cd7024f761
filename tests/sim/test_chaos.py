"""`argosy sim chaos`: many worlds, no violations."""

import os
import subprocess
import sys

import msgspec
import pytest

from argosy.base.errors import Invalid
from argosy.sim import chaos
from argosy.sim.chaos import ChaosReport, SeedResult, draw_world, run_chaos, run_seed
from argosy.sim.trace import Violation

SEEDS = 20


def test_no_invariant_breaks_in_many_worlds_and_repeated_seeds_leave_the_same_trace() -> None:
    seen: list[float] = []
    report = run_chaos(1, SEEDS, jobs=2, progress=lambda fraction, text: seen.append(fraction))
    assert report.violations == ()
    assert report.is_clean
    assert report.repeated == SEEDS // chaos.REPEAT_EVERY
    assert seen == [i / SEEDS for i in range(1, SEEDS + 1)]
    assert msgspec.json.decode(report.to_json(), type=ChaosReport) == report


def test_the_number_of_jobs_changes_nothing() -> None:
    assert run_chaos(9, 2, jobs=1) == run_chaos(9, 2, jobs=2)


def test_a_seed_leaves_the_same_trace_whatever_the_hash_seed() -> None:
    program = "from argosy.sim.chaos import run_seed; print([run_seed(seed).fingerprint for seed in (1, 2, 3)])"
    outputs = set()
    for hash_seed in ("0", "99"):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_worlds_are_small_varied_and_have_both_kinds_of_spaces() -> None:
    worlds = [draw_world(seed) for seed in range(50)]
    assert {len(world.nodes) for world in worlds} == {3, 4, 5, 6}
    assert {space.settings.placement for world in worlds for space in world.spaces} == {"auction", "ring", "claim"}
    assert all(6 <= sum(len(space.specs) for space in world.spaces) <= 15 for world in worlds)
    assert len({world.faults for world in worlds}) == 50


def test_a_violation_is_reported_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Violation("OWN-1", 12.5, "two servers")
    monkeypatch.setattr(chaos, "run_seed", lambda seed: SeedResult(seed, (broken,) if seed == 8 else (), "f", 1.0))
    report = run_chaos(7, 3, jobs=1)
    assert [(v.seed, v.violations, v.replay) for v in report.violations] == [
        (8, ("OWN-1 at 12.500 s: two servers",), "argosy sim chaos --first-seed 8 --seeds 1")
    ]
    assert not report.is_clean


def test_a_seed_whose_traces_differ_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = iter("ab")
    monkeypatch.setattr(chaos, "run_seed", lambda seed: SeedResult(seed, (), next(traces), 1.0))
    (found,) = run_chaos(10, 1, jobs=1).violations
    assert found.violations[0].startswith("SAME")


def test_an_error_that_escapes_is_a_violation_and_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(seed: int) -> SeedResult:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(chaos, "run_seed", fail)
    found = [trouble.violations[0] for trouble in run_chaos(1, 2, jobs=1).violations]
    assert found == ["BUG at 0.000 s: ZeroDivisionError: oh"] * 2


def test_the_whole_trace_of_a_seed_can_be_returned() -> None:
    trace_tail = run_seed(1, keeps_trace=True).trace_tail
    assert any("ServingStarted" in line for line in trace_tail)
    assert any("AuctionClosed" in line for line in trace_tail)


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"jobs": 0}, {"first_seed": -1}])
def test_an_invalid_search_is_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid):
        run_chaos(**wrong)  # type: ignore[arg-type]
