"""Which requests are invalid, and how a bucket is identified."""

import pytest

from argosy.throttle.limits.model import (
    KEY_LENGTH_MAX,
    NUMBER_MAX,
    Algorithm,
    Behavior,
    RateLimitRequest,
    Status,
    request_error,
)
from tests.throttle.limits.stage import request


def test_numbers_on_the_wire_are_those_of_gubernator() -> None:
    assert [(each.name, each.value) for each in Algorithm] == [("TOKEN_BUCKET", 0), ("LEAKY_BUCKET", 1)]
    assert [(each.name, each.value) for each in Status] == [("UNDER_LIMIT", 0), ("OVER_LIMIT", 1)]
    assert {name: int(flag) for name, flag in Behavior.__members__.items()} == {
        "BATCHING": 0,
        "NO_BATCHING": 1,
        "GLOBAL": 2,
        "DURATION_IS_GREGORIAN": 4,
        "RESET_REMAINING": 8,
        "MULTI_REGION": 16,
        "DRAIN_OVER_LIMIT": 32,
    }


def test_a_request_within_all_bounds_is_valid() -> None:
    longest = RateLimitRequest("n", "k" * (KEY_LENGTH_MAX - 2), NUMBER_MAX, -NUMBER_MAX, NUMBER_MAX, 1, 255, NUMBER_MAX)
    assert request_error(longest) == ""
    assert request_error(request(0, 0, 0)) == ""


def test_every_wrong_number_is_named() -> None:
    wrong = request_error(request(NUMBER_MAX + 1, burst=-NUMBER_MAX - 1))
    assert f"hits={NUMBER_MAX + 1}, burst={-NUMBER_MAX - 1}: numbers must be between" in wrong


@pytest.mark.parametrize("algorithm", [-1, 2, 7])
def test_an_unknown_algorithm_is_refused(algorithm: int) -> None:
    assert request_error(request(1, algorithm=algorithm)) == (
        f"unknown algorithm {algorithm}; use 0 (token bucket) or 1 (leaky bucket)"
    )


def test_the_key_of_a_bucket_joins_name_and_unique_key() -> None:
    assert request(1, name="sends", key="account:7").key == "sends_account:7"
