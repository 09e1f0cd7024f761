"""Sends one request to one indexer. Every failure becomes an outcome, not an exception."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from argosy.base.clock import Clock
from argosy.base.errors import Invalid
from argosy.gateway.content.backend_requests import BackendRequest
from argosy.gateway.content.backend_tracker import BackendTracker
from argosy.gateway.content.http1_client import Http1Client, Http1Response, ResponseTooLong
from argosy.gateway.content.model import Backend, BackendOutcome
from argosy.gateway.content.reply_parser import ParsedReply
from argosy.gateway.content.telemetry import ContentTelemetry

T = TypeVar("T")

ERROR_BYTES_MAX = 64 * 1024  # what is read of a refusal, to retain_only its connection

Read = Callable[[Http1Response], Awaitable[ParsedReply[T]]]
ReadOutcome = tuple[BackendOutcome, ParsedReply[T] | None]


class BackendClient:
    """Sends requests and records response times; the dispatcher records start and end."""

    def __init__(self, client: Http1Client, tracker: BackendTracker, telemetry: ContentTelemetry, clock: Clock) -> None:
        self._client = client
        self._tracker = tracker
        self._telemetry = telemetry
        self._clock = clock

    async def ask(
        self,
        backend: Backend,
        question: BackendRequest,
        read: Read[T],
        *,
        within_s: float,
        begun: Callable[[Http1Response], None] | None = None,
    ) -> ReadOutcome[T]:
        """`begun` is called when the head of a streamed response has arrived."""
        started = self._clock.now()
        try:
            async with asyncio.timeout(within_s):
                with await self._client.ask(backend.place, question.request(backend)) as reply:
                    if reply.status != 200:
                        return await self._error_outcome(backend.name, reply, started), None
                    if begun is not None:
                        self._measure(backend.name, started)
                        begun(reply)
                    reading = await read(reply)
        except TimeoutError:
            return BackendOutcome.TIMED_OUT, None
        except (Invalid, ResponseTooLong):
            self._telemetry.record_malformed(backend.name, 1)
            return BackendOutcome.MALFORMED, None
        except (OSError, UnicodeError):  # UnicodeError: a host name that IDNA cannot encode
            return BackendOutcome.FAILED, None
        if begun is None:
            self._measure(backend.name, started)
        self._telemetry.record_malformed(backend.name, reading.malformed)
        return reading.outcome(reply), reading

    async def _error_outcome(self, name: str, reply: Http1Response, started: float) -> BackendOutcome:
        try:
            await reply.whole(ERROR_BYTES_MAX)
        except ResponseTooLong:
            pass  # the connection is closed then, and the status suffices
        if reply.status >= 500:
            return BackendOutcome.ERROR
        self._measure(name, started)
        return BackendOutcome.NOTHING if reply.status == 404 else BackendOutcome.REFUSED

    def _measure(self, name: str, started: float) -> None:
        now = self._clock.now()
        self._tracker.on_response(name, now - started, now)
        self._telemetry.record_response(name, now - started)
