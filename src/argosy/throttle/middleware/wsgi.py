"""Admission in front of any WSGI application, with the same rules as for ASGI.

    app = WsgiFairAdmission(app, FairThrottle())

A complete response is reported when it is passed to the server, an iterated one when its last part is fetched. A server
whose client has disconnected closes the response before that, and nothing is reported.

`BlockingLimiter` makes any limiter available to code without an event loop.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from starlette.responses import Response

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Unavailable
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.ports import RateLimiter
from argosy.throttle.middleware.admitters import SHADOW, THROTTLED, FairAdmitter, Quota, QuotaAdmitter
from argosy.throttle.middleware.extractors import Extractor, WsgiRequest
from argosy.throttle.middleware.rules import AdmissionRequest, CostOf, OutcomeRules, OutcomeTracker, RequestRules

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

WAIT_S_MAX = 0.25  # for a limiter, as in the ASGI middleware
# Connecting and loading a file may take seconds; a request may not.
OPEN_S_MAX = 10.0  # for opening and closing

T = TypeVar("T")
Headers = list[tuple[str, str]]


class ImmediateLimiter(Protocol):
    """A limiter for code without an event loop: a `MemoryLimiter`, or any other in a `BlockingLimiter`."""

    def check_now(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]: ...


class WsgiFairAdmission:
    """Admits every request while nothing fails; then rejects the clients that fail most."""

    def __init__(
        self,
        app: "WSGIApplication",
        throttle: FairThrottle,
        *,
        client_of: Extractor | None = None,
        cost_of: CostOf | None = None,
        outcomes: OutcomeRules | None = None,
        exempt: Iterable[str] = (),
        name: str = "fair",
    ) -> None:
        self._app = app
        self._fair = FairAdmitter(throttle, name)
        self._rules = RequestRules(client_of, cost_of, exempt)
        self._outcomes = outcomes or OutcomeRules()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        admission = self._rules.classify(WsgiRequest(environ))
        if admission is None:
            return self._app(environ, start_response)
        decision, answer = self._fair.decide(admission)
        if answer is not None:
            return _refuse(answer, environ, start_response)
        if decision.shadowed:
            start_response = _with_headers({THROTTLED: SHADOW}, start_response)
        return self._follow(admission, environ, start_response)

    def _follow(
        self, admission: AdmissionRequest, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        tracker = OutcomeTracker(self._outcomes)
        throttle, is_reported = self._fair.throttle, False

        def report(error: BaseException | None = None) -> None:
            nonlocal is_reported
            outcome = None if is_reported else tracker.outcome(error)
            is_reported = True
            if outcome is not None:
                throttle.report(admission.client, outcome, admission.cost)

        def start(status: str, fields: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]:
            tracker.on_start(int(status[:3]))
            return start_response(status, fields, exc_info) if exc_info else start_response(status, fields)

        try:
            parts = self._app(environ, start)
        except BaseException as error:
            report(error)
            raise
        # Passed on unwrapped: of a list the server knows the length, and a file it sends by itself.
        if _is_complete(parts, environ):
            tracker.on_end()
            report()
            return parts
        return _TrackedBody(parts, tracker, report)


class WsgiLimitAdmission:
    """Admits a number of requests per client, independent of the others. Install it outside a `WsgiFairAdmission`."""

    def __init__(
        self,
        app: "WSGIApplication",
        limiter: ImmediateLimiter,
        quota: Quota,
        *,
        client_of: Extractor | None = None,
        cost_of: CostOf | None = None,
        exempt: Iterable[str] = (),
        admits_when_unreachable: bool = True,
        is_shadow: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._rules = RequestRules(client_of, cost_of, exempt)
        self._quota = QuotaAdmitter(
            quota, clock=clock or SystemClock(), admits_when_unreachable=admits_when_unreachable, is_shadow=is_shadow
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        admission = self._rules.classify(WsgiRequest(environ))
        if admission is None:
            return self._app(environ, start_response)
        fields, answer = self._decide(admission)
        if answer is not None:
            return _refuse(answer, environ, start_response)
        return self._app(environ, _with_headers(fields, start_response) if fields else start_response)

    def _decide(self, admission: AdmissionRequest) -> tuple[dict[str, str], Response | None]:
        if self._quota.is_limiter_unreachable:
            return {}, self._quota.unavailable_response()
        try:
            (answer,) = self._limiter.check_now([self._quota.quota.request(admission)])
            return self._quota.on_response(admission, answer)
        except Unavailable as error:
            return {}, self._quota.on_limiter_error(error)


class _TrackedBody:
    """An iterated response, tracked until its last part or until the server closes it."""

    def __init__(
        self, parts: Iterable[bytes], tracker: OutcomeTracker, report: Callable[[BaseException | None], None]
    ) -> None:
        self._parts = parts
        self._next: Iterator[bytes] | None = None
        self._tracker = tracker
        self._report = report

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            if self._next is None:
                self._next = iter(self._parts)
            return next(self._next)
        except StopIteration:
            self._tracker.on_end()
            self._report(None)
            raise
        except BaseException as error:
            self._report(error)
            raise

    def close(self) -> None:
        # Closed before the end: the client has disconnected, and a response cut short is no success.
        if not self._tracker.is_over:
            self._tracker.on_disconnect()
        self._report(None)
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


def _is_complete(parts: Iterable[bytes], environ: "WSGIEnvironment") -> bool:
    """Whether to pass the response to the server as it is: of a list it sees the length, a file it sends itself."""
    wrapper = environ.get("wsgi.file_wrapper")
    return isinstance(parts, list | tuple) or (isinstance(wrapper, type) and isinstance(parts, wrapper))


def _with_headers(fields: dict[str, str], start_response: "StartResponse") -> "StartResponse":
    """`start_response` with these headers added."""

    def start(status: str, headers: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]:
        added = [*headers, *fields.items()]
        return start_response(status, added, exc_info) if exc_info else start_response(status, added)

    return start


def _refuse(response: Response, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    status = HTTPStatus(response.status_code)
    start_response(f"{status.value} {status.phrase}", list(response.headers.items()))
    return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else bytes(response.body)]


# -- limiters for code without an event loop --


class BlockingLimiter:
    """A limiter in an event loop of its own, on its own thread; callers of any number of threads wait for it.

        limiter = BlockingLimiter(lambda: open_limiter("redis://cache:6379", clock=SystemClock()))

    A caller waits at most `wait_s_max`. In servers that fork, create it in each worker process after the fork: the
    thread does not survive a fork.
    """

    def __init__(self, open_: Callable[[], Awaitable[RateLimiter]], *, wait_s_max: float = WAIT_S_MAX) -> None:
        """`open_` is called in the loop, so that the limiter is bound to it."""
        self._wait_s_max = wait_s_max
        # A loop of its own: limiters are bound to the loop that opened them, and WSGI servers have none.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="argosy-limits", daemon=True)
        self._thread.start()
        try:
            self._limiter = self._await(_await_open(open_), OPEN_S_MAX)
        except BaseException:
            self._stop()
            raise

    def check_now(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        return self._await(self._limiter.check(requests), self._wait_s_max)

    def close(self) -> None:
        """Closes the limiter and ends the thread; to be called once, after the last check."""
        try:
            self._await(self._limiter.close(), OPEN_S_MAX)
        finally:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _await(self, work: Coroutine[Any, Any, T], wait_s_max: float) -> T:
        if self._loop.is_closed():
            work.close()
            raise Unavailable("the limiter is closed: open a new one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(wait_s_max)
        # Cancelled, so that a slow limiter does not collect calls that no thread waits for.
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"limiter timed out after {wait_s_max} s; the hits may have been counted") from error
        except CancelledError as error:
            raise Unavailable("the limiter was closed during the call") from error

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(OPEN_S_MAX)
        # A loop that still runs cannot be closed. The thread is a daemon, so it does not keep the process alive.
        if not self._thread.is_alive():
            self._loop.close()


async def _await_open(open_: Callable[[], Awaitable[T]]) -> T:
    return await open_()
