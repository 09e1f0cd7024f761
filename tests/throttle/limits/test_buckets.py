"""The arithmetic itself: against answers recorded from Go, and by properties of any sequence."""

import math
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.throttle.limits.buckets import (
    Bucket,
    BucketUpdate,
    LeakyBucket,
    TokenBucket,
    calendar_interval,
    decide,
    truncate,
    wrap_int64,
)
from argosy.throttle.limits.model import Behavior, RateLimitRequest
from tests.throttle.limits.stage import NOON_MS, OVER, UNDER, as_record, from_record, leaky, recorded, request


def decide_at(bucket: Bucket | None, limit_request: RateLimitRequest, now_ms: int = NOON_MS) -> BucketUpdate:
    is_calendar = limit_request.behavior & Behavior.DURATION_IS_GREGORIAN
    found = calendar_interval(limit_request.duration, now_ms, UTC) if is_calendar else None
    return decide(bucket, limit_request, now_ms=now_ms, interval=found)


def test_the_recorded_responses_are_reproduced() -> None:
    steps = 0
    for sequence in recorded():
        bucket: Bucket | None = None
        for limit_request, answered in sequence:
            bucket, response = decide_at(bucket, from_record(limit_request), limit_request[0])
            assert as_record(response) == answered, (limit_request, bucket)
            steps += 1
    assert steps > 1500


def test_the_recording_has_every_case() -> None:
    """The recorded steps cover every branch of the arithmetic."""
    steps = [step for sequence in recorded() for step in sequence]
    for algorithm in (0, 1):
        limit_request = [(a, b) for a, b in steps if a[4] == algorithm]
        assert {answer[0] for _, answer in limit_request} == {UNDER, OVER}
        assert {answer[4] for _, answer in limit_request} == {0, 1}
        for flag in (4, 8, 32):
            assert any(a[5] & flag for a, _ in limit_request)
        assert {True, False} == {a[7] != 0 for a, _ in limit_request}
        assert any(a[1] < 0 for a, _ in limit_request)
        assert any(a[2] <= 0 for a, _ in limit_request)
        assert any(a[6] != 0 for a, _ in limit_request)


def test_a_new_token_bucket_stores_its_limits() -> None:
    assert decide_at(None, request(3)).bucket == TokenBucket(10, 1000, 7, NOON_MS, NOON_MS + 1000, UNDER)


def test_a_new_leaky_bucket_stores_its_limits() -> None:
    assert decide_at(None, leaky(3, burst=20)).bucket == LeakyBucket(20, 17.0, NOON_MS, NOON_MS + 1000)


def test_a_bucket_is_never_changed_in_place() -> None:
    bucket = TokenBucket(10, 1000, 5, NOON_MS, NOON_MS + 1000)
    decide_at(bucket, request(5))
    assert bucket.remaining == 5


def test_a_leaked_fraction_stays_on_a_query_and_is_dropped_when_all_is_consumed() -> None:
    bucket = LeakyBucket(10, 2.5, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(3)).bucket == bucket
    taken = decide_at(bucket, leaky(2)).bucket
    assert taken == LeakyBucket(10, 0.0, NOON_MS, NOON_MS + 1000)


def test_querying_an_empty_leaky_bucket_drops_its_fraction() -> None:
    """Odd, and as upstream: no hits and no whole free hit are the same number, so the fraction is consumed."""
    bucket = LeakyBucket(10, 0.75, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(0)).bucket == LeakyBucket(10, 0.0, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(1, behavior=Behavior.DRAIN_OVER_LIMIT)).bucket == bucket


def test_a_fraction_above_the_burst_stays() -> None:
    bucket = LeakyBucket(10, 9.5, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(0), NOON_MS + 100).bucket == LeakyBucket(10, 10.5, NOON_MS + 100, NOON_MS + 1000)
    assert decide_at(bucket, leaky(0), NOON_MS + 200).bucket == LeakyBucket(10, 10.0, NOON_MS + 200, NOON_MS + 1000)


def test_a_new_burst_of_just_what_remains_leaves_the_fraction() -> None:
    bucket = LeakyBucket(10, 5.5, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(0, burst=5)).bucket == LeakyBucket(5, 5.5, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(0, burst=6)).bucket == LeakyBucket(6, 6.0, NOON_MS, NOON_MS + 1000)


def test_a_calendar_bucket_of_an_old_request_ends_earlier_by_its_age() -> None:
    limit_request = leaky(1, duration=0, behavior=Behavior.DURATION_IS_GREGORIAN, created_at=NOON_MS - 5000)
    first = decide_at(None, limit_request, NOON_MS + 10_000).bucket
    assert first == LeakyBucket(10, 9.0, NOON_MS - 5000, NOON_MS - 5000 + 49_999)
    second = decide_at(first, limit_request, NOON_MS + 20_000).bucket
    assert second == LeakyBucket(10, 8.0, NOON_MS - 5000, NOON_MS - 5000 + 39_999)


def test_time_too_short_for_one_hit_is_not_lost() -> None:
    bucket = LeakyBucket(10, 2.0, NOON_MS, NOON_MS + 1000)
    assert decide_at(bucket, leaky(0), NOON_MS + 99).bucket == bucket
    assert decide_at(bucket, leaky(0), NOON_MS + 150).bucket == LeakyBucket(10, 3.5, NOON_MS + 150, NOON_MS + 1000)


@pytest.mark.parametrize(
    ("number", "cut"),
    [
        (0.0, 0), (2.99, 2), (-2.99, -2), (2.0**53, 2**53), (-(2.0**63), -(2**63)),
        (2.0**63, -(2**63)), (1e300, -(2**63)), (math.inf, -(2**63)), (-math.inf, -(2**63)), (math.nan, -(2**63)),
    ],
)  # fmt: skip
def test_a_double_is_cut_as_go_cuts_it(number: float, cut: int) -> None:
    assert truncate(number) == cut


@pytest.mark.parametrize(
    ("number", "held"),
    [(5, 5), (-5, -5), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (-(2**63) - 1, 2**63 - 1), (2**64 + 3, 3)],
)
def test_an_integer_wraps_at_64_bits(number: int, held: int) -> None:
    assert wrap_int64(number) == held


@given(
    hits=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 400)), max_size=60),
    limit=st.integers(1, 20),
    algorithm=st.sampled_from([0, 1]),
)
def test_no_window_lets_more_through_than_its_algorithm_promises(
    hits: list[tuple[int, int]], limit: int, algorithm: int
) -> None:
    """At most the limit per token window; at most the burst, and what leaked since, from a leaky bucket."""
    bucket: Bucket | None = None
    now_ms, window_ms, passed, began = NOON_MS, 1000, 0, NOON_MS
    for wanted, pause in hits:
        now_ms += pause
        if bucket is None or bucket.expire_at < now_ms:
            passed, began = 0, now_ms
        bucket, response = decide_at(bucket, request(wanted, limit, window_ms, algorithm=algorithm), now_ms)
        passed += wanted if response.status == UNDER else 0
        leaked = (now_ms - began) * limit / window_ms if algorithm else 0
        assert passed <= limit + leaked + 1e-6
