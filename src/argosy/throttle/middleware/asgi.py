"""Admission in front of any ASGI application.

    app.add_middleware(FairAdmission, throttle=FairThrottle())          # Starlette, FastAPI
    app = FairAdmission(app, FairThrottle())                            # anything else

An admitted request passes unchanged, and its outcome is reported when the response is complete. Lifespan messages and,
unless enabled, websockets pass without admission. `FairAdmission` waits for nothing but the application (THR-2);
`LimitAdmission` waits for its limiter, at most `wait_s_max`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import Response

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import ArgosyError, Unavailable
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.limits.ports import RateLimiter
from argosy.throttle.middleware.admitters import SHADOW, THROTTLED, FairAdmitter, Quota, QuotaAdmitter
from argosy.throttle.middleware.extractors import AsgiRequest, Extractor
from argosy.throttle.middleware.rules import (
    OUTCOME,
    TRY_AGAIN_LATER,
    AdmissionRequest,
    CostOf,
    OutcomeRules,
    OutcomeTracker,
    RequestRules,
)
from argosy.throttle.model import Outcome

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Longer than a round trip to a store in another zone, and short enough that users do not notice an outage.
WAIT_S_MAX = 0.25  # for a limiter; then the request is admitted or rejected without it
DENIAL = "websocket.http.response"  # the extension that allows to reject a websocket with a status

_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")


class FairAdmission:
    """Admits every request while nothing fails; then rejects the clients that fail most."""

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
        respond: Callable[[ArgosyError, Scope], Response] | None = None,
        name: str = "fair",
    ) -> None:
        """By default clients are distinguished by address. `exempt` are paths, with everything below them.

        `respond` makes the response to a rejected request, for an application with an error format of its own.
        """
        self._app = app
        self._fair = FairAdmitter(throttle, name)
        self._rules = RequestRules(client_of, cost_of, exempt)
        self._outcomes = outcomes or OutcomeRules()
        self._respond = respond
        self._kinds = _kinds(admits_websockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self._rules.classify(AsgiRequest(scope)) if scope["type"] in self._kinds else None
        if admission is None:
            await self._app(scope, receive, send)
            return
        respond = self._respond
        decision, answer = (
            self._fair.decide(admission)
            if respond is None
            else self._fair.decide(admission, lambda error: respond(error, scope))
        )
        if answer is not None:
            await _refuse(answer, scope, receive, send)
            return
        if decision.shadowed:
            send = _with_headers({THROTTLED: SHADOW}, send)
        # The outcome is taken from the messages themselves, because an application may raise after a complete response.
        exchange = _AdmittedRequest(self._fair.throttle, admission, self._outcomes, scope, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        # Cancellations, too: whether the outcome is a failure is decided by the rules, which do not count them.
        except BaseException as error:
            exchange.report(error)
            raise
        exchange.report()


class LimitAdmission:
    """Admits a number of requests per client, independent of the others. Install it outside a `FairAdmission`."""

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
        admits_when_unreachable: bool = True,
        is_shadow: bool = False,
        wait_s_max: float = WAIT_S_MAX,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._rules = RequestRules(client_of, cost_of, exempt)
        self._quota = QuotaAdmitter(
            quota, clock=clock or SystemClock(), admits_when_unreachable=admits_when_unreachable, is_shadow=is_shadow
        )
        self._wait_s_max = wait_s_max
        self._kinds = _kinds(admits_websockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self._rules.classify(AsgiRequest(scope)) if scope["type"] in self._kinds else None
        if admission is None:
            await self._app(scope, receive, send)
            return
        fields, answer = await self._decide(admission)
        if answer is not None:
            await _refuse(answer, scope, receive, send)
        else:
            await self._app(scope, receive, _with_headers(fields, send) if fields else send)

    async def _decide(self, admission: AdmissionRequest) -> tuple[dict[str, str], Response | None]:
        # Decided before any wait: otherwise every request would wait for the timeout of a limiter that is down.
        if self._quota.is_limiter_unreachable:
            return {}, self._quota.unavailable_response()
        try:
            # The hits may be counted all the same: the limiter may have received the call.
            async with asyncio.timeout(self._wait_s_max):
                (answer,) = await self._limiter.check([self._quota.quota.request(admission)])
            return self._quota.on_response(admission, answer)
        except TimeoutError:
            return {}, self._quota.on_limiter_error(Unavailable(f"no answer within {self._wait_s_max} s"))
        except Unavailable as error:
            return {}, self._quota.on_limiter_error(error)


class _AdmittedRequest:
    """One request in progress: passes its messages on, tracks them, and reports the outcome once."""

    __slots__ = ("_admission", "_is_reported", "_receive", "_scope", "_send", "_throttle", "_tracker")

    def __init__(
        self,
        throttle: FairThrottle,
        admission: AdmissionRequest,
        outcomes: OutcomeRules,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self._throttle = throttle
        self._admission = admission
        self._scope = scope
        self._receive = receive
        self._send = send
        self._tracker = OutcomeTracker(outcomes)
        self._is_reported = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._tracker.on_asgi_received(message)
        return message

    async def send(self, message: Message) -> None:
        self._tracker.on_asgi_sent(message)
        try:
            await self._send(message)
        except OSError:  # how servers signal that the client has disconnected
            self._tracker.on_disconnect()
            raise
        if self._tracker.is_over:
            self.report()  # now, because the application may continue with background work

    def report(self, error: BaseException | None = None) -> None:
        # The end of the response and the end of the application both report; only the first counts.
        if self._is_reported:
            return
        self._is_reported = True
        outcome: Outcome | None = self._scope.get(OUTCOME) or self._tracker.outcome(error)
        if outcome is not None:
            self._throttle.report(self._admission.client, outcome, self._admission.cost)


def _kinds(admits_websockets: bool) -> tuple[str, ...]:
    return ("http", "websocket") if admits_websockets else ("http",)


def _with_headers(fields: Mapping[str, str], send: Send) -> Send:
    """`send` with these headers added."""
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
    await receive()  # the connect message, which must be received before it can be rejected
    await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": "retry later"})
