"""Buckets in a Redis or Valkey server: for a fleet whose processes must count together.

Each request is one run of one script on one key, so it is atomic, and many callers never take more than the limit. A
batch goes out in one pipeline to each server it concerns, of which a cluster has several. Time is the server's, so that
processes with wrong clocks still agree. A bucket leaves the server by itself a minute after its end.

A call is sent once: the script is not harmless when sent again. Only what the server says it did *not* do is sent anew:
a script it had not been told yet, a calendar interval that was not the one around its own time, or a key that has
moved to another node.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
)

from argosy.base.clock import Clock
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.base.redact import redact
from argosy.throttle.limits import gregorian
from argosy.throttle.limits.backends.moment import now_ms
from argosy.throttle.limits.backends.redis_keys import prefix
from argosy.throttle.limits.backends.redis_routes import CLUSTER_SCHEMES, routes, shown
from argosy.throttle.limits.buckets import wrapped
from argosy.throttle.limits.metrics import count
from argosy.throttle.limits.model import Behavior, RateLimitRequest, RateLimitResponse, Status, complaint
from argosy.throttle.limits.table import check_batch

CALL_TIMEOUT_S = 2.0  # a whole batch; the server needs some 20 ms for a full one
TRIES_MAX = 5  # of what was not done: sent on, told the script, told the time, and the year turned

_FLAGS = 0xFF  # all behaviours there are, in a number that a script can take apart
_GREGORIAN = int(Behavior.DURATION_IS_GREGORIAN)

_ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (AuthenticationError, "refused the login: check the user and the password in the URL"),
    (NoPermissionError, "does not allow this user to do that: give it GET, SET, DEL, TIME and scripts on our keys"),
    (ReadOnlyError, "is a replica: point the URL at the primary"),
    (MovedError, "is one node of a cluster: begin the URL with redis+cluster://"),
    (OutOfMemoryError, "has no memory left: raise its maxmemory"),
    (Exception, "cannot be used: check that it runs and that the URL is right; hits may or may not have been counted"),
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request on its way: its place in the batch, and the calendar time its interval was looked up for."""

    place: int
    request: RateLimitRequest
    calendar_ms: int


class RedisLimiter:
    """Buckets in one server, under one namespace."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        namespace: str = "argosy",
        zone: tzinfo = UTC,
        metrics: Metrics | None = None,
        call_timeout_s: float = CALL_TIMEOUT_S,
        is_simulated: bool = False,
    ) -> None:
        """The clock only guesses the server's date, unless time is simulated. Nothing is sent before the first call."""
        self._prefix = prefix(namespace)
        self._clock = clock
        self._is_simulated = is_simulated
        self._zone = zone
        self._metrics = metrics
        self._call_timeout_s = call_timeout_s
        self._name = shown(url)
        self._is_cluster = url.partition("://")[0] in CLUSTER_SCHEMES
        self._routes = routes(url, timeout_s=call_timeout_s)

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        check_batch(requests)
        refused = [complaint(request) for request in requests]
        responses = [RateLimitResponse(error=wrong) for wrong in refused]
        calendar_ms = now_ms(self._clock)
        todo = [_Asked(place, asked, calendar_ms) for place, asked in enumerate(requests) if not refused[place]]
        async with self._trouble_told():
            for _ in range(TRIES_MAX):
                todo = await self._run(todo, responses) if todo else []
        if todo:
            raise Unavailable(f"redis at {self._name} forgot the script {TRIES_MAX} times over: is it being flushed?")
        count(self._metrics, responses)
        return responses

    async def ping(self) -> None:
        async with self._trouble_told():
            await (await self._routes.server_of(self._prefix)).ping()

    async def close(self) -> None:
        await self._routes.close()

    async def _run(self, todo: list[_Asked], responses: list[RateLimitResponse]) -> list[_Asked]:
        """Sends all of `todo`, puts the answers in their places, and returns what was not done."""
        on: dict[Redis, list[_Asked]] = {}
        for asked in todo:
            on.setdefault(await self._routes.server_of(self._prefix + asked.request.key), []).append(asked)
        left = []
        for server, some in on.items():
            left += await self._run_on(server, some, responses)
        return left

    async def _run_on(self, server: Redis, todo: list[_Asked], responses: list[RateLimitResponse]) -> list[_Asked]:
        pipeline = server.pipeline(transaction=False)
        for asked in todo:
            pipeline.evalsha(script_sha(), 1, self._prefix + asked.request.key, *self._arguments(asked))
        replies = await pipeline.execute(raise_on_error=False)
        left, has_moved = [], False
        for asked, reply in zip(todo, replies, strict=True):
            match reply:
                case NoScriptError():
                    left.append(asked)
                case MovedError() if self._is_cluster:
                    left.append(asked)
                    has_moved = True
                case Exception():
                    raise reply
                case ["now", server_ms]:
                    left.append(replace(asked, calendar_ms=int(server_ms)))
                case _:
                    responses[asked.place] = _response(asked.request, reply)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            await server.script_load(script_text())
        if has_moved:
            await self._routes.forget()
        return left

    def _arguments(self, asked: _Asked) -> list[int | str]:
        request, interval = asked.request, None
        if request.behavior & _GREGORIAN:
            interval = gregorian.interval(request.duration, asked.calendar_ms, self._zone)
        ends = (interval.begin_ms, interval.end_ms, interval.length_ms) if interval else ("", "", "")
        return [
            asked.calendar_ms if self._is_simulated else "",
            int(request.algorithm),
            int(request.behavior) & _FLAGS,
            request.hits,
            request.limit,
            request.duration,
            request.burst,
            request.created_at,
            *ends,
        ]

    @asynccontextmanager
    async def _trouble_told(self) -> AsyncIterator[None]:
        """Bounds a call, and raises Unavailable for whatever goes wrong on the way to the server or there."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                yield
        except (RedisError, RedisClusterException, OSError) as error:
            if self._is_cluster or isinstance(error, ReadOnlyError):
                await self._routes.forget()
            cause = redact(str(error)) or f"no answer within {self._call_timeout_s} s"
            advice = next(text for kind, text in _ADVICE if isinstance(error, kind))
            raise Unavailable(f"redis at {self._name} {advice} ({cause})") from error


def _response(request: RateLimitRequest, reply: list[Any]) -> RateLimitResponse:
    if reply == ["no interval"]:
        return RateLimitResponse(error=gregorian.complaint(request.duration))
    status, remaining, base, basis, step = map(int, reply[1:])
    reset_time = wrapped(base + (request.limit - basis) * step)
    return RateLimitResponse(Status(status), request.limit, remaining, reset_time)


@cache
def script_text() -> str:
    return (files(__package__) / "lua" / "limit.lua").read_text(encoding="utf-8")


@cache
def script_sha() -> str:
    """What a server knows the script by."""
    return sha1(script_text().encode(), usedforsecurity=False).hexdigest()
