"""One question to one indexer, and how it ended; whatever goes wrong on the way is an outcome, not an exception."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from argosy.base.clock import Clock
from argosy.base.errors import Invalid
from argosy.gateway.content.backend_requests import Question
from argosy.gateway.content.backend_tracker import Book
from argosy.gateway.content.http1_client import Client, Reply, TooLong
from argosy.gateway.content.model import Backend, Outcome
from argosy.gateway.content.reply_parser import Reading
from argosy.gateway.content.telemetry import Teller

T = TypeVar("T")

ERROR_BYTES_MAX = 64 * 1024  # what is read of a refusal, to keep its connection

Read = Callable[[Reply], Awaitable[Reading[T]]]
Told = tuple[Outcome, Reading[T] | None]


class Asker:
    """Asks, and tells the book how long it took; that a question began and ended is told to it by whoever orders it."""

    def __init__(self, client: Client, book: Book, teller: Teller, clock: Clock) -> None:
        self._client = client
        self._book = book
        self._teller = teller
        self._clock = clock

    async def ask(
        self,
        backend: Backend,
        question: Question,
        read: Read[T],
        *,
        within_s: float,
        begun: Callable[[Reply], None] | None = None,
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
            return Outcome.TIMED_OUT, None
        except (Invalid, TooLong):
            self._teller.malformed(backend.name, 1)
            return Outcome.MALFORMED, None
        except (OSError, UnicodeError):  # the latter for a host that has no name in DNS's alphabet
            return Outcome.FAILED, None
        if begun is None:
            self._measure(backend.name, started)
        self._teller.malformed(backend.name, reading.malformed)
        return reading.outcome(reply), reading

    async def _refused(self, name: str, reply: Reply, started: float) -> Outcome:
        try:
            await reply.whole(ERROR_BYTES_MAX)
        except TooLong:
            pass  # its connection is closed, and its status says enough
        if reply.status >= 500:
            return Outcome.ERROR
        self._measure(name, started)
        return Outcome.NOTHING if reply.status == 404 else Outcome.REFUSED

    def _measure(self, name: str, started: float) -> None:
        now = self._clock.now()
        self._book.answered(name, now - started, now)
        self._teller.answered(name, now - started)
