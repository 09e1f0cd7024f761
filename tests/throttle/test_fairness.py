"""Fairness in the evaluator's scenarios, alone and shared; and why the document was not implemented literally."""

from dataclasses import replace
from random import Random

import pytest

from argosy.sim.throttle_eval import Setup, run_once
from argosy.sim.throttle_load import SCENARIOS, Allocation, NoThrottle, Request, Scenario, arrivals, play
from argosy.throttle import Config, Outcome
from argosy.throttle.settings import ThrottleSettings
from tests.throttle.literal import LiteralInstance, LiteralStore

INSTANCES = 8
SHARED = ThrottleSettings(flush_s=1.0, poll_s=2.0)
NOISY, FLASH, SURGE = SCENARIOS["noisy"], SCENARIOS["flash"], SCENARIOS["surge"]
# Shorter, because eight instances take eight times as long to simulate.
SHORT_NOISY = replace(NOISY, duration_s=120)
SHORT_SURGE = replace(
    SURGE, duration_s=180, classes=(SURGE.classes[0], replace(SURGE.classes[1], begins_s=30, ends_s=120))
)


def unthrottled(scenario: Scenario, seed: int) -> Allocation:
    return play(scenario, arrivals(scenario, seed), NoThrottle())


def throttled(
    scenario: Scenario, seed: int, preset: str = "standard", *, instances: int = 1, is_shared: bool = False
) -> Allocation:
    """Requests go to random instances, which share one resource, and optionally their state."""
    return run_once(scenario, arrivals(scenario, seed), Setup(preset, instances, is_shared), seed, settings=SHARED)


class LiteralFleet:
    """Instances that implement the document literally, each of which shares every `share_s`."""

    def __init__(self, seed: int, *, instances: int, share_s: float) -> None:
        self.store = LiteralStore()
        self._fleet = [LiteralInstance(Config(), self.store, Random(seed + number)) for number in range(instances)]
        self._shares_at = [number * share_s / instances for number in range(instances)]
        self._share_s = share_s
        self._routes = Random(seed)
        self._chosen = self._fleet[0]

    def admit(self, request: Request) -> bool:
        for number, instance in enumerate(self._fleet):
            while self._shares_at[number] <= request.at_s:
                instance.share(int(self._shares_at[number] * 1000))
                self._shares_at[number] += self._share_s
        self._chosen = self._routes.choice(self._fleet)
        return not self._chosen.register(request.client, int(request.at_s * 1000))

    def on_result(self, request: Request, is_served: bool) -> None:
        outcome = Outcome.SUCCESS if is_served else Outcome.FAILURE
        self._chosen.report(request.client, outcome, int(request.at_s * 1000))


def literal(scenario: Scenario, seed: int, *, instances: int, share_s: float) -> tuple[Allocation, LiteralStore]:
    fleet = LiteralFleet(seed, instances=instances, share_s=share_s)
    return play(scenario, arrivals(scenario, seed), fleet), fleet.store


# -- one instance -----------------------------------------------------------------------------------------------------


def test_noisy_neighbours_are_held_to_their_share() -> None:
    before, after = unthrottled(NOISY, 1), throttled(NOISY, 1)
    assert before.entitlement_jain == pytest.approx(0.217, abs=0.01)
    assert after.entitlement_jain == pytest.approx(0.66, abs=0.03)
    assert after.utilisation > 0.99
    assert after.failed < before.failed / 10


def test_the_strict_preset_is_fairer_still() -> None:
    strict = throttled(NOISY, 2, "strict")
    assert strict.entitlement_jain > 0.82
    assert strict.utilisation > 0.985


def test_a_surge_of_batch_work_does_not_drown_people() -> None:
    before, after = unthrottled(SURGE, 1), throttled(SURGE, 1)
    assert before.entitlement_jain < 0.8
    assert after.entitlement_jain > 0.99
    assert after.worst_ratio > before.worst_ratio


def test_with_equal_clients_it_has_little_effect() -> None:
    before, after = unthrottled(FLASH, 1), throttled(FLASH, 1)
    assert before.entitlement_jain - 0.02 < after.entitlement_jain < before.entitlement_jain


# -- many instances ---------------------------------------------------------------------------------------------------


def test_instances_that_share_are_as_fair_as_one_and_others_are_not() -> None:
    one = throttled(SHORT_NOISY, 3)
    alone = throttled(SHORT_NOISY, 3, instances=INSTANCES)
    shared = throttled(SHORT_NOISY, 3, instances=INSTANCES, is_shared=True)
    assert alone.entitlement_jain < 0.45
    assert shared.entitlement_jain > one.entitlement_jain - 0.02
    assert shared.utilisation > 0.99


# -- the literal document ---------------------------------------------------------------------------------------------


def test_the_letter_of_the_document_leaves_the_bounds() -> None:
    _, store = literal(SHORT_SURGE, 1, instances=INSTANCES, share_s=1.0)
    assert store.extremes[1] > 1.2


def test_the_letter_of_the_document_diverges_when_instances_share_less_often() -> None:
    """Each corrects the same overshoot, so with every round the error is multiplied by one less than their number."""
    figures, store = literal(SHORT_NOISY, 1, instances=INSTANCES, share_s=5.0)
    assert store.extremes[0] < -1e6
    assert store.extremes[1] > 1e6
    assert figures.entitlement_jain < 0.5


def test_the_literal_design_starves_innocent_clients_and_ours_does_not() -> None:
    by_the_letter, _ = literal(SHORT_SURGE, 1, instances=INSTANCES, share_s=1.0)
    ours = throttled(SHORT_SURGE, 1, instances=INSTANCES, is_shared=True)
    assert by_the_letter.worst_ratio < 0.4
    assert ours.worst_ratio > 0.6
    assert ours.entitlement_jain > by_the_letter.entitlement_jain
