"""Puts questions to indexers: decides whom to ask, bounds how much is asked at a time, and keeps the books."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.gateway.content import reply_parser
from argosy.gateway.content.backend_client import BackendClient, Read
from argosy.gateway.content.backend_requests import BackendRequest
from argosy.gateway.content.backend_tracker import BackendTracker
from argosy.gateway.content.find_stream import FindStream
from argosy.gateway.content.gather_machine import GatherMachine
from argosy.gateway.content.gather_runner import GatherRunner, IsFound
from argosy.gateway.content.http1_client import Http1Client, Http1Response
from argosy.gateway.content.model import Backend, BackendOutcome, MissingBackend
from argosy.gateway.content.reply_parser import ParsedReply
from argosy.gateway.content.telemetry import ContentTelemetry
from argosy.gateway.errors import Overloaded
from argosy.gateway.settings import ContentSettings

T = TypeVar("T")

BUSY_RETRY_S = 1.0

Gathered = tuple[list[ParsedReply[T]], tuple[MissingBackend, ...]]


class ContentDispatcher:
    """One front door's way to its indexers. `close` it."""

    def __init__(
        self,
        settings: ContentSettings,
        client: Http1Client,
        telemetry: ContentTelemetry,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._settings = settings
        self._client = client
        self._telemetry = telemetry
        self._clock = clock
        self._tracker = BackendTracker(settings, random)
        self._backend_client = BackendClient(client, self._tracker, telemetry, clock)
        self._lingering: set[asyncio.Task[Any]] = set()
        self._in_flight = 0
        self._names: set[str] = set()

    async def gathered(
        self,
        backends: Sequence[Backend],
        question: BackendRequest,
        read: Read[T],
        *,
        is_one_enough: bool = False,
        is_found: IsFound[T] | None = None,
    ) -> Gathered[T]:
        """What indexers said, in their order here, and who is missing.

        Whoever is late goes on in the background until its time is up, so that it is known how late it was.
        """
        within_s = self._settings.find_s
        with self._slot():
            gathering: GatherRunner[T]
            gathering, asked = self._opened(backends, within_s=within_s, is_one_enough=is_one_enough, is_found=is_found)
            for backend in asked:
                gathering.start(backend.name, self._backend_client.ask(backend, question, read, within_s=within_s))
            try:
                await gathering.wait(gathering.machine.is_over)
            except BaseException:
                await gathering.cancel()
                raise
        for task in gathering.tasks:
            self._lingering.add(task)
            task.add_done_callback(self._lingering.discard)
        readings = dict(gathering.readings)
        return [readings[each.name] for each in backends if each.name in readings], gathering.machine.missing(
            self._clock.now()
        )

    @contextmanager
    def streamed(self, backends: Sequence[Backend], question: BackendRequest, multihash: bytes) -> Iterator[FindStream]:
        """Start a streamed find; the caller closes the stream."""
        within_s = self._settings.stream_s
        with self._slot():
            gathering: GatherRunner[None]
            gathering, asked = self._opened(backends, within_s=within_s)
            stream = FindStream(gathering, self._clock)
            for backend in asked:
                name = backend.name
                read = partial(reply_parser.read_stream, asked=multihash, give=partial(gathering.give, name))
                begun: Callable[[Http1Response], None] = partial(stream.begun, name)
                gathering.start(name, self._backend_client.ask(backend, question, read, within_s=within_s, begun=begun))
            yield stream

    def retain_only(self, backends: Sequence[Backend]) -> None:
        """Drop the state of other indexers once no request to them is in flight."""
        self._names = {each.name for each in backends}
        self._telemetry.remove_backends(self._tracker.retain_only(self._names))

    async def close(self) -> None:
        """Cancel requests to late indexers."""
        lingering = list(self._lingering)
        for task in lingering:
            task.cancel()
        await asyncio.gather(*lingering, return_exceptions=True)
        self._client.close()

    def _opened(
        self,
        backends: Sequence[Backend],
        *,
        within_s: float,
        is_one_enough: bool = False,
        is_found: IsFound[Any] | None = None,
    ) -> tuple[GatherRunner[Any], list[Backend]]:
        """Start is recorded before any request is sent, so that a half-open breaker admits a single probe."""
        if not backends:
            raise Unavailable("no indexers configured; set content.backends or content.pool_file")
        now = self._clock.now()
        indexers: dict[str, float | BackendOutcome] = {}
        asked: list[Backend] = []
        for backend in backends:
            name = backend.name
            why = self._tracker.refusal(name, now)
            if why is None:
                self._tracker.on_start(name, now)
                asked.append(backend)
                indexers[name] = self._tracker.patience_s(name)
            else:
                indexers[name] = why
                self._telemetry.record_skip(name, why, self._tracker.state(name))
        machine = GatherMachine(indexers, now=now, deadline_s=within_s, is_one_enough=is_one_enough)
        return GatherRunner(machine, self._clock, self._settled, is_found), asked

    def _settled(self, name: str, outcome: BackendOutcome | None, records: int) -> None:
        now = self._clock.now()
        if outcome is None:
            self._tracker.on_cancel(name, now)
        else:
            self._tracker.on_end(name, outcome, now)
            self._telemetry.record_outcome(name, outcome, self._tracker.state(name), records=records)
        if name not in self._names:
            self._telemetry.remove_backends(self._tracker.retain_only(self._names))

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if self._in_flight >= self._settings.finds_max:
            raise Overloaded(
                f"content gateway overloaded: {self._in_flight} finds in progress (content.finds_max); retry",
                retry_after_s=BUSY_RETRY_S,
            )
        self._in_flight += 1
        self._telemetry.set_in_flight(self._in_flight)
        try:
            yield
        finally:
            self._in_flight -= 1
            self._telemetry.set_in_flight(self._in_flight)
