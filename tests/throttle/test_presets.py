"""Presets: from an operator's figures to a throttle's parameters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.model import (
    RETRY_AFTER_S_MAX,
    RETRY_AFTER_S_MIN,
    levels_for,
    preset,
    retry_after_s,
    tune_config,
)

flows = st.integers(0, 200_000)
sizes = st.integers(200, 5000)


def test_the_defaults_are_those_of_the_original() -> None:
    config = tune_config()
    assert (config.levels, config.buckets) == (3, 1000)
    assert config.failure_step * 25 == 1
    assert config.success_step * 25 * 1000 == 1
    assert (config.decay_per_s, config.window_s) == (0.01, 300)


# Clients, buckets, and the levels that the original computes for them.
@pytest.mark.parametrize(
    ("clients", "buckets", "levels"),
    [
        (1000, 100, 3), (10_000, 256, 3), (10_000, 4096, 3), (100_000, 256, 9), (100_000, 1000, 4), (100_000, 4096, 3),
        (500_000, 256, 61), (500_000, 1000, 10), (500_000, 4096, 5), (1_000_000, 256, 457), (1_000_000, 1000, 21),
        (1_000_000, 4096, 7), (0, 1000, 3),
    ],
)  # fmt: skip
def test_levels_follow_from_clients_and_buckets(clients: int, buckets: int, levels: int) -> None:
    assert levels_for(clients, buckets) == levels


def test_levels_are_counted_from_one_bad_client_in_a_thousand_rounded_up() -> None:
    assert [levels_for(clients, 2) for clients in (1, 1000, 1001, 2000)] == [14, 14, 33, 33]


@given(clients=flows, buckets=sizes)
def test_there_are_enough_levels_and_not_one_more(clients: int, buckets: int) -> None:
    levels = levels_for(clients, buckets)
    collides = 1 - (1 - 1 / buckets) ** math.ceil(clients * 0.001)
    assert collides**levels <= 1e-4 * (1 + 1e-9) or levels == 3
    assert levels == 3 or collides ** (levels - 1) > 1e-4


@given(clients=flows, more=flows, buckets=sizes)
def test_more_clients_never_need_fewer_levels(clients: int, more: int, buckets: int) -> None:
    assert levels_for(clients + more, buckets) >= levels_for(clients, buckets)


@given(clients=flows, buckets=sizes, more=sizes)
def test_more_buckets_never_need_more_levels(clients: int, buckets: int, more: int) -> None:
    assert levels_for(clients, buckets + more) <= levels_for(clients, buckets)


@given(tolerable=st.integers(2, 10_000))
def test_steps_are_inverse_to_patience(tolerable: int) -> None:
    config = tune_config(tolerable_failures=tolerable)
    assert config.failure_step == 1 / tolerable
    assert config.success_step == pytest.approx(config.failure_step / 1000)


def test_explicit_fields_override_the_preset() -> None:
    config = tune_config(500, buckets=200, levels=1, decay_per_s=0.5)
    assert (config.levels, config.buckets, config.decay_per_s) == (1, 200, 0.5)


@pytest.mark.parametrize(
    ("clients", "buckets", "tolerable", "complaint"),
    [
        (-1, 1000, 25, "expected clients"),
        (1000, 1, 25, "at least 2 buckets"),
        (1000, 0, 25, "at least 2 buckets"),
        (1000, 1000, 1, "tolerable_failures"),
        (1000, 1000, 0, "tolerable_failures"),
        (1_000_000, 256, 25, "use more buckets"),
        (10**9, 2, 25, "too few"),
    ],
)
def test_unreachable_targets_are_rejected(clients: int, buckets: int, tolerable: int, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        tune_config(clients, buckets=buckets, tolerable_failures=tolerable)


@pytest.mark.parametrize("probability", [0.0, 1.0, math.nan])
def test_the_allowed_error_is_between_zero_and_one(probability: float) -> None:
    with pytest.raises(Invalid, match="between 0 and 1"):
        levels_for(1000, 1000, blamed_in_error_max=probability)


def test_strict_forgives_at_rotation_only() -> None:
    assert preset("strict").decay_per_s == 0
    assert preset("standard") == tune_config()
    with pytest.raises(Invalid, match="standard, strict"):
        preset("lenient")


def test_the_retry_time_ends_when_the_chances_are_even() -> None:
    assert retry_after_s(0.5, 0.01) == RETRY_AFTER_S_MIN
    assert 0.8 * math.exp(-0.1 * retry_after_s(0.8, 0.1)) == pytest.approx(0.5)
    assert retry_after_s(1.0, 0.01) == RETRY_AFTER_S_MAX  # 69 s, were there no bound
    assert retry_after_s(0.9, 0.0) == RETRY_AFTER_S_MAX
    assert retry_after_s(0.51, 10.0) == RETRY_AFTER_S_MIN
