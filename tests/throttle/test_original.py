"""With the Go original's random numbers, our arithmetic reproduces its published evaluation exactly."""

import pytest

from argosy.sim.throttle_load import SCENARIOS
from argosy.sim.throttle_reference import GoRandom, original_allocation


def test_the_dice_are_those_of_go() -> None:
    """The well-known output of a Go program that draws ten numbers below a hundred from seed 1."""
    dice = GoRandom(1)
    assert [dice.below(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_numbers_are_in_the_unit_interval_and_a_seed_of_zero_is_valid() -> None:
    dice = GoRandom(0)
    drawn = [dice.random() for _ in range(1000)]
    assert all(0.0 <= each < 1.0 for each in drawn)
    assert len(set(drawn)) == 1000
    assert 0 <= dice.uint32() < 1 << 32


@pytest.mark.parametrize(
    ("scenario", "preset", "served", "failed", "throttled", "jain", "utilisation"),
    [
        ("noisy", None, 30_097, 56_781, 0, 0.2184, 0.9999),
        ("noisy", "standard", 30_091, 4_471, 52_316, 0.6673, 0.9997),
        ("noisy", "strict", 29_883, 2_231, 54_764, 0.8498, 0.9928),
        ("flash", None, 36_298, 23_667, 0, 0.9871, 0.9999),
        ("flash", "standard", 36_287, 7_683, 15_995, 0.9778, 0.9996),
        ("surge", None, 39_697, 50_357, 0, 0.7497, 0.9164),
        ("surge", "standard", 38_725, 1_652, 49_677, 0.9944, 0.8939),
    ],
)
def test_the_published_counts_come_out_to_the_last_unit(
    scenario: str, preset: str | None, served: int, failed: int, throttled: int, jain: float, utilisation: float
) -> None:
    found = original_allocation(SCENARIOS[scenario], preset)
    assert (found.served, found.failed, found.throttled) == (served, failed, throttled)
    assert (round(found.entitlement_jain, 4), round(found.utilisation, 4)) == (jain, utilisation)
