"""Puts questions to the fleet: chooses whom to ask first, bounds how much is asked at a time, and keeps the books on
every node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from types import TracebackType
from typing import Generic, TypeVar

from argosy.base.clock import Clock
from argosy.gateway.adaptive_limiter import AdaptiveLimiter, QueryQueue
from argosy.gateway.errors import Overloaded
from argosy.gateway.load_balancer import LoadBalancer
from argosy.gateway.route import QueryTargets, Router
from argosy.gateway.scatter_machine import NodeRequest, ScatterMachine
from argosy.gateway.scatter_runner import ScatterRunner
from argosy.gateway.settings import GatewaySettings
from argosy.gateway.telemetry import GatewayTelemetry
from argosy.search.fleet.ports import Node, Nodes
from argosy.search.model import Missing, MissingReason

T = TypeVar("T")

WALL_S_MIN = 0.01  # a node is given at least this long, however late it is asked
BUSY_RETRY_S = 1.0

Call = Callable[[Node, tuple[str, ...], float], Awaitable[T]]  # a node, repositories, and how long it may take


class LiveReplicas:
    """Implements `Holders` on the map as it is at every moment, and on what is known of the nodes."""

    def __init__(self, router: Router, balancer: LoadBalancer) -> None:
        self._router = router
        self._balancer = balancer

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        held = self._router.routes().holders.get(name, ())
        return self._balancer.pick([address for address in held if address not in tried], now)

    def hedge_after_s(self, address: str) -> float:
        return self._balancer.hedge_after_s(address)

    def may_hedge(self) -> bool:
        return self._balancer.may_hedge()


class Dispatcher:
    """One front door's way to its nodes."""

    def __init__(
        self,
        nodes: Nodes,
        router: Router,
        balancer: LoadBalancer,
        settings: GatewaySettings,
        telemetry: GatewayTelemetry,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._balancer = balancer
        self._holders = LiveReplicas(router, balancer)
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._in_flight = 0
        self._turns: QueryQueue[asyncio.Future[None]] = QueryQueue(AdaptiveLimiter(settings.queries_max))

    def scatter(
        self,
        targets: QueryTargets,
        call: Call[T],
        missing_in: Callable[[T], tuple[Missing, ...]],
        *,
        wall_s: float = 0.0,
    ) -> "ScatterCall[T]":
        """Asks for what is wanted. Nodes have `wall_s`, at most the deadline, to answer; 0 is all of it."""
        limit_s = self._settings.deadline_s
        ends_at = self._clock.now() + (min(wall_s, limit_s) if wall_s > 0 else limit_s)

        def ask(question: NodeRequest) -> Awaitable[T]:
            left_s = max(WALL_S_MIN, ends_at - self._clock.now())
            return call(self._nodes.at(question.address), question.names, left_s)

        def begun() -> ScatterRunner[T]:
            first, refused = self._assign(targets)
            machine = ScatterMachine(first.items(), self._holders, deadline=ends_at + self._settings.margin_s)
            unroutable = (*targets.missing, *refused)
            return ScatterRunner(
                machine,
                unroutable,
                ask,
                missing_in,
                balancer=self._balancer,
                telemetry=self._telemetry,
                clock=self._clock,
            )

        return ScatterCall(self, begun)

    async def enter(self) -> "_QuerySlot":
        """Begins when few enough are under way, or after a moment all the same; Overloaded if too many wait."""
        if self._in_flight >= self._settings.queries_max:
            raise Overloaded(
                f"{self._in_flight} queries are under way, as many as queries_max allows: come back shortly",
                retry_after_s=BUSY_RETRY_S,
            )
        self._in_flight += 1
        self._telemetry.in_flight(self._in_flight)
        try:
            if not self._turns.may_begin():
                await self._wait()
        except BaseException:
            self._leave()
            raise
        return _QuerySlot(self._turns, self._clock, self._settings.turn_s)

    def leave(self, turn: "_QuerySlot") -> None:
        turn.end()
        self._leave()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._turns.wait(turn)
        timer = loop.call_later(self._settings.turn_s, _wake, turn)
        try:
            await turn
        finally:
            timer.cancel()
            self._turns.leave(turn)

    def _leave(self) -> None:
        self._in_flight -= 1
        self._telemetry.in_flight(self._in_flight)

    def _assign(self, targets: QueryTargets) -> tuple[dict[str, tuple[str, ...]], list[Missing]]:
        """Whom to ask for what, one question for each node; and what cannot be asked for, all holders being down."""
        now = self._clock.now()
        first: dict[str, tuple[str, ...]] = {}
        refused: list[Missing] = []
        for group in targets.groups:
            address = self._balancer.pick(group.addresses, now)
            if address is None:
                wait_s = min(self._balancer.breaker(each).retry_at for each in group.addresses) - now
                detail = f"{' and '.join(group.addresses)} kept failing; asked again in {max(0.0, wait_s):.1f} s"
                refused += [Missing(name, MissingReason.FAILED, detail) for name in group.names]
            else:
                first[address] = first.get(address, ()) + group.names
        return first, refused


class ScatterCall(Generic[T]):
    """One query's way through the fleet, from its turn to its end."""

    def __init__(self, dispatcher: Dispatcher, begun: Callable[[], ScatterRunner[T]]) -> None:
        self._dispatcher = dispatcher
        self._begun = begun
        self._turn: _QuerySlot
        self._work: ScatterRunner[T]

    async def __aenter__(self) -> ScatterRunner[T]:
        self._turn = await self._dispatcher.enter()
        try:
            self._work = self._begun()
            return await self._work.__aenter__()
        except BaseException:
            self._dispatcher.leave(self._turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._work.__aexit__(kind, error, traceback)
        finally:
            self._dispatcher.leave(self._turn)


class _QuerySlot:
    """A query's turn: until it ends, and for a moment only."""

    def __init__(self, turns: QueryQueue[asyncio.Future[None]], clock: Clock, turn_s: float) -> None:
        turns.begin()
        self._turns = turns
        self._clock = clock
        self._began = clock.now()
        self._is_over = False
        self._timer = asyncio.get_running_loop().call_later(turn_s, self.end)

    def end(self) -> None:
        """Once is enough."""
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            for turn in self._turns.end(self._clock.now() - self._began):
                _wake(turn)


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)
