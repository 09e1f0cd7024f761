"""Dispatches queries to nodes: assigns repositories to replicas, queues queries above the adaptive limit, and rejects
queries above the hard limit.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from argosy.base.clock import Clock
from argosy.gateway.adaptive_limiter import AdaptiveLimiter, QueryQueue
from argosy.gateway.load_balancer import LoadBalancer
from argosy.gateway.ports import Overloaded
from argosy.gateway.route import QueryTargets
from argosy.gateway.scatter_machine import NodeRequest, ScatterMachine
from argosy.gateway.scatter_runner import ScatterRunner
from argosy.gateway.settings import GatewaySettings
from argosy.gateway.telemetry import GatewayTelemetry
from argosy.search.fleet.ports import Node, Nodes
from argosy.search.model import Missing, MissingReason

T = TypeVar("T")

WALL_S_MIN = 0.01  # shortest time limit sent to a node, however late the request is
# Queries take milliseconds to a second, so slots are free again soon.
BUSY_RETRY_S = 1.0

Call = Callable[[Node, tuple[str, ...], float], Awaitable[T]]  # node, repositories, time limit in seconds


class Dispatcher:
    """Sends the queries of one gateway to its nodes."""

    def __init__(
        self,
        nodes: Nodes,
        balancer: LoadBalancer,
        settings: GatewaySettings,
        telemetry: GatewayTelemetry,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._balancer = balancer
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._in_flight = 0
        self._queue: QueryQueue[asyncio.Future[None]] = QueryQueue(AdaptiveLimiter(settings.queries_max))

    @asynccontextmanager
    async def scatter(
        self,
        targets: QueryTargets,
        call: Call[T],
        missing_in: Callable[[T], tuple[Missing, ...]],
        *,
        wall_s: float = 0.0,
    ) -> AsyncIterator[ScatterRunner[T]]:
        """Run one query: wait for a slot, then send its requests. Leaving the context cancels those in flight.

        Nodes get `wall_s` to respond, at most the deadline; 0 means the deadline. The time spent in the queue counts.
        """
        limit_s = self._settings.deadline_s
        ends_at = self._clock.now() + (min(wall_s, limit_s) if wall_s > 0 else limit_s)

        def send(request: NodeRequest) -> Awaitable[T]:
            left_s = max(WALL_S_MIN, ends_at - self._clock.now())
            return call(self._nodes.at(request.address), request.names, left_s)

        slot = await self._enter()
        try:
            first, unavailable = self._assign(targets)
            # A node stops at `ends_at` and returns what it has; the margin is for that response to arrive.
            machine = ScatterMachine(first.items(), self._balancer, deadline=ends_at + self._settings.margin_s)
            async with ScatterRunner(
                machine,
                (*targets.missing, *unavailable),
                send,
                missing_in,
                balancer=self._balancer,
                telemetry=self._telemetry,
                clock=self._clock,
            ) as runner:
                yield runner
        finally:
            slot.end()
            self._leave()

    async def _enter(self) -> "_QuerySlot":
        """Wait for a slot, at most `queue_wait_s`; raises Overloaded above `queries_max`."""
        # Queued queries count: each holds a connection and memory, so the queue needs a bound, too.
        if self._in_flight >= self._settings.queries_max:
            raise Overloaded(
                f"gateway overloaded: {self._in_flight} queries in progress (gateway.queries_max); retry",
                retry_after_s=BUSY_RETRY_S,
            )
        self._in_flight += 1
        self._telemetry.set_in_flight(self._in_flight)
        try:
            if not self._queue.may_begin():
                await self._wait()
        except BaseException:
            # On cancellation too: a client that disconnects while queued must not count as in progress forever.
            self._leave()
            raise
        return _QuerySlot(self._queue, self._clock, self._settings.queue_wait_s)

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()
        self._queue.wait(slot)
        # After queue_wait_s the query runs anyway: the limit smooths bursts, and must not turn a stalled node into a
        # gateway that serves nothing (decision 0031).
        timer = loop.call_later(self._settings.queue_wait_s, _wake, slot)
        try:
            await slot
        finally:
            timer.cancel()
            self._queue.leave(slot)

    def _leave(self) -> None:
        self._in_flight -= 1
        self._telemetry.set_in_flight(self._in_flight)

    def _assign(self, targets: QueryTargets) -> tuple[dict[str, tuple[str, ...]], list[Missing]]:
        """One request per node, and the repositories that cannot be searched because all holders' circuits are open."""
        now = self._clock.now()
        first: dict[str, tuple[str, ...]] = {}
        unavailable: list[Missing] = []
        for group in targets.groups:
            # Once per group and query: repositories with the same holders go to the same node in one request.
            address = self._balancer.pick(group.addresses, now)
            if address is None:
                wait_s = min(self._balancer.breaker(each).retry_at for each in group.addresses) - now
                detail = f"circuit open for {', '.join(group.addresses)}; next attempt in {max(0.0, wait_s):.1f} s"
                unavailable += [Missing(name, MissingReason.FAILED, detail) for name in group.names]
            else:
                first[address] = first.get(address, ()) + group.names
        return first, unavailable


class _QuerySlot:
    """A slot of the adaptive limit, freed when the query ends or after `queue_wait_s`, whichever is first.

    A slot held for the whole of a long query would block short ones behind a stalled node.
    """

    def __init__(self, queue: QueryQueue[asyncio.Future[None]], clock: Clock, queue_wait_s: float) -> None:
        queue.begin()
        self._queue = queue
        self._clock = clock
        self._began = clock.now()
        self._is_over = False
        self._timer = asyncio.get_running_loop().call_later(queue_wait_s, self.end)

    def end(self) -> None:
        """Free the slot; idempotent."""
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            for waiter in self._queue.end(self._clock.now() - self._began):
                _wake(waiter)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
