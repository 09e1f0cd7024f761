"""Admission in front of any WSGI application: the twin of the ASGI doors, with the same rules.

    app = WsgiFairAdmission(app, FairThrottle())

An answer that the application has at hand is reported when it is given to the server; one that is made bit by bit when
the last bit is fetched. A server whose client has gone closes the answer before that, and nothing is reported.
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
from argosy.throttle.middleware import headers
from argosy.throttle.middleware.admitters import FairAdmitter, Quota, QuotaAdmitter
from argosy.throttle.middleware.extractors import Extractor
from argosy.throttle.middleware.outcomes import OutcomeRules, OutcomeTracker
from argosy.throttle.middleware.requests import WsgiRequest
from argosy.throttle.middleware.rules import AdmissionRequest, CostOf, RequestRules

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

WAIT_S_MAX = 0.25  # for an answer, as in front of an ASGI application
OPEN_S_MAX = 10.0  # for opening and closing

T = TypeVar("T")
Headers = list[tuple[str, str]]


class ImmediateLimiter(Protocol):
    """A limiter for code without an event loop: a `MemoryLimiter` is one, `BlockingLimiter` makes one of any other."""

    def check_now(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]: ...


class WsgiFairAdmission:
    """Lets everybody pass as long as nothing fails; then turns away those who fail most."""

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
        self._door = RequestRules(client_of, cost_of, exempt)
        self._outcomes = outcomes or OutcomeRules()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        asked = self._door.ask(WsgiRequest(environ))
        if asked is None:
            return self._app(environ, start_response)
        decision, answer = self._fair.decide(asked)
        if answer is not None:
            return _refuse(answer, environ, start_response)
        if decision.shadowed:
            start_response = _adding({headers.THROTTLED: headers.SHADOW}, start_response)
        return self._follow(asked, environ, start_response)

    def _follow(
        self, asked: AdmissionRequest, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        course = OutcomeTracker(self._outcomes)
        throttle, is_told = self._fair.throttle, False

        def tell(error: BaseException | None = None) -> None:
            nonlocal is_told
            outcome = None if is_told else course.outcome(error)
            is_told = True
            if outcome is not None:
                throttle.report(asked.client, outcome, asked.cost)

        def start(status: str, fields: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]:
            course.began(int(status[:3]))
            return start_response(status, fields, exc_info) if exc_info else start_response(status, fields)

        try:
            parts = self._app(environ, start)
        except BaseException as error:
            tell(error)
            raise
        if _is_at_hand(parts, environ):
            course.ended()
            tell()
            return parts
        return _Followed(parts, course, tell)


class WsgiLimitAdmission:
    """Lets each client pass so often, whatever the others do. Place it outside a fair admission, not within."""

    def __init__(
        self,
        app: "WSGIApplication",
        limiter: ImmediateLimiter,
        quota: Quota,
        *,
        client_of: Extractor | None = None,
        cost_of: CostOf | None = None,
        exempt: Iterable[str] = (),
        admits_when_away: bool = True,
        is_shadow: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._door = RequestRules(client_of, cost_of, exempt)
        self._quota = QuotaAdmitter(
            quota, clock=clock or SystemClock(), admits_when_away=admits_when_away, is_shadow=is_shadow
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        asked = self._door.ask(WsgiRequest(environ))
        if asked is None:
            return self._app(environ, start_response)
        told, answer = self._decide(asked)
        if answer is not None:
            return _refuse(answer, environ, start_response)
        return self._app(environ, _adding(told, start_response) if told else start_response)

    def _decide(self, asked: AdmissionRequest) -> tuple[dict[str, str], Response | None]:
        if self._quota.is_away:
            return {}, self._quota.away()
        try:
            (answer,) = self._limiter.check_now([self._quota.quota.request(asked)])
            return self._quota.answered(asked, answer)
        except Unavailable as error:
            return {}, self._quota.failed(error)


class _Followed:
    """An answer that is made bit by bit, and watched until its last bit or until nobody wants more of it."""

    def __init__(
        self, parts: Iterable[bytes], course: OutcomeTracker, tell: Callable[[BaseException | None], None]
    ) -> None:
        self._parts = parts
        self._next: Iterator[bytes] | None = None
        self._course = course
        self._tell = tell

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            if self._next is None:
                self._next = iter(self._parts)
            return next(self._next)
        except StopIteration:
            self._course.ended()
            self._tell(None)
            raise
        except BaseException as error:
            self._tell(error)
            raise

    def close(self) -> None:
        if not self._course.is_over:
            self._course.lost()
        self._tell(None)
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


def _is_at_hand(parts: Iterable[bytes], environ: "WSGIEnvironment") -> bool:
    """Whether the server had better get the answer itself: of a list it sees the length, a file it sends by itself."""
    wrapper = environ.get("wsgi.file_wrapper")
    return isinstance(parts, list | tuple) or (isinstance(wrapper, type) and isinstance(parts, wrapper))


def _adding(fields: dict[str, str], start_response: "StartResponse") -> "StartResponse":
    """Starts with these headers added."""

    def start(status: str, given: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]:
        added = [*given, *fields.items()]
        return start_response(status, added, exc_info) if exc_info else start_response(status, added)

    return start


def _refuse(response: Response, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    status = HTTPStatus(response.status_code)
    start_response(f"{status.value} {status.phrase}", list(response.headers.items()))
    return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else bytes(response.body)]


# -- limiters for code without an event loop --


class BlockingLimiter:
    """Waits for a limiter in the caller's thread; any number of threads may share it."""

    def __init__(self, open_: Callable[[], Awaitable[RateLimiter]], *, wait_s_max: float = WAIT_S_MAX) -> None:
        """`open_` is called in the loop, so that the limiter belongs to it."""
        self._wait_s_max = wait_s_max
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="argosy-limits", daemon=True)
        self._thread.start()
        try:
            self._limiter = self._await(_awaited(open_), OPEN_S_MAX)
        except BaseException:
            self._end()
            raise

    def check_now(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        return self._await(self._limiter.check(requests), self._wait_s_max)

    def close(self) -> None:
        """Closes the limiter and ends the thread; to be called once, when nobody asks any more."""
        try:
            self._await(self._limiter.close(), OPEN_S_MAX)
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _await(self, work: Coroutine[Any, Any, T], wait_s_max: float) -> T:
        if self._loop.is_closed():
            work.close()
            raise Unavailable("the limiter has been closed: open a new one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(wait_s_max)
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"the limiter did not answer within {wait_s_max} s, hits may count") from error
        except CancelledError as error:
            raise Unavailable("the limiter was closed while it was asked") from error

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(OPEN_S_MAX)
        if not self._thread.is_alive():
            self._loop.close()


async def _awaited(open_: Callable[[], Awaitable[T]]) -> T:
    return await open_()
