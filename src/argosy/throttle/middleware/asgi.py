"""Admission in front of any ASGI application.

    app.add_middleware(FairAdmission, throttle=FairThrottle())          # Starlette, FastAPI
    app = FairAdmission(app, FairThrottle())                            # anything else

A request that is let through goes on untouched, and when its answer is complete the outcome is reported. Lifespan
messages and, unless asked for, websockets pass by. `FairAdmission` waits for nothing but the application (THR-2);
`LimitAdmission` waits for its limiter, and for that no longer than `wait_s_max`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import Response

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Unavailable
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.limits.ports import RateLimiter
from argosy.throttle.middleware import headers
from argosy.throttle.middleware.admitters import FairAdmitter, Quota, QuotaAdmitter
from argosy.throttle.middleware.extractors import Extractor
from argosy.throttle.middleware.outcomes import TRY_AGAIN_LATER, OutcomeRules, OutcomeTracker
from argosy.throttle.middleware.requests import AsgiRequest
from argosy.throttle.middleware.rules import AdmissionRequest, CostOf, RequestRules

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

WAIT_S_MAX = 0.25  # for a limiter; who is not answered by then passes, or is turned away
DENIAL = "websocket.http.response"  # the extension by which a websocket can be refused with a status

_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")


class FairAdmission:
    """Lets everybody pass as long as nothing fails; then turns away those who fail most."""

    def __init__(
        self,
        app: App,
        throttle: FairThrottle,
        *,
        client_of: Extractor | None = None,
        cost_of: CostOf | None = None,
        outcomes: OutcomeRules | None = None,
        exempt: Iterable[str] = (),
        admits_websockets: bool = False,
        name: str = "fair",
    ) -> None:
        """By default clients are told apart by their addresses. `exempt` are paths, all beneath them included."""
        self._app = app
        self._fair = FairAdmitter(throttle, name)
        self._door = RequestRules(client_of, cost_of, exempt)
        self._outcomes = outcomes or OutcomeRules()
        self._kinds = _kinds(admits_websockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = self._door.ask(AsgiRequest(scope)) if scope["type"] in self._kinds else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        decision, answer = self._fair.decide(asked)
        if answer is not None:
            await _refuse(answer, scope, receive, send)
            return
        if decision.shadowed:
            send = _adding({headers.THROTTLED: headers.SHADOW}, send)
        exchange = _Exchange(self._fair.throttle, asked, self._outcomes, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except BaseException as error:
            exchange.tell(error)
            raise
        exchange.tell()


class LimitAdmission:
    """Lets each client pass so often, whatever the others do. Place it outside a `FairAdmission`, not within."""

    def __init__(
        self,
        app: App,
        limiter: RateLimiter,
        quota: Quota,
        *,
        client_of: Extractor | None = None,
        cost_of: CostOf | None = None,
        exempt: Iterable[str] = (),
        admits_websockets: bool = False,
        admits_when_away: bool = True,
        is_shadow: bool = False,
        wait_s_max: float = WAIT_S_MAX,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._door = RequestRules(client_of, cost_of, exempt)
        self._quota = QuotaAdmitter(
            quota, clock=clock or SystemClock(), admits_when_away=admits_when_away, is_shadow=is_shadow
        )
        self._wait_s_max = wait_s_max
        self._kinds = _kinds(admits_websockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = self._door.ask(AsgiRequest(scope)) if scope["type"] in self._kinds else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        told, answer = await self._decide(asked)
        if answer is not None:
            await _refuse(answer, scope, receive, send)
        else:
            await self._app(scope, receive, _adding(told, send) if told else send)

    async def _decide(self, asked: AdmissionRequest) -> tuple[dict[str, str], Response | None]:
        if self._quota.is_away:
            return {}, self._quota.away()
        try:
            async with asyncio.timeout(self._wait_s_max):
                (answer,) = await self._limiter.check([self._quota.quota.request(asked)])
            return self._quota.answered(asked, answer)
        except TimeoutError:
            return {}, self._quota.failed(Unavailable(f"no answer within {self._wait_s_max} s"))
        except Unavailable as error:
            return {}, self._quota.failed(error)


class _Exchange:
    """One request on its way: passes messages on, watches them, and tells the outcome once."""

    __slots__ = ("_asked", "_course", "_is_told", "_receive", "_send", "_throttle")

    def __init__(
        self, throttle: FairThrottle, asked: AdmissionRequest, outcomes: OutcomeRules, receive: Receive, send: Send
    ) -> None:
        self._throttle = throttle
        self._asked = asked
        self._receive = receive
        self._send = send
        self._course = OutcomeTracker(outcomes)
        self._is_told = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._course.received(message)
        return message

    async def send(self, message: Message) -> None:
        self._course.sent(message)
        try:
            await self._send(message)
        except OSError:  # how servers say that the client has gone
            self._course.lost()
            raise
        if self._course.is_over:
            self.tell()  # now, for the application may go on with work that nobody waits for

    def tell(self, error: BaseException | None = None) -> None:
        if self._is_told:
            return
        self._is_told = True
        outcome = self._course.outcome(error)
        if outcome is not None:
            self._throttle.report(self._asked.client, outcome, self._asked.cost)


def _kinds(admits_websockets: bool) -> tuple[str, ...]:
    return ("http", "websocket") if admits_websockets else ("http",)


def _adding(fields: Mapping[str, str], send: Send) -> Send:
    """Sends with these headers added."""
    added = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]

    async def adding(message: Message) -> None:
        if message["type"] in _STARTS:
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return adding


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" or DENIAL in (scope.get("extensions") or {}):
        await response(scope, receive, send)
        return
    await receive()  # the opening, which must be taken before it can be refused
    await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": "come back later"})
