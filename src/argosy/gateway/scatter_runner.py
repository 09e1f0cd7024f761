"""One query on its way through the fleet: carries out what the scatter machine orders, and tells it what comes back.

The machine is told from the callbacks of what it waits for; whoever waits for the whole is woken when there is nothing
left to wait for, and not for every answer. Leaving the context ends every question that is still under way, so a caller
who is cancelled leaves nothing behind.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from math import inf
from types import TracebackType
from typing import Generic, Self, TypeVar

from argosy.base.clock import Clock
from argosy.base.errors import NotOwner, Throttled, Unavailable
from argosy.gateway.errors import Unserved
from argosy.gateway.load_balancer import LoadBalancer
from argosy.gateway.scatter_machine import (
    CancelReason,
    CancelRequest,
    Effect,
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

BLAMED_AFTER_S = 1.0  # who is given less time than that and does not answer need not be broken
WAIT_S_MIN = 1e-6  # keeps a clock that runs a little differently from the loop's from turning on the spot


class ScatterRunner(Generic[T]):
    """`async with`, then `settled`, or `step` until it says that nothing is left to wait for."""

    def __init__(
        self,
        machine: ScatterMachine,
        unroutable: Iterable[Missing],
        ask: Callable[[NodeRequest], Awaitable[T]],
        missing_in: Callable[[T], tuple[Missing, ...]],
        *,
        balancer: LoadBalancer,
        telemetry: GatewayTelemetry,
        clock: Clock,
    ) -> None:
        """`unasked`: nobody can be asked for these. `lacking` tells what a node could not answer for.

        What `ask` returns is waited for in a task of its own, unless it is a future already: that saves one.
        """
        self.machine = machine
        self._unroutable = tuple(unroutable)
        self._ask = ask
        self._missing_in = missing_in
        self._balancer = balancer
        self._telemetry = telemetry
        self._clock = clock
        self._answers: dict[int, T] = {}
        self._under_way: dict[int, tuple[NodeRequest, asyncio.Future[T], float]] = {}
        self._cancelled: list[asyncio.Future[T]] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf  # when the timer goes off, by our clock
        self._woken: asyncio.Future[None] | None = None  # while somebody waits
        self._is_stepping = False  # and wants to know of everything
        self._has_news = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        self._feed(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for question, answer, _ in self._under_way.values():
            answer.cancel()
            self._cancelled.append(answer)
            self._balancer.on_cancel(question.address, self._clock.now())
        self._under_way.clear()
        self._telemetry.record_hedges(self.machine.hedges)
        if self._cancelled:
            await asyncio.gather(*self._cancelled, return_exceptions=True)

    async def wait_done(self) -> None:
        """Waits until there is nothing left to wait for."""
        while not self.machine.is_over:
            await self._wait()
        self._check()

    async def step(self) -> bool:
        """Waits for something to happen; False, at once, when all is settled and was told."""
        self._is_stepping = True
        if not self._has_news:
            if self.machine.is_over:
                return False
            await self._wait()
        self._check()
        self._has_news = False
        return True

    def answers(self) -> list[T]:
        """Those that count so far; they are of disjoint sets of repositories."""
        return [self._answers[id] for id in self.machine.taken]

    def fresh(self, told: set[str]) -> Iterator[tuple[T, frozenset[str]]]:
        """The answers that say something of repositories not told of yet, and of which; `told` grows by them."""
        for id, names in self.machine.taken.items():
            if new := names - told:
                told |= new
                yield self._answers[id], new

    def missing(self) -> list[Missing]:
        """What the answers say nothing about; Unserved if that is all there was to say."""
        found = [*self._unroutable, *self.machine.missing.values()]
        if found and not self.machine.taken:
            raise Unserved(sorted(found, key=lambda each: each.repository))
        return found

    async def _wait(self) -> None:
        self._check()
        self._woken = self._loop.create_future()
        try:
            await self._woken
        finally:
            self._woken = None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _feed(self, event: Event | None) -> None:
        """Tells the machine, and does what it says."""
        now = self._clock.now()
        self._perform(self.machine.handle(event, now), now)
        deadline = self.machine.deadline()
        # A timer that goes off too soon only looks again: to set it anew for every answer would cost more.
        if deadline is not None and deadline < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = deadline
            self._timer = self._loop.call_later(max(WAIT_S_MIN, deadline - now), self._on_event, None)

    def _on_event(self, id: int | None) -> None:
        """A question has ended; None: the machine asked to be told of the time."""
        if id is None:
            self._timer, self._due = None, inf
        elif id not in self._under_way:
            return  # nobody waits for it any more
        try:
            self._feed(None if id is None else self._event(id))
        except Exception as error:
            self._error = error  # for whoever waits
        self._has_news = True
        is_due = self._is_stepping or self._error is not None or self.machine.is_over
        if is_due and self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _perform(self, effects: list[Effect], now: float) -> None:
        for effect in effects:
            match effect:
                case SendRequest(question):
                    self._begin(question, now)
                case CancelRequest(id, reason):
                    self._cancel(id, reason, now)

    def _begin(self, question: NodeRequest, now: float) -> None:
        self._balancer.on_start(question.address, now)
        asked = self._ask(question)
        answer = asked if isinstance(asked, asyncio.Future) else asyncio.ensure_future(asked)
        self._under_way[question.id] = question, answer, now
        answer.add_done_callback(lambda _: self._on_event(question.id))

    def _cancel(self, id: int, reason: CancelReason, now: float) -> None:
        question, answer, began = self._under_way.pop(id)
        if reason is CancelReason.TIMED_OUT and now - began >= BLAMED_AFTER_S:
            self._balancer.on_failure(question.address, now)
        else:
            self._balancer.on_overtaken(question.address, now - began, now)
        self._record(question.address, reason.value)
        answer.cancel()
        self._cancelled.append(answer)

    def _event(self, id: int) -> Event:
        """What a finished question means."""
        question, answer, began = self._under_way.pop(id)
        now = self._clock.now()
        error = answer.exception() if not answer.cancelled() else Unavailable("the question was called off")
        if error is None:
            self._balancer.on_response(question.address, now - began, now)
            self._record(question.address, "answered", now - began)
            found = self._answers[id] = answer.result()
            return ResponseReceived(id, self._missing_in(found))
        if isinstance(error, Unavailable | OSError):
            self._balancer.on_failure(question.address, now)
            self._record(question.address, "failed")
            return RequestFailed(id, MissingReason.FAILED, _error_text(question.address, error))
        self._balancer.on_refusal(question.address, now)
        self._record(question.address, "refused")
        if isinstance(error, NotOwner):
            return RequestFailed(id, MissingReason.UNOWNED, str(error))
        if isinstance(error, Throttled):
            return RequestFailed(id, MissingReason.FAILED, _error_text(question.address, error))
        raise error  # the record_node_request itself is wrong, or the program is

    def _record(self, address: str, outcome: str, took_s: float | None = None) -> None:
        self._telemetry.record_node_request(address, outcome, took_s, state=self._balancer.breaker(address).state)


def _error_text(address: str, error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if address in text else f"{address}: {text}"
