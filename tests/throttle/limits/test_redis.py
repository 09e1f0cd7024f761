"""The limiter on a real Valkey: equal to the one in memory, on the server's time, unavailable when the server is."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from argosy.base.clock import SystemClock
from argosy.base.errors import Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.limits.backends.redis import RedisLimiter, limit_script
from argosy.throttle.limits.backends.redis_keys import KEY_DOCS
from argosy.throttle.limits.backends.sqlite import decode_bucket
from argosy.throttle.limits.model import NUMBER_MAX, Behavior, RateLimitRequest
from argosy.throttle.limits.table import CHECKS, BucketTable
from tests.servers.valkey import Valkey, free_port
from tests.servers.valkey_groups import run_sentinel
from tests.throttle.limits.stage import (
    NOON_MS,
    OVER,
    PATIENCE_S,
    UNDER,
    HandClock,
    leaky,
    redis_limiter,
    request,
)

GREGORIAN = Behavior.DURATION_IS_GREGORIAN
COUNTS = st.integers(-6, 14) | st.sampled_from([10, 10, 10, 0, NUMBER_MAX, -NUMBER_MAX, 10**12 + 7])
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 2, 7, 50, 99, 100, 101, 333, 1000, 1001, 60_000]) | st.integers(0, 3000),
        st.builds(
            RateLimitRequest,
            name=st.just("n"),
            unique_key=st.sampled_from(["a", "a", "a", "b"]),
            hits=COUNTS,
            limit=COUNTS,
            duration=st.sampled_from([1000, 1000, 1000, 500, 100, 0, 1, 2, 3, 4, 5, 7, -10, 60_000, NUMBER_MAX]),
            algorithm=st.sampled_from([0, 1]),
            behavior=st.sampled_from([0, 0, 0, 4, 4, 8, 32, 36, 12, 44, 19]),
            burst=st.sampled_from([0, 0, 0, 5, 20, 3, -4, NUMBER_MAX]),
            created_at=st.sampled_from([0, 0, 0, NOON_MS, NOON_MS - 777, NOON_MS + 5000, 1, NUMBER_MAX, -NUMBER_MAX]),
        ),
    ),
    max_size=14,
)


@pytest.fixture
async def admin(limits_valkey: Valkey) -> AsyncIterator[Redis]:
    client: Redis = Redis.from_url(limits_valkey.url, decode_responses=True)
    yield client
    await client.aclose()


@pytest.fixture
async def limiter(limits_valkey: Valkey, namespace: str) -> AsyncIterator[RedisLimiter]:
    """On the server's own time."""
    opened = RedisLimiter(
        limits_valkey.url, clock=SystemClock(), namespace=namespace, call_timeout_s=PATIENCE_S, metrics=Metrics()
    )
    yield opened
    await opened.close()


@pytest.fixture
def namespace() -> str:
    return f"test-{secrets.token_hex(6)}"


class LimiterPair:
    """One event loop, one connection, and both limiters: what hypothesis calls again and again."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._clock = HandClock()
        self._example = 0
        self._runner.run(self._open(url))

    async def _open(self, url: str) -> None:
        self._limiter = redis_limiter(url, self._clock, namespace="twins")
        self._admin: Redis = Redis.from_url(url, decode_responses=True)

    def differences(self, steps: list[tuple[int, RateLimitRequest]]) -> list[Any]:
        return self._runner.run(self._differences(steps))

    async def _differences(self, steps: list[tuple[int, RateLimitRequest]]) -> list[Any]:
        """Every answer and bucket that differs, on keys of this example only."""
        self._clock.ms, self._example = NOON_MS, self._example + 1
        table, found = BucketTable(), []
        for pause, drawn in steps:
            self._clock.ms += pause
            sent = replace(drawn, unique_key=f"{self._example}-{drawn.unique_key}")
            given, wanted = await self._limiter.check([sent]), table.answer([sent], self._clock.ms)
            if given != wanted:
                found.append((sent, given, wanted))
        for key, bucket in table._buckets.items():
            line = await self._admin.get(f"twins:limit:{key}")
            if bucket.expire_at >= self._clock.ms and (line is None or decode_bucket(line) != bucket):
                found.append((key, line, bucket))
        return found

    def close(self) -> None:
        self._runner.run(self._limiter.close())
        self._runner.run(self._admin.aclose())
        self._runner.close()


@pytest.fixture
def limiters(limits_valkey: Valkey) -> Iterator[LimiterPair]:
    both = LimiterPair(limits_valkey.url)
    yield both
    both.close()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_sequence_is_answered_and_stored_as_in_memory(
    limiters: LimiterPair, steps: list[tuple[int, RateLimitRequest]]
) -> None:
    assert limiters.differences(steps) == []


async def test_time_is_the_servers(limiter: RedisLimiter, admin: Redis) -> None:
    seconds, _ = await admin.time()
    (answer,) = await limiter.check([request(1, duration=60_000)])
    after, _ = await admin.time()
    assert seconds * 1000 + 60_000 <= answer.reset_time <= (after + 1) * 1000 + 60_000


async def test_a_process_with_a_wrong_clock_uses_the_servers_calendar(limits_valkey: Valkey, admin: Redis) -> None:
    """Its assumed date is rejected, nothing is counted, and it retries with the server's date."""
    astray = HandClock(NOON_MS + 400 * 86_400_000)
    limiter = RedisLimiter(limits_valkey.url, clock=astray, namespace=secrets.token_hex(6), call_timeout_s=PATIENCE_S)
    sent = [request(1, duration=5, behavior=GREGORIAN, key=key) for key in "ab"] + [request(1, key="c")]
    answers = await limiter.check(sent)
    await limiter.close()
    server = datetime.fromtimestamp((await admin.time())[0], UTC)
    end = datetime(server.year + 1, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1)
    assert [answer.remaining for answer in answers] == [9, 9, 9]
    assert [answer.reset_time for answer in answers[:2]] == [round(end.timestamp() * 1000)] * 2


