"""Sends requests to indexers: selects the indexers, bounds the finds in progress, and records every outcome.

Statistics and circuit breakers of an indexer see each request exactly once: `on_start` before it is sent, then one
`on_end` or `on_cancel` from the done callback of its task, whatever happened to the caller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from argosy.base.clock import Clock, Random
from argosy.base.errors import Invalid, Unavailable
from argosy.gateway.content.backend_protocol import BackendRequest, ParsedReply, read_stream
from argosy.gateway.content.backend_tracker import BackendTracker
from argosy.gateway.content.find_stream import FindStream
from argosy.gateway.content.gather_machine import GatherMachine
from argosy.gateway.content.gather_runner import GatherRunner, IsFound, ReadOutcome
from argosy.gateway.content.http1_client import Http1Client, Http1Response, ResponseTooLong
from argosy.gateway.content.model import Backend, BackendOutcome, MissingBackend
from argosy.gateway.content.telemetry import ContentTelemetry
from argosy.gateway.ports import Overloaded
from argosy.gateway.settings import ContentSettings

T = TypeVar("T")

# Finds take milliseconds, so a full gateway has free slots again within a second.
BUSY_RETRY_S = 1.0
ERROR_BYTES_MAX = 64 * 1024  # read of an error response, so that its connection can be reused

Read = Callable[[Http1Response], Awaitable[ParsedReply[T]]]
Gathered = tuple[list[ParsedReply[T]], tuple[MissingBackend, ...]]


class ContentDispatcher:
    """The requests of one content gateway to its indexers. Call `close`."""

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
        # References, because the event loop holds its tasks only weakly.
        self._late: set[asyncio.Task[Any]] = set()
        self._in_flight = 0
        # The current pool, to recognise requests that outlive their indexer's membership.
        self._names: set[str] = set()

    async def gather(
        self,
        backends: Sequence[Backend],
        request: BackendRequest,
        read: Read[T],
        *,
        is_one_enough: bool = False,
        is_found: IsFound[T] | None = None,
    ) -> Gathered[T]:
        """The responses of the indexers, in the order of `backends`, and the indexers missing from them."""
        within_s = self._settings.find_s
        with self._slot():
            runner: GatherRunner[T]
            runner, admitted = self._admit_backends(
                backends, within_s=within_s, is_one_enough=is_one_enough, is_found=is_found
            )
            for backend in admitted:
                runner.start(backend.name, self._query(backend, request, read, within_s=within_s))
            try:
                await runner.wait(runner.machine.is_over)
            # On cancellation too: requests of a client that has disconnected must not go on.
            except BaseException:
                await runner.cancel()
                raise
        # A late request runs on to its own deadline: without its latency the indexer would be late forever.
        for task in runner.tasks:
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        replies = dict(runner.replies)
        missing = runner.machine.missing(self._clock.now())
        return [replies[each.name] for each in backends if each.name in replies], missing

    @contextmanager
    def open_stream(
        self, backends: Sequence[Backend], request: BackendRequest, multihash: bytes
    ) -> Iterator[FindStream]:
        """Start a streamed find; the caller closes the stream."""
        within_s = self._settings.stream_s
        with self._slot():
            runner: GatherRunner[None]
            runner, admitted = self._admit_backends(backends, within_s=within_s)
            stream = FindStream(runner, self._clock)
            for backend in admitted:
                name = backend.name
                read = partial(read_stream, multihash=multihash, put_part=partial(runner.put_part, name))
                on_head: Callable[[Http1Response], None] = partial(stream.on_head, name)
                runner.start(name, self._query(backend, request, read, within_s=within_s, on_head=on_head))
            yield stream

    def retain_only(self, backends: Sequence[Backend]) -> None:
        """Drop the state of other indexers once no request to them is in flight."""
        self._names = {each.name for each in backends}
        self._telemetry.remove_backends(self._tracker.retain_only(self._names))

    async def close(self) -> None:
        """Cancel requests to late indexers."""
        late = list(self._late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        self._client.close()

    def _admit_backends(
        self,
        backends: Sequence[Backend],
        *,
        within_s: float,
        is_one_enough: bool = False,
        is_found: IsFound[Any] | None = None,
    ) -> tuple[GatherRunner[Any], list[Backend]]:
        """The runner of a find, and the indexers that are neither busy nor behind an open circuit."""
        if not backends:
            raise Unavailable("no indexers configured; set content.backends or content.pool_file")
        now = self._clock.now()
        indexers: dict[str, float | BackendOutcome] = {}
        admitted: list[Backend] = []
        for backend in backends:
            name = backend.name
            why = self._tracker.refusal(name, now)
            if why is None:
                # Recorded before any request is sent, so that a half-open breaker admits a single probe.
                self._tracker.on_start(name, now)
                admitted.append(backend)
                indexers[name] = self._tracker.patience_s(name)
            else:
                indexers[name] = why
                self._telemetry.record_skip(name, why, self._tracker.state(name))
        machine = GatherMachine(indexers, now=now, deadline_s=within_s, is_one_enough=is_one_enough)
        return GatherRunner(machine, self._clock, self._on_outcome, is_found), admitted

    async def _query(
        self,
        backend: Backend,
        request: BackendRequest,
        read: Read[T],
        *,
        within_s: float,
        on_head: Callable[[Http1Response], None] | None = None,
    ) -> ReadOutcome[T]:
        """Send one request to one indexer. Every failure becomes an outcome, because the others go on.

        `on_head` is called when the head of a streamed response has arrived.
        """
        started = self._clock.now()
        try:
            async with asyncio.timeout(within_s):
                with await self._client.send(backend.address, request.encode(backend)) as reply:
                    if reply.status != 200:
                        return await self._read_error(backend.name, reply, started), None
                    if on_head is not None:
                        # A stream is as long as its content, so only the time to its head is the indexer's latency.
                        self._record_latency(backend.name, started)
                        on_head(reply)
                    parsed = await read(reply)
        # Before OSError, of which TimeoutError is a subclass: a deadline counts as slow, not as unreachable.
        except TimeoutError:
            return BackendOutcome.TIMED_OUT, None
        except (Invalid, ResponseTooLong):
            self._telemetry.record_malformed(backend.name, 1)
            return BackendOutcome.MALFORMED, None
        except (OSError, UnicodeError):  # UnicodeError: a host name that IDNA cannot encode
            return BackendOutcome.FAILED, None
        if on_head is None:
            self._record_latency(backend.name, started)
        self._telemetry.record_malformed(backend.name, parsed.malformed)
        return parsed.outcome(reply), parsed

    async def _read_error(self, name: str, reply: Http1Response, started: float) -> BackendOutcome:
        try:
            await reply.read_all(ERROR_BYTES_MAX)
        except ResponseTooLong:
            pass  # the connection is closed then, and the status suffices
        if reply.status >= 500:
            return BackendOutcome.ERROR
        self._record_latency(name, started)  # a status below 500 proves that the indexer works
        return BackendOutcome.NOTHING if reply.status == 404 else BackendOutcome.REFUSED

    def _record_latency(self, name: str, started: float) -> None:
        now = self._clock.now()
        self._tracker.on_response(name, now - started, now)
        self._telemetry.record_response(name, now - started)

    def _on_outcome(self, name: str, outcome: BackendOutcome | None, records: int) -> None:
        """A request has ended; None: its caller cancelled it."""
        now = self._clock.now()
        if outcome is None:
            self._tracker.on_cancel(name, now)
        else:
            self._tracker.on_end(name, outcome, now)
            self._telemetry.record_outcome(name, outcome, self._tracker.state(name), records=records)
        if name not in self._names:  # it left the pool while the request was in flight
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
