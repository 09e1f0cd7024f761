"""Admission by quota in front of an ASGI application: counted by real limiters, and the behaviour without them."""

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence

import pytest

from argosy.base.errors import Unavailable
from argosy.throttle.limits import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.backends.redis import RedisLimiter
from argosy.throttle.middleware import LimitAdmission, Quota, by_header
from argosy.throttle.middleware.admitters import UNREACHABLE_S
from tests.servers.valkey import Valkey
from tests.throttle.limits.stage import HandClock
from tests.throttle.middleware.stage import PATIENCE_S, answering, play, scope_of

TWO = Quota(2, 60.0, name="searches")


class FaultyLimiter(MemoryLimiter):
    """A limiter with scripted failures and hangs."""

    why: Exception | None = None
    is_hanging = False
    calls = 0

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        self.calls += 1
        if self.is_hanging:
            await asyncio.get_running_loop().create_future()
        if self.why is not None:
            raise self.why
        return await super().check(requests)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def limiter(clock: HandClock) -> FaultyLimiter:
    return FaultyLimiter(clock=clock)


@pytest.fixture
def server() -> Iterator[Valkey]:
    with Valkey() as started:
        yield started


async def test_each_client_has_its_own_quota_and_gets_the_remaining_count(
    limiter: FaultyLimiter, clock: HandClock
) -> None:
    app = LimitAdmission(answering(200), limiter, TWO, client_of=by_header("x-client"), clock=clock)
    scope = scope_of(headers={"x-client": "a"})
    first, second, third = [await play(app, scope) for _ in range(3)]
    assert [first.status, second.status, third.status] == [200, 200, 429]
    assert first.headers == {"ratelimit-policy": '"searches";q=2;w=60', "ratelimit": '"searches";r=1;t=60'}
    assert third.error["kind"] == "Throttled"
    assert third.headers["retry-after"] == "60"
    assert third.headers["ratelimit"] == '"searches";r=0;t=60'
    assert third.headers["x-argosy-throttled"] == "searches"
    assert (await play(app, scope_of(headers={"x-client": "b"}))).status == 200


async def test_the_next_window_is_a_new_one(limiter: FaultyLimiter, clock: HandClock) -> None:
    app = LimitAdmission(answering(200), limiter, TWO, clock=clock)
    assert [(await play(app)).status for _ in range(3)] == [200, 200, 429]
    clock.ms += 60_001
    assert (await play(app)).status == 200


async def test_a_dear_request_takes_more(limiter: FaultyLimiter, clock: HandClock) -> None:
    app = LimitAdmission(answering(200), limiter, TWO, cost_of=lambda _: 1.5, exempt=["/health"], clock=clock)
    assert [(await play(app)).status for _ in range(2)] == [200, 429]
    assert (await play(app, scope_of("/health"))).headers == {}


async def test_shadow_mode_counts_and_lets_pass(limiter: FaultyLimiter, clock: HandClock) -> None:
    app = LimitAdmission(answering(200), limiter, TWO, is_shadow=True, clock=clock)
    seen = [(played.status, played.headers.get("x-argosy-throttled")) for played in [await play(app) for _ in range(3)]]
    assert seen == [(200, None), (200, None), (200, "shadow")]


async def test_websockets_are_counted_if_enabled(limiter: FaultyLimiter, clock: HandClock) -> None:
    app = LimitAdmission(answering(200), limiter, TWO, admits_websockets=True, clock=clock)
    played = [await play(app, scope_of(kind="websocket"), {"type": "websocket.connect"}) for _ in range(3)]
    assert [each.sent[0]["type"] for each in played][1:] == ["http.response.start", "websocket.close"]


async def test_while_the_limiter_is_unavailable_all_requests_pass(
    limiter: FaultyLimiter, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    limiter.why = Unavailable("gone")
    app = LimitAdmission(answering(200), limiter, TWO, clock=clock)
    with caplog.at_level(logging.WARNING, logger="argosy"):
        assert [(await play(app)).status for _ in range(5)] == [200] * 5
    assert limiter.calls == 1, "an unavailable limiter is not called by every request"
    assert caplog.text.count("limiter unreachable") == 1


async def test_requests_under_way_when_the_limiter_fails_are_one_line_in_the_log(
    limiter: FaultyLimiter, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    limiter.is_hanging = True
    app = LimitAdmission(answering(200), limiter, TWO, wait_s_max=0.01, clock=clock)
    with caplog.at_level(logging.WARNING, logger="argosy"):
        await asyncio.gather(*(play(app) for _ in range(5)))
    assert limiter.calls == 5
    assert caplog.text.count("limiter unreachable") == 1


async def test_a_recovered_limiter_is_used_again(limiter: FaultyLimiter, clock: HandClock) -> None:
    app = LimitAdmission(answering(200), limiter, TWO, clock=clock)
    limiter.why = Unavailable("gone")
    await play(app)
    limiter.why = None
    clock.ms += round(UNREACHABLE_S * 1000)
    assert [(await play(app)).status for _ in range(3)] == [200, 200, 429]


async def test_requests_may_be_rejected_during_an_outage(limiter: FaultyLimiter, clock: HandClock) -> None:
    limiter.why = Unavailable("gone")
    app = LimitAdmission(answering(200), limiter, TWO, admits_when_unreachable=False, clock=clock)
    played = [await play(app) for _ in range(2)]
    assert [each.status for each in played] == [503, 503]
    assert played[0].error["kind"] == "Unavailable"
    assert "retry-after" in played[0].headers


async def test_no_request_waits_longer_than_the_bound(limiter: FaultyLimiter, clock: HandClock) -> None:
    limiter.is_hanging = True
    app = LimitAdmission(answering(200), limiter, TWO, wait_s_max=0.01, clock=clock)
    assert (await play(app)).status == 200
    assert limiter.calls == 1


async def test_a_quota_is_shared_through_redis(server: Valkey) -> None:
    clock, namespace = HandClock(), secrets.token_hex(4)
    limiters = [RedisLimiter(server.url, clock=clock, namespace=namespace) for _ in range(2)]
    doors = [LimitAdmission(answering(200), each, TWO, wait_s_max=PATIENCE_S) for each in limiters]
    statuses = [(await play(app_or_middleware)).status for app_or_middleware in (*doors, *doors)]
    for limiter in limiters:
        await limiter.close()
    assert statuses == [200, 200, 429, 429]
