"""What the tests of the limits share: a clock moved by hand, short requests, every kind of limiter on that clock."""

import asyncio
import json
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from argosy.throttle.limits.backends.http import HttpLimiter
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.backends.redis import RedisLimiter
from argosy.throttle.limits.backends.sqlite import SqliteLimiter
from argosy.throttle.limits.gubernator.client import GrpcLimiter
from argosy.throttle.limits.gubernator.server import LimitsServer
from argosy.throttle.limits.http import limit_routes
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse, Status
from argosy.throttle.limits.ports import RateLimiter

HOST = "127.0.0.1"
NOON_MS = 1_700_049_600_000  # 15 November 2023, 12:00 UTC
PATIENCE_S = 60.0  # of clients here; the machine may be busy
UNDER, OVER = Status.UNDER_LIMIT, Status.OVER_LIMIT

# Answers of the published Go arithmetic, run with Go on amd64: one sequence on one bucket per line, each step a pair of
#   [now, hits, limit, duration, algorithm, behavior, burst, created_at]
#   [status, limit, remaining, reset_time, is_error]
VECTORS = Path(__file__).with_name("vectors.jsonl")

Step = tuple[list[int], list[int]]


class HandClock:
    """Moves only when a test moves it."""

    def __init__(self, ms: int = NOON_MS) -> None:
        self.ms = ms

    def now(self) -> float:
        return self.ms / 1000

    def wall(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


def request(hits: int = 1, limit: int = 10, duration: int = 1000, **more: Any) -> RateLimitRequest:
    return RateLimitRequest(more.pop("name", "n"), more.pop("key", "k"), hits, limit, duration, **more)


def leaky(hits: int = 1, limit: int = 10, duration: int = 1000, **more: Any) -> RateLimitRequest:
    return request(hits, limit, duration, algorithm=1, **more)


def figures(response: RateLimitResponse) -> tuple[int, int, int, int]:
    """An answer as four numbers; one that is an error has none."""
    assert response.error == ""
    return response.status, response.limit, response.remaining, response.reset_time


def recorded() -> Iterator[list[Step]]:
    for line in VECTORS.read_text().splitlines():
        yield [(requested, answered) for requested, answered in json.loads(line)]


def from_record(requested: list[int], *, key: str = "k") -> RateLimitRequest:
    _, hits, limit, duration, algorithm, behavior, burst, created_at = requested
    return RateLimitRequest("n", key, hits, limit, duration, algorithm, behavior, burst, created_at=created_at)


def as_record(response: RateLimitResponse) -> list[int]:
    return [int(response.status), response.limit, response.remaining, response.reset_time, int(bool(response.error))]


@asynccontextmanager
async def served_http(limiter: RateLimiter, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Yields the URL of a real server for a limiter: uvicorn without its main loop, which would take 0.1 s to end."""
    web = Starlette(routes=limit_routes(limiter, advertise_address="here:1051"))
    config = uvicorn.Config(web, log_config=None, access_log=False, lifespan="off")
    config.load()
    state = ServerState()
    # Declared as TCP, or asyncio would not turn off Nagle's algorithm, and every answer would take 40 ms.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind((HOST, 0))
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), sock=listener, ssl=tls
    )
    try:
        yield f"http{'s' if tls else ''}://{HOST}:{listener.getsockname()[1]}"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        await server.wait_closed()


@asynccontextmanager
async def over_http(clock: HandClock) -> AsyncIterator[RateLimiter]:
    async with served_http(MemoryLimiter(clock=clock)) as url:
        client = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        yield client
        await client.close()


@asynccontextmanager
async def over_grpc(clock: HandClock) -> AsyncIterator[RateLimiter]:
    server = await LimitsServer.start(MemoryLimiter(clock=clock), f"{HOST}:0")
    client = GrpcLimiter(f"{HOST}:{server.port}", call_timeout_s=PATIENCE_S)
    yield client
    await client.close()
    await server.stop()


@asynccontextmanager
async def in_memory(clock: HandClock) -> AsyncIterator[RateLimiter]:
    yield MemoryLimiter(clock=clock)


@asynccontextmanager
async def in_a_file(clock: HandClock, path: Path) -> AsyncIterator[RateLimiter]:
    limiter = await SqliteLimiter.open(path, clock=clock)
    yield limiter
    await limiter.close()


@asynccontextmanager
async def in_redis(clock: HandClock, url: str) -> AsyncIterator[RateLimiter]:
    limiter = redis_limiter(url, clock)
    yield limiter
    await limiter.close()


def redis_limiter(url: str, clock: HandClock, *, namespace: str | None = None) -> RedisLimiter:
    """On the clock of the test, in a namespace of its own."""
    return RedisLimiter(
        url,
        clock=clock,
        namespace=namespace or f"test-{secrets.token_hex(6)}",
        call_timeout_s=PATIENCE_S,
        is_simulated=True,
    )