async def test_a_bucket_leaves_the_server_by_itself_a_minute_after_its_end(
    limiter: RedisLimiter, admin: Redis, namespace: str
) -> None:
    ended = request(1, duration=-5, key="x")
    await limiter.check([request(1, duration=5000), leaky(1, duration=9000, key="leaky"), ended])
    key = f"{namespace}:limit:n_"
    left = [await admin.pttl(key + name) for name in ("k", "leaky", "x")]
    assert [(ms - 60_000 + 999) // 1000 for ms in left] == pytest.approx([5, 9, 0], abs=2)
    assert all(ms <= most for ms, most in zip(left, (65_000, 69_000, 60_000), strict=True))


async def test_a_reset_deletes_the_bucket(limiter: RedisLimiter, admin: Redis, namespace: str) -> None:
    await limiter.check([request(1), request(1, behavior=Behavior.RESET_REMAINING)])
    assert await admin.keys(f"{namespace}:*") == []


async def test_a_script_the_server_lost_is_loaded_again(limiter: RedisLimiter, admin: Redis) -> None:
    await limiter.check([request(1)])
    await admin.script_flush()
    answers = await limiter.check([request(1), request(1, key="other"), request(1)])
    assert [answer.remaining for answer in answers] == [8, 9, 7]
    assert await admin.script_exists(limit_script().digest) == [True]


async def test_several_processes_count_together(limits_valkey: Valkey, namespace: str) -> None:
    limiters = [redis_limiter(limits_valkey.url, HandClock(), namespace=namespace) for _ in range(5)]

    async def call(limiter: RedisLimiter) -> int:
        answers = [(await limiter.check([request(1, limit=333)]))[0] for _ in range(20)]
        return sum(1 for answer in answers if answer.status == UNDER)

    passed = await asyncio.gather(*(call(limiters[number % 5]) for number in range(50)))
    for limiter in limiters:
        await limiter.close()
    assert sum(passed) == 333


async def test_answers_are_measured(limiter: RedisLimiter) -> None:
    await limiter.check([request(1), request(11), request(1, key="")])
    assert limiter._metrics is not None
    assert {name: limiter._metrics.value(CHECKS, outcome=name) for name in ("under", "over", "error")} == {
        "under": 1,
        "over": 1,
        "error": 1,
    }


async def test_a_batch_of_invalid_requests_sends_nothing_to_the_server() -> None:
    limiter = RedisLimiter(f"redis://127.0.0.1:{free_port()}/0", clock=SystemClock())
    (answer,) = await limiter.check([request(1, key="")])
    await limiter.close()
    assert answer.error == "field 'unique_key' cannot be empty"


async def test_an_unreachable_server_is_unavailable_and_the_password_is_not_printed() -> None:
    port = free_port()
    limiter = RedisLimiter(f"redis://someone:hidden@127.0.0.1:{port}/0", clock=SystemClock())
    with pytest.raises(Unavailable, match=f"redis at redis://127.0.0.1:{port}/0 unreachable") as raised:
        await limiter.check([request(1)])
    with pytest.raises(Unavailable):
        await limiter.ping()
    await limiter.close()
    assert "hidden" not in str(raised.value)


async def test_a_hung_server_is_unavailable_in_time_and_answers_correctly_afterwards() -> None:
    """The answer to a timed-out call must not be taken for that of the next."""
    with Valkey() as server:
        limiter = RedisLimiter(server.url, clock=SystemClock(), call_timeout_s=0.3)
        await limiter.check([request(1, limit=100, duration=600_000)])
        server.pause()
        with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
            await limiter.check([request(50, limit=100, duration=600_000)])
        server.resume()
        await limiter.close()
        again = RedisLimiter(server.url, clock=SystemClock(), call_timeout_s=PATIENCE_S)
        (answer,) = await again.check([request(1, limit=7, duration=600_000, key="other")])
        assert (answer.limit, answer.remaining) == (7, 6)
        (answer,) = await again.check([request(0, limit=100, duration=600_000)])
        await again.close()
        assert answer.remaining in (99, 49)


async def test_a_timed_out_call_does_not_leave_its_answer_on_the_connection(limits_valkey: Valkey) -> None:
    limiter = redis_limiter(limits_valkey.url, HandClock())
    for turn in range(30):
        call = asyncio.create_task(limiter.check([request(1, limit=1000, key="slow")] * 50))
        for _ in range(turn % 10):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        (answer,) = await limiter.check([request(1, limit=5, key=str(turn))])
        assert (answer.limit, answer.remaining) == (5, 4)
    await limiter.close()


async def test_a_full_server_is_reported_and_counts_nothing() -> None:
    with Valkey(options=("--maxmemory", "1mb", "--maxmemory-policy", "noeviction")) as server:
        limiter = RedisLimiter(server.url, clock=SystemClock(), call_timeout_s=PATIENCE_S)
        with pytest.raises(Unavailable, match="is out of memory, nothing was written; raise its maxmemory"):
            await limiter.check([request(1)])
        await limiter.close()


async def test_a_replica_is_distinguished_from_a_primary() -> None:
    with Valkey(options=("--replicaof", f"127.0.0.1 {free_port()}", "--replica-serve-stale-data", "yes")) as server:
        limiter = RedisLimiter(server.url, clock=SystemClock(), call_timeout_s=PATIENCE_S)
        with pytest.raises(Unavailable, match="is a replica, nothing was written; set the URL to the primary"):
            await limiter.check([request(1)])
        await limiter.close()


async def test_a_failover_by_sentinel_is_followed() -> None:
    with Valkey() as primary, Valkey() as replica, run_sentinel(primary, replica) as url:
        limiter = RedisLimiter(url, clock=SystemClock(), call_timeout_s=PATIENCE_S)
        await limiter.check([request(1, limit=100, duration=600_000)])
        primary.kill()
        with pytest.raises(Unavailable):
            await limiter.check([request(1, limit=100, duration=600_000)])
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with suppress(Unavailable):
                    (answer,) = await limiter.check([request(1, limit=100, duration=600_000)])
                    break
        await limiter.close()
    assert 97 <= answer.remaining <= 99  # the replica may have lacked the latest hits


@pytest.mark.parametrize("url", ["http://host", "redis", "redis://host:port/0", "redis://host/0?socket_timeout=x"])
def test_a_url_that_names_no_redis_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match=r"is not a Redis URL|has the unknown option 'socket_timeout'"):
        RedisLimiter(url, clock=SystemClock())


