"""Buckets in a Redis or Valkey server: for processes that count together.

Each request is one run of one script on one key, so it is atomic, and any number of callers never takes more than the
limit. A batch goes to each server that it concerns in one pipeline; a cluster has several. Time is the server's, so
that processes whose clocks differ agree. The server deletes a bucket a minute after its end.

A call is sent once, because the script counts each time it runs. Sent again is only what the server reports as not
executed: it does not know the script, the key is on another node, or the calendar interval that was sent with the
request is not the one around the server's time.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any

from argosy.base.backends.redis.errors import ReplyError, unreachable
from argosy.base.backends.redis.mux import Script, load_script
from argosy.base.backends.redis.routes import KeyCommand, RedisRoutes
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import Clock, SystemClock, system_random
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.limits.backends.redis_keys import prefix
from argosy.throttle.limits.buckets import calendar_error, calendar_interval, wrap_int64
from argosy.throttle.limits.model import Behavior, RateLimitRequest, RateLimitResponse, Status, request_error
from argosy.throttle.limits.table import check_batch, count, now_ms

CALL_TIMEOUT_S = 2.0  # a whole batch; the server needs some 20 ms for a full one
TRIES_MAX = 5  # of a request that was not executed: redirected, script loaded, server time unknown, a new year

CLIENT_NAME = "argosy-limits"  # in CLIENT LIST

_FLAGS = 0xFF  # all behaviours; the script decomposes a number of this size
_GREGORIAN = int(Behavior.DURATION_IS_GREGORIAN)


@dataclass(frozen=True, slots=True)
class _PendingCheck:
    """A request without a response: its position in the batch, and the time that its calendar interval was computed
    for."""

    position: int
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
        # Each key is in a slot of its own: checks touch one key each, so a cluster shares the load.
        self._prefix = prefix(namespace)
        self._clock = clock
        self._is_simulated = is_simulated
        self._zone = zone
        self._metrics = metrics
        self._call_timeout_s = call_timeout_s
        # The limiter's clock may be a simulated one; reconnecting takes real time.
        self._routes = RedisRoutes(
            parse_redis_url(url),
            clock=SystemClock(),
            random=system_random(),
            client_name=CLIENT_NAME,
            permissions="GET, SET, DEL, TIME and scripts on the limits' keys",
            connect_timeout_s=call_timeout_s,
            call_timeout_s=call_timeout_s,
            encoding="utf-8",
        )

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        check_batch(requests)
        errors = [request_error(request) for request in requests]
        responses = [RateLimitResponse(error=error) for error in errors]
        calendar_ms = now_ms(self._clock)
        # Invalid requests are answered here and not sent; the others keep their positions.
        todo = [_PendingCheck(n, request, calendar_ms) for n, request in enumerate(requests) if not errors[n]]
        async with self._with_timeout():
            # A check is repeated only if its server answered that it did nothing: no script, or a calendar interval of
            # another day.
            for _ in range(TRIES_MAX):
                todo = await self._run(todo, responses) if todo else []
        if todo:
            raise Unavailable(
                f"redis at {self._routes.name} lost the script {TRIES_MAX} times in a row: is it being flushed?"
            )
        count(self._metrics, responses)
        return responses

    async def ping(self) -> None:
        async with self._with_timeout():
            await self._routes.ping(self._prefix)

    async def close(self) -> None:
        await self._routes.close()

    async def _run(self, todo: list[_PendingCheck], responses: list[RateLimitResponse]) -> list[_PendingCheck]:
        """Sends `todo`, stores the responses at their positions, and returns the checks that were not executed."""
        digest = limit_script().digest
        keys = [self._prefix + check.request.key for check in todo]
        replies = await self._routes.run(
            [
                KeyCommand(key, ("EVALSHA", digest, 1, key, *self._arguments(check)))
                for key, check in zip(keys, todo, strict=True)
            ]
        )
        left: list[_PendingCheck] = []
        unknown: list[str] = []  # keys whose server does not know the script
        for key, check, reply in zip(keys, todo, replies, strict=True):
            match reply:
                case ReplyError(code="NOSCRIPT"):
                    left.append(check)
                    unknown.append(key)
                case ReplyError():
                    raise self._routes.unavailable(reply)
                # The client computes calendar intervals, because Lua has no time zones; near midnight its guess may be
                # yesterday.
                case ["now", server_ms]:
                    left.append(replace(check, calendar_ms=int(server_ms)))
                case _:
                    responses[check.position] = _response(check.request, reply)
        if unknown:
            await self._routes.load(unknown, limit_script())
        return left

    def _arguments(self, check: _PendingCheck) -> list[int | str]:
        request, interval = check.request, None
        if request.behavior & _GREGORIAN:
            interval = calendar_interval(request.duration, check.calendar_ms, self._zone)
        ends = (interval.begin_ms, interval.end_ms, interval.length_ms) if interval else ("", "", "")
        return [
            check.calendar_ms if self._is_simulated else "",
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
    async def _with_timeout(self) -> AsyncIterator[None]:
        """Bounds a whole call: the wait for a connection, all its round trips, all nodes."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                yield
        except TimeoutError as error:
            cause = f"no answer within {self._call_timeout_s} s"
            raise unreachable(self._routes.name, cause, may_have_happened=True) from error


def _response(request: RateLimitRequest, reply: list[Any]) -> RateLimitResponse:
    if reply == ["no interval"]:
        return RateLimitResponse(error=calendar_error(request.duration))
    status, remaining, base, basis, step = map(int, reply[1:])
    reset_time = wrap_int64(base + (request.limit - basis) * step)
    return RateLimitResponse(Status(status), request.limit, remaining, reset_time)


def limit_script() -> Script:
    return load_script("argosy.throttle.limits.backends", "limit")
