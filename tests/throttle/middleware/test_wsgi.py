"""Admission in front of a WSGI application, checked against WSGI's own rules, with a simulated server."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Invalid, Unavailable
from argosy.throttle import FairThrottle, Outcome
from argosy.throttle.limits import RateLimitRequest
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.factory import open_limiter
from argosy.throttle.limits.ports import RateLimiter
from argosy.throttle.middleware import OutcomeRules, Quota
from argosy.throttle.middleware.wsgi import BlockingLimiter, WsgiFairAdmission, WsgiLimitAdmission
from tests.servers.valkey import Valkey
from tests.throttle.limits.stage import HandClock
from tests.throttle.middleware.stage import PATIENCE_S, blame, blamed, throttle_of

CLIENT = "address:127.0.0.1"
TWO = Quota(2, 60.0, name="searches")
PLAIN = [("content-type", "text/plain")]


@pytest.fixture
def throttle() -> FairThrottle:
    return throttle_of()


def answering(status: str, body: Callable[[], Iterable[bytes]] = lambda: [b"ok"]) -> Any:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response(status, list(PLAIN))
        return body()

    return app


def play(app: Any, path: str = "/", **more: Any) -> tuple[int, dict[str, str], bytes]:
    """One request, with both sides of the middleware checked against WSGI's rules."""
    environ: dict[str, Any] = {"REMOTE_ADDR": "127.0.0.1", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": ""}
    environ |= more
    setup_testing_defaults(environ)
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((status, fields))
        return lambda _: None

    parts = validator(app)(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        parts.close()
    status, fields = started[-1]
    return int(status[:3]), dict(fields), body


def fair(app: Any, throttle: FairThrottle, **more: Any) -> WsgiFairAdmission:
    return WsgiFairAdmission(validator(app), throttle, **more)


def test_a_request_passes_unchanged_while_nothing_fails(throttle: FairThrottle) -> None:
    assert play(fair(answering("200 OK"), throttle)) == (200, dict(PLAIN), b"ok")


def test_a_blamed_client_is_refused(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    status, fields, body = play(fair(answering("200 OK"), throttle, exempt=["/health"]))
    assert (status, fields["retry-after"], fields["ratelimit"]) == (429, "60", '"fair";r=0;t=60')
    assert b'"Throttled"' in body
    assert play(fair(answering("200 OK"), throttle, exempt=["/health"]), "/health")[0] == 200


def test_a_refusal_of_a_head_request_has_no_body(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    status, fields, body = play(WsgiFairAdmission(answering("200 OK"), throttle), REQUEST_METHOD="HEAD")
    assert (status, fields["retry-after"], body) == (429, "60", b"")


@pytest.mark.parametrize(
    ("status", "moved_to"),
    [("200 OK", 0.03996), ("503 Short", 0.08), ("404 Not Found", 0.04), ("500 Oh", 0.04)],
)
def test_the_outcome_is_reported_by_status(throttle: FairThrottle, status: str, moved_to: float) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    play(WsgiFairAdmission(answering(status), throttle))
    assert blamed(throttle, CLIENT) == pytest.approx(moved_to)


def test_an_exception_is_reported_by_its_class_and_rises(throttle: FairThrottle) -> None:
    def failing(environ: Any, start_response: Any) -> Iterable[bytes]:
        raise KeyError(environ["PATH_INFO"])

    with pytest.raises(KeyError):
        play(WsgiFairAdmission(failing, throttle))
    assert blamed(throttle, CLIENT) == 0.0
    with pytest.raises(KeyError):
        play(WsgiFairAdmission(failing, throttle, outcomes=OutcomeRules(failure_exceptions=(KeyError,))))
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


def test_a_streamed_answer_is_reported_at_its_end(throttle: FairThrottle) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    standing = []

    def parts() -> Iterator[bytes]:
        for part in (b"a", b"b"):
            standing.append(blamed(throttle, CLIENT))
            yield part

    assert play(fair(answering("200 OK", parts), throttle))[2] == b"ab"
    assert standing == pytest.approx([0.04, 0.04])
    assert blamed(throttle, CLIENT) == pytest.approx(0.03996)


def test_an_answer_that_breaks_off_is_reported_by_its_exception(throttle: FairThrottle) -> None:
    def parts() -> Iterator[bytes]:
        yield b"a"
        raise MemoryError

    with pytest.raises(MemoryError):
        play(WsgiFairAdmission(answering("200 OK", parts), throttle))
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


@pytest.mark.parametrize(("status", "moved_to"), [("200 OK", 0.04), ("503 Short", 0.08)])
def test_of_an_answer_that_is_closed_early_only_a_shortage_is_reported(
    throttle: FairThrottle, status: str, moved_to: float
) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    closed = []

    def parts() -> Iterator[bytes]:
        try:
            yield b"a"
            yield b"b"
        finally:
            closed.append(True)

    environ: dict[str, Any] = {"REMOTE_ADDR": "127.0.0.1"}
    setup_testing_defaults(environ)
    answer: Any = WsgiFairAdmission(answering(status, parts), throttle)(environ, lambda *_: lambda _: None)
    assert next(iter(answer)) == b"a"
    answer.close()
    assert closed == [True]
    assert blamed(throttle, CLIENT) == pytest.approx(moved_to)


def test_a_server_gets_lists_and_files_as_they_are(throttle: FairThrottle, tmp_path: Any) -> None:
    environ: dict[str, Any] = {"wsgi.file_wrapper": FileWrapper}
    setup_testing_defaults(environ)
    (tmp_path / "f").write_bytes(b"x")
    with (tmp_path / "f").open("rb") as file:
        for answer in ([b"ok"], FileWrapper(file)):
            app = WsgiFairAdmission(answering("200 OK", lambda answer=answer: answer), throttle)  # type: ignore[misc]
            assert app(environ, lambda *_: lambda _: None) is answer


def test_an_application_may_change_its_mind_before_it_has_sent_anything(throttle: FairThrottle) -> None:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", list(PLAIN))
        try:
            raise RuntimeError
        except RuntimeError as error:
            start_response("503 Short", list(PLAIN), (type(error), error, error.__traceback__))
        return [b"sorry"]

    assert play(fair(app, throttle))[0] == 503
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


def test_shadow_mode_admits_and_reports_it() -> None:
    throttle = throttle_of(is_shadow=True)
    blame(throttle, CLIENT)
    status, fields, _ = play(fair(answering("200 OK"), throttle))
    assert (status, fields["x-argosy-throttled"]) == (200, "shadow")


# -- quotas -----------------------------------------------------------------------------------------------------------


def test_each_client_has_a_quota() -> None:
    clock = HandClock()
    app = WsgiLimitAdmission(answering("200 OK"), MemoryLimiter(clock=clock), TWO, exempt=["/health"], clock=clock)
    seen = [play(app) for _ in range(3)]
    assert [status for status, _, _ in seen] == [200, 200, 429]
    assert seen[0][1]["ratelimit"] == '"searches";r=1;t=60'
    assert seen[0][1]["ratelimit-policy"] == '"searches";q=2;w=60'
    assert seen[2][1]["retry-after"] == "60"
    assert play(app, REMOTE_ADDR="127.0.0.2")[0] == 200
    assert play(app, "/health")[1] == dict(PLAIN)


@pytest.mark.parametrize(("admits", "status"), [(True, 200), (False, 503)])
def test_without_its_limiter_requests_pass_or_are_rejected_as_configured(admits: bool, status: int) -> None:
    class UnavailableLimiter:
        calls = 0

        def check_now(self, requests: Any) -> Any:
            self.calls += 1
            raise Unavailable("gone")

    unavailable = UnavailableLimiter()
    app = WsgiLimitAdmission(answering("200 OK"), unavailable, TWO, admits_when_unreachable=admits, clock=HandClock())
    assert [play(app)[0] for _ in range(3)] == [status] * 3
    assert unavailable.calls == 1


def test_a_limiter_in_redis_can_be_used_without_an_event_loop() -> None:
    async def open_(url: str) -> RateLimiter:
        return await open_limiter(url, clock=SystemClock(), namespace=secrets.token_hex(4))

    with Valkey() as server, BlockingLimiter(lambda: open_(server.url), wait_s_max=PATIENCE_S) as limiter:
        app = WsgiLimitAdmission(answering("200 OK"), limiter, TWO)
        assert [play(app)[0] for _ in range(3)] == [200, 200, 429]


def test_a_limiter_that_does_not_answer_is_unavailable() -> None:
    class Hanging(MemoryLimiter):
        async def check(self, requests: Any) -> Any:
            await asyncio.get_running_loop().create_future()

    async def open_() -> RateLimiter:
        return Hanging(clock=HandClock())

    with BlockingLimiter(open_, wait_s_max=0.01) as limiter, pytest.raises(Unavailable, match="limiter timed out"):
        limiter.check_now([RateLimitRequest("n", "k", 1, 1, 1000)])


def test_a_limiter_that_cannot_be_opened_reports_why_and_leaves_no_thread() -> None:
    async def open_() -> RateLimiter:
        return await open_limiter("nosuch://", clock=SystemClock())

    with pytest.raises(Invalid, match="nosuch"):
        BlockingLimiter(open_)


def test_a_closed_limiter_is_unavailable() -> None:
    async def open_() -> RateLimiter:
        return MemoryLimiter(clock=HandClock())

    with BlockingLimiter(open_) as limiter:
        assert len(limiter.check_now([RateLimitRequest("n", "k", 1, 1, 1000)])) == 1
    with pytest.raises(Unavailable, match="closed"):
        limiter.check_now([RateLimitRequest("n", "k", 1, 1, 1000)])
