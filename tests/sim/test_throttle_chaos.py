"""A hundred throttles with skewed clocks and partitions: THR-1 and THR-2 hold, and the checkers detect violations."""

import json

import pytest

from argosy.base.clock import seeded_random
from argosy.base.errors import Invalid
from argosy.sim import throttle_chaos
from argosy.sim.checkers.throttle import ThrottleChecker
from argosy.sim.throttle_chaos import ThrottleChaos, draw_faults, judge_seed, run_seed, run_throttle_chaos
from argosy.sim.throttle_world import ThrottleWorld
from argosy.sim.trace import ViolationLog
from argosy.throttle import Outcome, ThrottleSettings, rows
from argosy.throttle.model import Decision


@pytest.mark.parametrize("seed", [3, 7])
def test_a_hundred_instances_with_skew_and_partitions(seed: int) -> None:
    result = judge_seed(seed)
    assert result.violations == ()
    assert result.settled_after_s is not None


def test_over_many_seeds_nothing_is_violated() -> None:
    report = run_throttle_chaos(1, 20, instances=10)
    assert report.violations == ()
    assert (report.seeds, report.repeated) == (20, 2)


def test_a_seed_gives_the_same_run_again_and_another_does_not() -> None:
    assert run_seed(5, 5).fingerprint == run_seed(5, 5).fingerprint != run_seed(6, 5).fingerprint


def test_all_kinds_of_faults_are_drawn() -> None:
    kinds = {fault.kind for seed in range(30) for fault in draw_faults(seeded_random(seed))}
    assert kinds == {"down", "no_replies", "cut", "slow", "lose_data", "step"}


def test_load_is_heavy_enough_to_be_throttled_and_faults_are_felt() -> None:
    chaos = ThrottleChaos(7, 12)
    chaos.run()
    instances = chaos.world.instances
    assert sum(instance.throttle.stats().throttled for instance in instances) > 100
    assert sum(instance.storage.counters.errors for instance in instances) > 0
    assert any(instance.clock.skew_s for instance in instances)


@pytest.mark.parametrize(("seeds", "instances", "jobs"), [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1_000_000, 1)])
def test_invalid_parameters_are_rejected(seeds: int, instances: int, jobs: int) -> None:
    with pytest.raises(Invalid, match="throttle chaos needs 1 to"):
        run_throttle_chaos(1, seeds, instances=instances, jobs=jobs)


def test_an_error_is_a_violation_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int, instances: int) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(throttle_chaos, "run_seed", broken)
    report = json.loads(run_throttle_chaos(4, 1, instances=2).to_json())
    (violation,) = report["violations"]
    assert violation["violations"] == ["BUG at 0.000 s: ZeroDivisionError: a bug"]
    assert violation["replay"] == "argosy sim throttle --instances 2 --first-seed 4 --seeds 1"


# -- detected violations ----------------------------------------------------------------------------------------------


def watched(settings: ThrottleSettings | None = None) -> tuple[ThrottleWorld, ThrottleChecker, ViolationLog]:
    world = ThrottleWorld(settings=settings or ThrottleSettings(flush_s=0.25, poll_s=0.5))
    violations = ViolationLog(lambda: world.now)
    checker = ThrottleChecker(violations, world)
    for _ in range(2):
        world.add()
    return world, checker, violations


def messages(violations: ViolationLog) -> list[str]:
    return [f"{violation.invariant} {violation.message}" for violation in violations.entries]


def test_a_calm_world_has_no_findings() -> None:
    world, checker, violations = watched()
    with checker.request(world.instances[0]):
        world.instances[0].throttle.report("a", Outcome.FAILURE)
    world.advance(5.0)
    checker.check_buckets()
    assert checker.has_settled()
    checker.check_converged(had_outage=False)
    assert messages(violations) == []


def test_a_request_that_waits_for_the_store_breaks_thr_2() -> None:
    world, checker, violations = watched()
    with checker.request(world.instances[0]):
        world.advance(1.0)
    assert "THR-2 a request to i0 waits for the store" in messages(violations)
    assert messages(violations)[-1] == "THR-2 a request to i0 took 1.000 s"


def test_a_lock_held_during_an_exchange_breaks_thr_2() -> None:
    world, checker, violations = watched()
    with world.instances[1].throttle._lock:
        checker.on_exchange(world.instances[1])
    assert messages(violations) == ["THR-2 the throttle of i1 is locked during an exchange with the store"]


def test_a_decision_and_a_bucket_outside_the_bounds_break_thr_1() -> None:
    world, checker, violations = watched()
    throttle = world.instances[0].throttle
    throttle.report("a", Outcome.FAILURE)
    throttle._windows.main.existing_buckets()[0].probability = 1.5
    checker.on_decision(world.instances[0], Decision(throttled=True, probability=-0.1))
    checker.check_buckets()
    assert messages(violations)[0] == "THR-1 i0 decided with probability -0.1"
    assert "of i0 has value 1.5" in messages(violations)[1]


def test_instances_that_do_not_converge_break_thr_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a squash that keeps local state, state of other instances is never merged."""
    monkeypatch.setitem(rows._NAMED, "max", lambda local, fetched, outstanding: local)
    world, checker, violations = watched(ThrottleSettings(flush_s=0.25, poll_s=0.5, squash="max"))
    world.instances[0].throttle.report("a", Outcome.FAILURE)
    world.advance(6.0)
    assert checker.has_settled()
    checker.check_converged(had_outage=True)
    assert messages(violations)[0].startswith("THR-1 after 3 pulls instances still differ by 0.04")
