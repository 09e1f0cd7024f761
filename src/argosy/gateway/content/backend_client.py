"""One question to one indexer, and how it ended; whatever goes wrong on the way is an outcome, not an exception."""

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
Told = tuple[BackendOutcome, ParsedReply[T] | None]


class BackendClient:
    """Asks, and tells the book how long it took; that a question began and ended is told to it by whoever orders it."""

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
    ) -> Told[T]:
        """`begun` is called for a reply that is going to arrive piece by piece, when its head is there."""
        started = self._clock.now()
        try:
            async with asyncio.timeout(within_s):
                with await self._client.ask(backend.place, question.request(backend)) as reply:
                    if reply.status != 200:
                        return await self._refused(backend.name, reply, started), None
                    if begun is not None:
                        self._measure(backend.name, started)
                        begun(reply)
                    reading = await read(reply)
        except TimeoutError:
            return BackendOutcome.TIMED_OUT, None
        except (Invalid, ResponseTooLong):
            self._telemetry.record_malformed(backend.name, 1)
            return BackendOutcome.MALFORMED, None
        except (OSError, UnicodeError):  # the latter for a host that has no name in DNS's alphabet
            return BackendOutcome.FAILED, None
        if begun is None:
            self._measure(backend.name, started)
        self._telemetry.record_malformed(backend.name, reading.malformed)
        return reading.outcome(reply), reading

    async def _refused(self, name: str, reply: Http1Response, started: float) -> BackendOutcome:
        try:
            await reply.whole(ERROR_BYTES_MAX)
        except ResponseTooLong:
            pass  # its connection is closed, and its status says enough
        if reply.status >= 500:
            return BackendOutcome.ERROR
        self._measure(name, started)
        return BackendOutcome.NOTHING if reply.status == 404 else BackendOutcome.REFUSED

    def _measure(self, name: str, started: float) -> None:
        now = self._clock.now()
        self._tracker.on_response(name, now - started, now)
        self._telemetry.record_response(name, now - started)
