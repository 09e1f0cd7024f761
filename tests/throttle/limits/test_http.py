"""Gubernator's HTTP API, called with raw requests over a real connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from argosy.base.errors import Conflict, Unavailable
from argosy.throttle.limits import wire
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.http import BODY_BYTES_MAX
from argosy.throttle.limits.model import KEY_LENGTH_MAX, NUMBER_MAX
from tests.throttle.limits.stage import NOON_MS, PATIENCE_S, HandClock, request, served_http


class FailingLimiter(MemoryLimiter):
    """A limiter whose store is unavailable."""

    error: Exception = Unavailable("redis at redis://user:hidden@host/0 is away")

    async def check(self, _: Any) -> Any:
        raise self.error

    async def ping(self) -> None:
        raise self.error


@dataclass(frozen=True)
class Reply:
    status: int
    content_type: str
    body: Any


@pytest.fixture
async def url(clock: HandClock) -> AsyncIterator[str]:
    async with served_http(MemoryLimiter(clock=clock)) as served:
        yield served


async def send_request(url: str, method: str, path: str, body: bytes | None = None) -> Reply:
    return await asyncio.to_thread(_send_request, url, method, path, body)


def _send_request(url: str, method: str, path: str, body: bytes | None) -> Reply:
    parts = urlsplit(url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        return Reply(reply.status, reply.headers["content-type"], json.loads(reply.read()))
    finally:
        connection.close()


async def test_a_batch_is_answered_in_the_shape_of_the_gateway(url: str) -> None:
    body = {
        "requests": [
            {"name": "n", "uniqueKey": "k", "hits": "3", "limit": 10, "duration": "1000"},
            {"name": "n", "unique_key": "", "hits": 1},
        ]
    }
    reply = await send_request(url, "POST", "/v1/GetRateLimits", json.dumps(body).encode())
    assert (reply.status, reply.content_type) == (200, "application/json")
    assert reply.body == {
        "responses": [
            {
                "status": "UNDER_LIMIT",
                "limit": "10",
                "remaining": "7",
                "reset_time": str(NOON_MS + 1000),
                "error": "",
                "metadata": {},
            },
            {
                "status": "UNDER_LIMIT",
                "limit": "0",
                "remaining": "0",
                "reset_time": "0",
                "error": "field 'unique_key' cannot be empty",
                "metadata": {},
            },
        ]
    }


async def test_an_empty_body_is_an_empty_batch(url: str) -> None:
    assert (await send_request(url, "POST", "/v1/GetRateLimits", b"")).body == {"responses": []}


async def test_too_many_requests_at_once_are_out_of_range(url: str) -> None:
    body = wire.write_requests([request(1)] * 1001)
    reply = await send_request(url, "POST", "/v1/GetRateLimits", body)
    assert reply.status == 400
    assert reply.body == {
        "code": 11,
        "message": "Requests.RateLimits list too large; max size is '1000'",
        "details": [],
    }


async def test_a_body_that_cannot_be_read_is_an_invalid_argument(url: str) -> None:
    reply = await send_request(url, "POST", "/v1/GetRateLimits", b'{"requests": [{"hits": "x"}]}')
    assert reply.status == 400
    assert reply.body == {"code": 3, "message": "hits must be a 64-bit whole number, not 'x'", "details": []}


async def test_a_body_that_is_too_large_is_refused_and_the_longest_batch_is_not(url: str) -> None:
    reply = await send_request(url, "POST", "/v1/GetRateLimits", b" " * (BODY_BYTES_MAX + 1))
    assert reply.status == 413
    assert reply.body["code"] == 8
    most = NUMBER_MAX
    longest = request(-most, -most, -most, key="k" * (KEY_LENGTH_MAX - 2), burst=-most, created_at=-most)
    reply = await send_request(url, "POST", "/v1/GetRateLimits", wire.write_requests([longest] * 1000))
    assert reply.status == 200
    assert len(reply.body["responses"]) == 1000


async def test_the_health_of_a_limiter_is_reported(url: str) -> None:
    reply = await send_request(url, "GET", "/v1/HealthCheck")
    assert reply.status == 200
    assert reply.body == {
        "status": "healthy",
        "message": "",
        "peer_count": 1,
        "advertise_address": "here:1051",
        "local_peers": [],
        "region_peers": [],
    }
    assert (await send_request(url, "GET", "/v1/LiveCheck")).body == {}


async def test_an_unavailable_store_is_reported_without_its_password(clock: HandClock) -> None:
    async with served_http(FailingLimiter(clock=clock)) as url:
        failed = await send_request(url, "POST", "/v1/GetRateLimits", wire.write_requests([request(1)]))
        health = await send_request(url, "GET", "/v1/HealthCheck")
        alive = await send_request(url, "GET", "/v1/LiveCheck")
    assert (failed.status, failed.body["code"]) == (503, 14)
    assert (health.status, health.body["status"]) == (200, "unhealthy")
    assert "is away" in health.body["message"]
    assert "hidden" not in json.dumps([failed.body, health.body])
    assert alive.status == 200


async def test_any_other_error_is_internal(clock: HandClock) -> None:
    limiter = FailingLimiter(clock=clock)
    limiter.error = Conflict("who would have thought")
    async with served_http(limiter) as url:
        failed = await send_request(url, "POST", "/v1/GetRateLimits", b"{}")
    assert (failed.status, failed.body["code"]) == (500, 13)
