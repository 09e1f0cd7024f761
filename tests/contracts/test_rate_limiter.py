"""The contract of RateLimiter, run on every implementation: in memory, in a file, on a real Valkey and on a cluster of
them, and our own clients talking to our own servers over HTTP and gRPC. The numbers are those of Gubernator's
arithmetic (facts in `buckets`).

All of them run on one clock that the test moves, so the answers are exact.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.base.errors import Invalid
from argosy.throttle.limits import BATCH_MAX, Behavior, RateLimiter, RateLimitRequest, RateLimitResponse, Status
from argosy.throttle.limits.model import BATCH_TOO_LARGE, KEY_LENGTH_MAX, NO_NAME, NO_UNIQUE_KEY, NUMBER_MAX
from tests.servers.valkey_groups import cluster, cluster_url
from tests.throttle.limits.stage import (
    NOON_MS,
    OVER,
    UNDER,
    HandClock,
    as_record,
    figures,
    from_record,
    in_a_file,
    in_memory,
    in_redis,
    leaky,
    over_grpc,
    over_http,
    recorded,
    request,
)

KINDS = ("memory", "file", "valkey", "sentinel", "cluster", "http", "grpc")
CALLERS = 50
GREGORIAN = Behavior.DURATION_IS_GREGORIAN
RESET = Behavior.RESET_REMAINING
DRAIN = Behavior.DRAIN_OVER_LIMIT


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="session")
def limits_cluster() -> Iterator[str]:
    with cluster() as nodes:
        yield cluster_url(nodes)


@pytest.fixture(params=KINDS)
async def limiter(request: pytest.FixtureRequest, clock: HandClock, tmp_path: Path) -> AsyncIterator[RateLimiter]:
    match request.param:
        case "memory":
            opening = in_memory(clock)
        case "file":
            opening = in_a_file(clock, tmp_path / "limits.db")
        case "valkey":
            opening = in_redis(clock, request.getfixturevalue("valkey_server").url)
        case "sentinel":
            opening = in_redis(clock, request.getfixturevalue("sentinel_server").url)
        case "cluster":
            opening = in_redis(clock, request.getfixturevalue("limits_cluster"))
        case "http":
            opening = over_http(clock)
        case _:
            opening = over_grpc(clock)
    async with opening as open_limiter:
        yield open_limiter


async def check_one(limiter: RateLimiter, rate_request: RateLimitRequest) -> RateLimitResponse:
    (answer,) = await limiter.check([rate_request])
    return answer


async def check(limiter: RateLimiter, rate_request: RateLimitRequest) -> tuple[int, int, int, int]:
    return figures(await check_one(limiter, rate_request))


# -- token bucket -----------------------------------------------------------------------------------------------------


async def test_tokens_are_taken_until_none_is_left(limiter: RateLimiter) -> None:
    end = NOON_MS + 1000
    assert await check(limiter, request(6)) == (UNDER, 10, 4, end)
    assert await check(limiter, request(4)) == (UNDER, 10, 0, end)
    assert await check(limiter, request(1)) == (OVER, 10, 0, end)


async def test_a_window_starts_with_the_first_hit_and_ends_after_its_last_millisecond(
    limiter: RateLimiter, clock: HandClock
) -> None:
    await check(limiter, request(10))
    clock.ms = NOON_MS + 1000
    assert await check(limiter, request(1)) == (OVER, 10, 0, NOON_MS + 1000)
    clock.ms = NOON_MS + 1001
    assert await check(limiter, request(1)) == (UNDER, 10, 9, NOON_MS + 2001)


async def test_zero_hits_consume_nothing(limiter: RateLimiter) -> None:
    assert await check(limiter, request(0)) == (UNDER, 10, 10, NOON_MS + 1000)
    assert await check(limiter, request(3)) == (UNDER, 10, 7, NOON_MS + 1000)
    assert await check(limiter, request(0)) == (UNDER, 10, 7, NOON_MS + 1000)


async def test_too_many_hits_at_once_are_rejected_and_consume_nothing(limiter: RateLimiter) -> None:
    assert await check(limiter, request(11)) == (OVER, 10, 10, NOON_MS + 1000)
    assert await check(limiter, request(8)) == (UNDER, 10, 2, NOON_MS + 1000)
    assert await check(limiter, request(3)) == (OVER, 10, 2, NOON_MS + 1000)
    assert await check(limiter, request(2)) == (UNDER, 10, 0, NOON_MS + 1000)


async def test_a_rejected_request_with_drain_consumes_the_rest(limiter: RateLimiter) -> None:
    await check(limiter, request(7))
    assert await check(limiter, request(5, behavior=DRAIN)) == (OVER, 10, 0, NOON_MS + 1000)
    assert await check(limiter, request(0)) == (UNDER, 10, 0, NOON_MS + 1000)
    assert await check(limiter, request(1)) == (OVER, 10, 0, NOON_MS + 1000)


async def test_an_empty_bucket_stays_over_its_limit_even_if_that_is_raised(limiter: RateLimiter) -> None:
    await check(limiter, request(10))
    await check(limiter, request(1))
    assert await check(limiter, request(0, limit=20)) == (OVER, 20, 10, NOON_MS + 1000)
    assert await check(limiter, request(4, limit=20)) == (OVER, 20, 6, NOON_MS + 1000)


async def test_a_new_limit_shifts_the_remainder_but_not_below_zero(limiter: RateLimiter) -> None:
    await check(limiter, request(4))
    assert await check(limiter, request(0, limit=15)) == (UNDER, 15, 11, NOON_MS + 1000)
    assert await check(limiter, request(0, limit=3)) == (UNDER, 3, 0, NOON_MS + 1000)
    assert await check(limiter, request(0, limit=10)) == (UNDER, 10, 7, NOON_MS + 1000)


async def test_a_new_duration_shifts_the_end_relative_to_the_window_start(
    limiter: RateLimiter, clock: HandClock
) -> None:
    await check(limiter, request(4))
    clock.ms += 300
    assert await check(limiter, request(1, duration=5000)) == (UNDER, 10, 5, NOON_MS + 5000)
    assert await check(limiter, request(1, duration=400)) == (UNDER, 10, 4, NOON_MS + 400)


async def test_a_duration_that_has_already_passed_renews_the_bucket_after_this_request(
    limiter: RateLimiter, clock: HandClock
) -> None:
    await check(limiter, request(4))
    clock.ms += 300
    assert await check(limiter, request(0, duration=200)) == (UNDER, 10, 6, NOON_MS + 500)
    assert await check(limiter, request(1, duration=200)) == (UNDER, 10, 9, NOON_MS + 500)


async def test_an_empty_bucket_rejects_the_request_that_renews_it(limiter: RateLimiter, clock: HandClock) -> None:
    await check(limiter, request(10))
    clock.ms += 300
    assert await check(limiter, request(1, duration=200)) == (OVER, 10, 0, NOON_MS + 500)
    assert await check(limiter, request(1, duration=200)) == (OVER, 10, 9, NOON_MS + 500)


async def test_a_reset_deletes_the_bucket_and_does_not_count_its_own_hits(
    limiter: RateLimiter, clock: HandClock
) -> None:
    await check(limiter, request(10))
    clock.ms += 400
    assert await check(limiter, request(5, behavior=RESET)) == (UNDER, 10, 10, 0)
    assert await check(limiter, request(1)) == (UNDER, 10, 9, NOON_MS + 1400)


async def test_a_reset_of_a_missing_bucket_is_an_ordinary_first_request(limiter: RateLimiter) -> None:
    assert await check(limiter, request(5, behavior=RESET)) == (UNDER, 10, 5, NOON_MS + 1000)


async def test_negative_hits_return_tokens_and_may_exceed_the_limit(limiter: RateLimiter) -> None:
    await check(limiter, request(2))
    assert await check(limiter, request(-5)) == (UNDER, 10, 13, NOON_MS + 1000)
    assert await check(limiter, request(13)) == (UNDER, 10, 0, NOON_MS + 1000)
    assert await check(limiter, request(-1)) == (UNDER, 10, 1, NOON_MS + 1000)


async def test_returned_tokens_are_bounded(limiter: RateLimiter) -> None:
    for _ in range(3):
        await check(limiter, request(-NUMBER_MAX))
    assert (await check(limiter, request(-1)))[2] == 2 * NUMBER_MAX


async def test_a_limit_of_zero_rejects_everything(limiter: RateLimiter) -> None:
    assert await check(limiter, request(1, limit=0)) == (OVER, 0, 0, NOON_MS + 1000)
    assert await check(limiter, request(0, limit=0)) == (UNDER, 0, 0, NOON_MS + 1000)


async def test_changing_the_algorithm_starts_a_new_bucket(limiter: RateLimiter) -> None:
    await check(limiter, request(9))
    assert await check(limiter, leaky(1)) == (UNDER, 10, 9, NOON_MS + 100)
    assert await check(limiter, request(2)) == (UNDER, 10, 8, NOON_MS + 1000)


# -- leaky bucket -----------------------------------------------------------------------------------------------------


async def test_capacity_returns_at_the_rate_of_the_limit(limiter: RateLimiter, clock: HandClock) -> None:
    assert await check(limiter, leaky(10)) == (UNDER, 10, 0, NOON_MS + 1000)
    assert await check(limiter, leaky(1)) == (OVER, 10, 0, NOON_MS + 1000)
    clock.ms += 99
    assert await check(limiter, leaky(1)) == (OVER, 10, 0, NOON_MS + 1099)
    clock.ms += 1
    assert await check(limiter, leaky(1)) == (UNDER, 10, 0, NOON_MS + 1100)
    clock.ms += 250
    assert await check(limiter, leaky(1)) == (UNDER, 10, 1, NOON_MS + 1250)


async def test_half_a_hit_that_has_leaked_is_not_lost(limiter: RateLimiter, clock: HandClock) -> None:
    await check(limiter, leaky(10))
    clock.ms += 250
    assert (await check(limiter, leaky(1)))[2] == 1
    clock.ms += 150
    assert (await check(limiter, leaky(0)))[2] == 3  # 1.5 + 1.5


async def test_consuming_all_whole_hits_consumes_the_half_too(limiter: RateLimiter, clock: HandClock) -> None:
    await check(limiter, leaky(10))
    clock.ms += 250
    assert (await check(limiter, leaky(2)))[2] == 0  # of 2.5
    clock.ms += 150
    assert (await check(limiter, leaky(0)))[2] == 1  # 1.5


async def test_half_a_hit_above_the_burst_is_not_lost(limiter: RateLimiter, clock: HandClock) -> None:
    await check(limiter, leaky(10))
    clock.ms += 950
    assert (await check(limiter, leaky(1)))[2] == 8  # 8.5
    clock.ms += 200
    assert (await check(limiter, leaky(9)))[2] == 1  # 10.5 - 9
    clock.ms += 150
    assert (await check(limiter, leaky(0)))[2] == 3  # 1.5 + 1.5


async def test_a_bucket_never_holds_more_than_its_burst(limiter: RateLimiter, clock: HandClock) -> None:
    assert await check(limiter, leaky(15, burst=20)) == (UNDER, 10, 5, NOON_MS + 500)
    clock.ms += 990
    assert await check(limiter, leaky(0, burst=20)) == (UNDER, 10, 14, NOON_MS + 590)
    await check(limiter, leaky(-15, burst=20))
    assert (await check(limiter, leaky(0, burst=20)))[2] == 20


async def test_more_than_the_burst_at_once_empties_a_new_bucket(limiter: RateLimiter) -> None:
    assert await check(limiter, leaky(21, burst=20)) == (OVER, 10, 0, NOON_MS + 1000)
    assert await check(limiter, leaky(1, burst=20)) == (OVER, 10, 0, NOON_MS + 1000)


async def test_more_hits_than_remain_are_rejected_and_consume_nothing_without_drain(limiter: RateLimiter) -> None:
    await check(limiter, leaky(7))
    assert await check(limiter, leaky(4)) == (OVER, 10, 3, NOON_MS + 700)
    assert await check(limiter, leaky(4, behavior=DRAIN)) == (OVER, 10, 0, NOON_MS + 700)
    assert await check(limiter, leaky(0)) == (UNDER, 10, 0, NOON_MS + 1000)


async def test_a_reset_fills_a_leaky_bucket_and_counts_its_own_hits(limiter: RateLimiter) -> None:
    await check(limiter, leaky(10))
    assert await check(limiter, leaky(3, behavior=RESET)) == (UNDER, 10, 7, NOON_MS + 300)


async def test_a_larger_burst_fills_the_bucket_and_a_smaller_one_caps_it(limiter: RateLimiter) -> None:
    await check(limiter, leaky(8))
    assert await check(limiter, leaky(0, burst=30)) == (UNDER, 10, 30, NOON_MS - 2000)
    assert await check(limiter, leaky(0, burst=6)) == (UNDER, 10, 6, NOON_MS + 400)


async def test_a_new_limit_changes_the_rate_from_then_on(limiter: RateLimiter, clock: HandClock) -> None:
    await check(limiter, leaky(10, burst=10))
    clock.ms += 100
    assert await check(limiter, leaky(0, limit=50, burst=10)) == (UNDER, 50, 5, NOON_MS + 1000)


async def test_only_hits_keep_a_leaky_bucket_alive(limiter: RateLimiter, clock: HandClock) -> None:
    await check(limiter, leaky(10, limit=10, duration=1000, burst=30))
    clock.ms += 600
    await check(limiter, leaky(0, burst=30))
    clock.ms = NOON_MS + 1001
    assert await check(limiter, leaky(1, burst=30)) == (UNDER, 10, 29, NOON_MS + 1001 - 1900)


async def test_a_leaky_limit_of_zero_never_leaks(limiter: RateLimiter, clock: HandClock) -> None:
    assert (await check(limiter, leaky(2, limit=0, burst=3)))[:3] == (UNDER, 0, 1)
    clock.ms += 900
    assert (await check(limiter, leaky(1, limit=0, burst=3)))[:3] == (UNDER, 0, 0)
    assert (await check(limiter, leaky(1, limit=0, burst=3)))[:3] == (OVER, 0, 0)


# -- calendar ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "end_ms"),
    [
        (0, NOON_MS + 59_999),
        (1, NOON_MS + 3_599_999),
        (2, NOON_MS + 12 * 3_600_000 - 1),
        (4, 1_701_388_799_999),  # 30 November, 23:59:59.999
        (5, 1_704_067_199_999),  # 31 December, 23:59:59.999
    ],
)
async def test_a_calendar_window_ends_with_its_last_millisecond(
    limiter: RateLimiter, clock: HandClock, duration: int, end_ms: int
) -> None:
    rate_request = request(1, duration=duration, behavior=GREGORIAN)
    assert await check(limiter, rate_request) == (UNDER, 10, 9, end_ms)
    clock.ms = end_ms
    assert await check(limiter, rate_request) == (UNDER, 10, 8, end_ms)
    clock.ms = end_ms + 1
    assert (await check(limiter, rate_request))[2] == 9


async def test_a_calendar_bucket_leaks_at_the_rate_of_the_whole_interval(
    limiter: RateLimiter, clock: HandClock
) -> None:
    rate_request = leaky(60, limit=60, duration=0, behavior=GREGORIAN)
    assert await check(limiter, rate_request) == (UNDER, 60, 0, NOON_MS)  # a new bucket takes the 0 for a duration
    clock.ms += 5_000
    assert await check(limiter, leaky(1, limit=60, duration=0, behavior=GREGORIAN)) == (
        UNDER,
        60,
        4,
        NOON_MS + 5_000 + 56_000,
    )


async def test_a_calendar_bucket_of_an_old_request_ends_earlier_by_its_age(
    limiter: RateLimiter, clock: HandClock
) -> None:
    def rate_request(hits: int, created_at: int = 0) -> RateLimitRequest:
        return leaky(hits, limit=60, duration=0, behavior=GREGORIAN, created_at=created_at)

    clock.ms = NOON_MS + 10_000
    assert (await check(limiter, rate_request(60, NOON_MS - 5_000)))[:3] == (UNDER, 60, 0)
    clock.ms = NOON_MS + 20_000  # 39.999 s are left of the minute
    assert (await check(limiter, rate_request(30, NOON_MS - 5_000)))[:3] == (OVER, 60, 0)
    clock.ms = NOON_MS + 34_999
    assert (await check(limiter, rate_request(0)))[:3] == (UNDER, 60, 39)
    clock.ms = NOON_MS + 35_000
    assert (await check(limiter, rate_request(1)))[:3] == (UNDER, 60, 59)


@pytest.mark.parametrize("duration", [3, 6, -1, 60_000])
@pytest.mark.parametrize("algorithm", [0, 1])
async def test_a_duration_that_is_not_an_interval_is_an_error(
    limiter: RateLimiter, duration: int, algorithm: int
) -> None:
    answer = await check_one(limiter, request(1, duration=duration, behavior=GREGORIAN, algorithm=algorithm))
    assert (
        "week" in answer.error if duration == 3 else f"duration {duration} is not a gregorian interval" in answer.error
    )
    assert answer == RateLimitResponse(error=answer.error)


async def test_a_request_that_fails_for_its_interval_has_already_changed_the_limit(limiter: RateLimiter) -> None:
    await check(limiter, request(4))
    assert (await check_one(limiter, request(1, limit=20, duration=9, behavior=GREGORIAN))).error
    assert await check(limiter, request(0, limit=20)) == (UNDER, 20, 16, NOON_MS + 1000)


# -- created_at -------------------------------------------------------------------------------------------------------


async def test_a_request_with_created_at_counts_from_that_time(limiter: RateLimiter) -> None:
    created_at_ms = NOON_MS - 200
    assert await check(limiter, request(1, created_at=created_at_ms)) == (UNDER, 10, 9, created_at_ms + 1000)
    assert await check(limiter, leaky(1, key="leaky", created_at=created_at_ms)) == (UNDER, 10, 9, created_at_ms + 100)


async def test_a_bucket_expires_by_the_limiters_clock_despite_created_at(limiter: RateLimiter) -> None:
    await check(limiter, request(1))
    assert await check(limiter, request(1, created_at=NOON_MS + 5000)) == (UNDER, 10, 8, NOON_MS + 1000)
    assert await check(limiter, request(1, key="old", created_at=NOON_MS - 2000)) == (UNDER, 10, 9, NOON_MS - 1000)
    assert await check(limiter, request(1, key="old")) == (UNDER, 10, 9, NOON_MS + 1000)


async def test_a_leaky_bucket_does_not_leak_backwards(limiter: RateLimiter) -> None:
    await check(limiter, leaky(5))
    assert await check(limiter, leaky(1, created_at=NOON_MS - 700)) == (UNDER, 10, 4, NOON_MS - 100)


# -- wrong requests, and batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"key": ""}, NO_UNIQUE_KEY),
        ({"name": ""}, NO_NAME),
        ({"name": "", "key": ""}, NO_UNIQUE_KEY),
        ({"key": "k" * KEY_LENGTH_MAX}, f"name and unique_key too long: {KEY_LENGTH_MAX + 2} characters"),
        ({"algorithm": 2}, "unknown algorithm 2"),
        ({"hits": NUMBER_MAX + 1}, f"hits={NUMBER_MAX + 1}"),
        ({"limit": -NUMBER_MAX - 1}, f"limit={-NUMBER_MAX - 1}"),
        ({"duration": 2**63 - 1}, f"duration={2**63 - 1}"),
        ({"burst": -(2**63)}, f"burst={-(2**63)}"),
        ({"created_at": 2**62}, f"created_at={2**62}"),
    ],
)
async def test_an_invalid_request_gets_its_error_in_its_position(
    limiter: RateLimiter, wrong: dict[str, Any], error: str
) -> None:
    first, second, third = await limiter.check([request(1), request(**wrong), request(1)])
    assert error in second.error
    assert second == RateLimitResponse(error=second.error)
    assert (first.remaining, third.remaining) == (9, 8)


async def test_the_largest_numbers_are_accepted(limiter: RateLimiter) -> None:
    most = NUMBER_MAX
    rate_request = request(1, limit=most, duration=most, created_at=most)
    assert await check(limiter, rate_request) == (UNDER, most, most - 1, 2 * most)
    assert (await check(limiter, leaky(most, limit=most, duration=most, key="l", created_at=1)))[1:3] == (most, 0)


async def test_the_longest_key_is_accepted(limiter: RateLimiter) -> None:
    assert (await check(limiter, request(1, key="ü" * (KEY_LENGTH_MAX - 2))))[2] == 9


async def test_a_batch_is_answered_in_order_and_may_name_a_bucket_twice(limiter: RateLimiter) -> None:
    rate_request = [request(hits, key=key) for hits, key in [(1, "a"), (2, "b"), (3, "a"), (11, "c"), (0, "b")]]
    answers = await limiter.check(rate_request)
    assert {type(answer.status) for answer in answers} == {Status}
    assert [(answer.status, answer.remaining) for answer in answers] == [
        (UNDER, 9),
        (UNDER, 8),
        (UNDER, 6),
        (OVER, 10),
        (UNDER, 8),
    ]


async def test_a_batch_over_the_maximum_is_rejected(limiter: RateLimiter) -> None:
    rate_request = [request(1, limit=5000, key=str(number % 7)) for number in range(BATCH_MAX)]
    answers = await limiter.check(rate_request)
    assert [answer.remaining for answer in answers] == [4999 - number // 7 for number in range(BATCH_MAX)]
    with pytest.raises(Invalid, match="list too large; max size is '1000'") as raised:
        await limiter.check([*rate_request, request(1)])
    assert BATCH_TOO_LARGE in str(raised.value)


async def test_an_empty_batch_has_no_responses(limiter: RateLimiter) -> None:
    assert await limiter.check([]) == []


async def test_a_bucket_is_identified_by_name_and_key(limiter: RateLimiter) -> None:
    await check(limiter, request(1, name="a", key="b"))
    assert (await check(limiter, request(1, name="a", key="c")))[2] == 9
    assert (await check(limiter, request(1, name="x_y", key="z")))[2] == 9
    assert (await check(limiter, request(1, name="x", key="y_z")))[2] == 8


async def test_sharing_flags_have_no_effect(limiter: RateLimiter) -> None:
    flags = Behavior.NO_BATCHING | Behavior.GLOBAL | Behavior.MULTI_REGION
    assert await check(limiter, request(11, behavior=flags, metadata={"trace": "1"})) == (OVER, 10, 10, NOON_MS + 1000)


async def test_ping_succeeds_on_a_working_limiter(limiter: RateLimiter) -> None:
    assert await limiter.ping() is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("algorithm", [0, 1])
async def test_many_callers_at_once_never_get_more_than_the_limit(limiter: RateLimiter, algorithm: int) -> None:
    limit = 2 * CALLERS - 7

    async def call() -> int:
        answers = [await check_one(limiter, request(1, limit=limit, algorithm=algorithm)) for _ in range(4)]
        return sum(1 for answer in answers if answer.status == UNDER and not answer.error)

    passed = await asyncio.gather(*(call() for _ in range(CALLERS)))
    assert sum(passed) == limit


async def test_the_recorded_responses_are_reproduced(limiter: RateLimiter, clock: HandClock) -> None:
    for number, sequence in enumerate(recorded()):
        for rate_request, expected in sequence:
            clock.ms = rate_request[0]
            response = await check_one(limiter, from_record(rate_request, key=str(number)))
            assert as_record(response) == expected, (number, rate_request)