@pytest.mark.parametrize("namespace", ["", "a:b", "{a}", "a b"])
def test_a_namespace_that_could_run_into_another_is_refused(namespace: str) -> None:
    with pytest.raises(Invalid, match="a namespace has letters, digits"):
        RedisLimiter("redis://host/0", clock=SystemClock(), namespace=namespace)


async def test_every_key_is_one_that_the_docs_name(limiter: RedisLimiter, admin: Redis, namespace: str) -> None:
    await limiter.check([request(1), leaky(1, key="other")])
    (doc,) = KEY_DOCS
    pattern = re.sub("<[a-z_]+>", ".+", doc.name)
    found = await admin.keys(f"{namespace}*")
    assert len(found) == 2
    assert all(re.fullmatch(pattern, key) for key in found)
    assert {await admin.type(key) for key in found} == {doc.kind}


def test_the_script_and_the_module_name_the_same_flags() -> None:
    found: Any = re.search(r"local GREGORIAN, RESET, DRAIN = (\d+), (\d+), (\d+)", limit_script().text)
    assert [int(number) for number in found.groups()] == [
        Behavior.DURATION_IS_GREGORIAN,
        Behavior.RESET_REMAINING,
        Behavior.DRAIN_OVER_LIMIT,
    ]


async def test_hits_beyond_the_burst_are_refused_on_the_servers_time(limiter: RedisLimiter) -> None:
    answers = await limiter.check([leaky(1, limit=3, duration=3_600_000) for _ in range(5)])
    assert [int(answer.status) for answer in answers] == [UNDER, UNDER, UNDER, OVER, OVER]
