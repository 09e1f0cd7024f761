"""Runs the scatter machine of one query: performs its effects and posts responses, failures and timeouts to it.

Events are posted from the done callbacks of the requests, and the waiting caller is woken only at the end, not for
every response: with hundreds of nodes the wake-ups would dominate. Leaving the context cancels all requests in flight,
so a cancelled caller leaves nothing behind.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from math import inf
from types import TracebackType
from typing import Generic, Self, TypeVar

from argosy.base.clock import Clock
from argosy.base.errors import NotOwner, Throttled, Unavailable
from argosy.gateway.load_balancer import LoadBalancer
from argosy.gateway.ports import Unserved
from argosy.gateway.scatter_machine import (
    CancelReason,
    CancelRequest,
    Event,
    NodeRequest,
    RequestFailed,
    ResponseReceived,
    ScatterMachine,
    SendRequest,
)
from argosy.gateway.telemetry import GatewayTelemetry
from argosy.search.model import Missing, MissingReason

T = TypeVar("T")

BLAME_AFTER_S = 1.0  # a request that times out sooner is no sign of a slow node: the query's time was short
WAIT_S_MIN = 1e-6  # keeps the loop from spinning if its clock lags behind ours


class ScatterRunner(Generic[T]):
    """Use as `async with`; then `wait_done`, or `step` until it returns False."""

    def __init__(
        self,
        machine: ScatterMachine,
        unroutable: Iterable[Missing],
        send: Callable[[NodeRequest], Awaitable[T]],
        missing_in: Callable[[T], tuple[Missing, ...]],
        *,
        balancer: LoadBalancer,
        telemetry: GatewayTelemetry,
        clock: Clock,
    ) -> None:
        """`unroutable`: repositories that have no node to send to. `missing_in` returns what a node could not serve.

        A coroutine returned by `send` becomes a task; a future is awaited as it is, which saves the task.
        """
        self.machine = machine
        self._unroutable = tuple(unroutable)
        self._send = send
        self._missing_in = missing_in
        self._balancer = balancer
        self._telemetry = telemetry
        self._clock = clock
        self._answers: dict[int, T] = {}
        self._in_flight: dict[int, tuple[NodeRequest, asyncio.Future[T], float]] = {}
        self._cancelled: list[asyncio.Future[T]] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf  # when the timer fires, by our clock
        self._waiter: asyncio.Future[None] | None = None  # of the caller, while it waits
        self._is_streaming = False  # the caller is woken on every change
        self._has_changed = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        self._feed(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for request, answer, _ in self._in_flight.values():
            answer.cancel()
            self._cancelled.append(answer)
            self._balancer.on_cancel(request.address, self._clock.now())
        self._in_flight.clear()
        self._telemetry.record_hedges(self.machine.hedges)
        # Awaited, so that no task of this query outlives it and its errors are not logged as never retrieved.
        if self._cancelled:
            await asyncio.gather(*self._cancelled, return_exceptions=True)

    async def wait_done(self) -> None:
        """Wait until every repository is answered or missing."""
        while not self.machine.is_over:
            await self._wait()
        self._check()

    async def step(self) -> bool:
        """Wait for the next change; False when the query is done and all changes were returned."""
        self._is_streaming = True
        if not self._has_changed:
            if self.machine.is_over:
                return False
            await self._wait()
        self._check()
        self._has_changed = False
        return True

    def answers(self) -> list[T]:
        """The accepted answers so far; their sets of repositories are disjoint."""
        return [self._answers[id] for id in self.machine.taken]

    def fresh(self, seen: set[str]) -> Iterator[tuple[T, frozenset[str]]]:
        """Accepted answers with the repositories not in `seen`; adds those to `seen`."""
        # A copy: the caller awaits between two answers, and others arrive meanwhile.
        for id, names in list(self.machine.taken.items()):
            if new := names - seen:
                seen |= new
                yield self._answers[id], new

    def missing(self) -> list[Missing]:
        """Repositories without an answer; raises Unserved if there is no answer at all."""
        result = [*self._unroutable, *self.machine.missing.values()]
        # Without any answer there is nothing to show: an error with a retry time, instead of an empty result (decision
        # 0022).
        if result and not self.machine.taken:
            raise Unserved(sorted(result, key=lambda each: each.repository))
        return result

    async def _wait(self) -> None:
        self._check()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _feed(self, event: Event | None) -> None:
        """Post an event to the machine, perform its effects and set the timer."""
        now = self._clock.now()
        for effect in self.machine.handle(event, now):
            match effect:
                case SendRequest(request):
                    self._begin(request, now)
                case CancelRequest(id, reason):
                    self._cancel(id, reason, now)
        deadline = self.machine.deadline()
        # A timer that fires too early only checks again; resetting it for every response would cost more.
        if deadline is not None and deadline < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = deadline
            self._timer = self._loop.call_later(max(WAIT_S_MIN, deadline - now), self._on_event, None)

    def _on_event(self, id: int | None) -> None:
        """A request has finished; None: the timer fired."""
        if id is None:
            self._timer, self._due = None, inf
        elif id not in self._in_flight:
            return  # cancelled before
        try:
            self._feed(None if id is None else self._event(id))
        except Exception as error:
            self._error = error  # raised in the waiting caller
        self._has_changed = True
        is_due = self._is_streaming or self._error is not None or self.machine.is_over
        if is_due and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _begin(self, request: NodeRequest, now: float) -> None:
        self._balancer.on_start(request.address, now)
        pending = self._send(request)
        answer = pending if isinstance(pending, asyncio.Future) else asyncio.ensure_future(pending)
        self._in_flight[request.id] = request, answer, now
        answer.add_done_callback(lambda _: self._on_event(request.id))

    def _cancel(self, id: int, reason: CancelReason, now: float) -> None:
        request, answer, began = self._in_flight.pop(id)
        # A node that exceeds the deadline of an ordinary query counts as failing; one that was given only a moment,
        # because the query asked for a short time or waited in the queue, does not.
        if reason is CancelReason.TIMED_OUT and now - began >= BLAME_AFTER_S:
            self._balancer.on_failure(request.address, now)
        else:
            self._balancer.on_overtaken(request.address, now - began, now)
        self._record(request.address, reason.value)
        answer.cancel()
        self._cancelled.append(answer)

    def _event(self, id: int) -> Event:
        """The machine event of a finished request."""
        request, answer, began = self._in_flight.pop(id)
        now = self._clock.now()
        # Cancelled by someone else than this runner, such as a connection that closed: the same as unreachable.
        error = answer.exception() if not answer.cancelled() else Unavailable("request cancelled")
        if error is None:
            self._balancer.on_response(request.address, now - began, now)
            self._record(request.address, "answered", now - began)
            found = self._answers[id] = answer.result()
            return ResponseReceived(id, self._missing_in(found))
        if isinstance(error, Unavailable | OSError):
            self._balancer.on_failure(request.address, now)
            self._record(request.address, "failed")
            return RequestFailed(id, MissingReason.FAILED, _error_text(request.address, error))
        # The node has responded, so it works; the error concerns this request only.
        self._balancer.on_refusal(request.address, now)
        self._record(request.address, "refused")
        if isinstance(error, NotOwner):
            return RequestFailed(id, MissingReason.UNOWNED, str(error))
        # A node that throttles works; another holder may have capacity.
        if isinstance(error, Throttled):
            return RequestFailed(id, MissingReason.FAILED, _error_text(request.address, error))
        raise error  # an invalid query, or a bug: it would fail on every other node as well

    def _record(self, address: str, outcome: str, took_s: float | None = None) -> None:
        self._telemetry.record_node_request(address, outcome, took_s, state=self._balancer.breaker(address).state)


def _error_text(address: str, error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if address in text else f"{address}: {text}"
