"""A configuration is checked when it is created; the final probabilities."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.model import BUCKETS_MAX, LEVELS_MAX, Config, mean, smallest

vectors = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@pytest.mark.parametrize(
    "fields",
    [
        {"levels": 0}, {"levels": -1}, {"levels": LEVELS_MAX + 1}, {"levels": 1.5}, {"levels": True},
        {"buckets": 0}, {"buckets": BUCKETS_MAX}, {"levels": 64, "buckets": BUCKETS_MAX // 64 + 1},
        {"failure_step": 0.0}, {"failure_step": 1.0}, {"failure_step": -0.1}, {"failure_step": math.nan},
        {"success_step": 0.0}, {"success_step": -1e-9}, {"success_step": 1.5}, {"success_step": math.nan},
        {"failure_step": 0.01, "success_step": 0.01}, {"failure_step": 0.01, "success_step": 0.02},
        {"decay_per_s": -0.01}, {"decay_per_s": math.nan}, {"decay_per_s": math.inf},
        {"window_s": 0.0}, {"window_s": -1.0}, {"window_s": math.inf}, {"window_s": math.nan},
        {"admitted_min": -0.1}, {"admitted_min": 1.1}, {"final": None}, {"hashing": "sha1"}, {"secret": b""},
        {"clients_max": 1}, {"clients_max": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_configuration_is_refused_by_the_name_of_its_fault(fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        Config(**fields)
    assert any(name in str(refused.value) for name in fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"levels": 1, "buckets": 1}, {"levels": LEVELS_MAX}, {"failure_step": 0.999}, {"failure_step": 1e-9,
        "success_step": 1e-10}, {"decay_per_s": 0.0}, {"window_s": 0.1}, {"admitted_min": 0.0}, {"admitted_min": 1.0},
        {"clients_max": 2}, {"secret": b"x"},
    ],
    ids=str,
)  # fmt: skip
def test_values_at_the_limits_are_accepted(fields: dict[str, Any]) -> None:
    config = Config(**fields)
    assert {name: getattr(config, name) for name in fields} == fields


def test_the_secret_is_not_printed() -> None:
    assert "hush" not in repr(Config(secret=b"hush"))


@given(vectors)
def test_the_smallest_is_the_smallest(probabilities: list[float]) -> None:
    assert smallest(probabilities) == min(probabilities)
    assert smallest(probabilities[::-1]) == smallest(probabilities)


@given(vectors)
def test_the_mean_lies_between(probabilities: list[float]) -> None:
    assert min(probabilities) - 1e-12 <= mean(probabilities) <= max(probabilities) + 1e-12
    assert mean(probabilities) == pytest.approx(math.fsum(probabilities) / len(probabilities))


def test_exact_values() -> None:
    assert smallest([0.5, 0.25, 0.75]) == 0.25
    assert mean([0.5, 0.25, 0.75]) == 0.5


@pytest.mark.parametrize("function", [smallest, mean])
def test_no_levels_have_no_probability(function: Any) -> None:
    with pytest.raises(Invalid):
        function([])
