"""Quotas: the request to a limiter, the meaning of its answer, and the response to the client."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.throttle.limits import Algorithm, RateLimitResponse, Status
from argosy.throttle.middleware import admitters as headers
from argosy.throttle.middleware.admitters import Quota
from argosy.throttle.middleware.rules import AdmissionRequest
from tests.throttle.limits.stage import NOON_MS

ASKED = AdmissionRequest("c", 1.0)
TEN = Quota(10, 60.0)
LEAKY = Quota(10, 60.0, algorithm=Algorithm.LEAKY_BUCKET, burst=20)
OVER = RateLimitResponse(Status.OVER_LIMIT, 10, 0, NOON_MS + 30_500)


def test_a_limiter_gets_integer_hits() -> None:
    request = replace(TEN, name="q").request(AdmissionRequest(b"\xff", 1.2))
    assert (request.name, request.unique_key, request.hits, request.limit) == ("q", "\xff", 2, 10)
    assert (request.duration, request.algorithm, request.burst) == (60_000, 0, 0)


def test_an_admitted_client_gets_the_remaining_quota() -> None:
    verdict = TEN.evaluate(ASKED, RateLimitResponse(Status.UNDER_LIMIT, 10, 7, NOON_MS + 30_500), NOON_MS)
    assert verdict.retry_after_s is None
    assert verdict.headers == {
        "ratelimit-policy": '"requests";q=10;w=60',
        "ratelimit": '"requests";r=7;t=31',
    }


def test_a_rejected_client_gets_the_end_of_the_window() -> None:
    assert TEN.evaluate(ASKED, OVER, NOON_MS).retry_after_s == 30.5


def test_a_leaky_bucket_has_room_again_before_it_is_empty() -> None:
    assert LEAKY.evaluate(ASKED, OVER, NOON_MS).retry_after_s == 6.0, "ten a minute is one in six seconds"
    assert LEAKY.evaluate(AdmissionRequest("c", 3.0), OVER, NOON_MS).retry_after_s == 18.0
    assert LEAKY.evaluate(AdmissionRequest("c", 300.0), OVER, NOON_MS).retry_after_s == 60.0
    assert LEAKY.evaluate(ASKED, OVER, NOON_MS).headers["ratelimit-policy"] == '"requests";q=20;w=60'


@pytest.mark.parametrize(("skew_ms", "wait_s"), [(10**9, 1.0), (-(10**9), 60.0)])
def test_clock_skew_of_another_machine_does_not_distort_the_wait(skew_ms: int, wait_s: float) -> None:
    assert TEN.evaluate(ASKED, OVER, NOON_MS + skew_ms).retry_after_s == wait_s


def test_an_answer_that_is_an_error_is_no_answer() -> None:
    with pytest.raises(Unavailable, match="no owner"):
        TEN.evaluate(ASKED, RateLimitResponse(error="no owner"), NOON_MS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 2**53},
        {"burst": -1},
        {"window_s": 0.0},
        {"window_s": float("nan")},
        {"window_s": 1e12},
        {"name": ""},
        {"name": "größe"},
        {"name": "a\r\nx: y"},
        {"name": "x" * 65},
    ],
)
def test_inconsistent_arguments_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        replace(TEN, **wrong)


def test_header_fields_are_structured() -> None:
    assert headers.policy_item('a "b" \\', quota=5, window_s=0.2) == '"a \\"b\\" \\\\";q=5;w=1'
    assert headers.limit_item("x", remaining=-3, reset_s=-0.5) == '"x";r=0;t=0'
    assert headers.limit_item("x", remaining=2**60, reset_s=0) == '"x";r=999999999999999;t=0'
