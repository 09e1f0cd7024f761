"""Fair admission in front of an ASGI application, with a simulated server."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response

from argosy.base.errors import ArgosyError, Invalid
from argosy.throttle import FairThrottle, Outcome
from argosy.throttle.middleware import FairAdmission, OutcomeRules, by_header, report_outcome
from argosy.throttle.middleware.asgi import Message
from tests.throttle.limits.stage import HandClock
from tests.throttle.middleware.stage import (
    ENDED,
    STARTED,
    Played,
    answering,
    blame,
    blamed,
    play,
    scope_of,
    throttle_of,
)

CLIENT = "address:192.0.2.1"
GONE = {"type": "http.disconnect"}


async def silent(scope: Any, receive: Any, send: Any) -> None:
    """An application that must not be reached."""
    raise AssertionError(scope)


@pytest.fixture
def throttle() -> FairThrottle:
    return throttle_of()


async def test_a_request_passes_unchanged_while_nothing_fails(throttle: FairThrottle) -> None:
    played = await play(FairAdmission(answering(200), throttle))
    assert played.sent == [STARTED, ENDED]


async def test_a_blamed_client_is_refused_in_our_error_form(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    played = await play(FairAdmission(silent, throttle))
    assert played.status == 429
    assert played.error["kind"] == "Throttled"
    assert played.error["status"] == 429
    assert "60 s" in played.error["message"]
    assert played.headers["retry-after"] == "60"
    assert played.headers["ratelimit"] == '"fair";r=0;t=60'
    assert played.headers["x-argosy-throttled"] == "fair"
    assert "ratelimit-policy" not in played.headers, "a fair throttle has no quota to report"


async def test_an_application_may_format_the_rejection(throttle: FairThrottle) -> None:
    def respond(error: ArgosyError, scope: Message) -> Response:
        return PlainTextResponse(f"{scope['path']}: {error}", error.status)

    blame(throttle, CLIENT)
    played = await play(FairAdmission(silent, throttle, respond=respond), scope_of("/search"))
    assert played.status == 429
    assert played.sent[1]["body"].startswith(b"/search: rate limited")
    assert played.headers["x-argosy-throttled"] == "fair"


@pytest.mark.parametrize("status", [200, 503])
async def test_an_outcome_that_the_application_reports_takes_precedence(throttle: FairThrottle, status: int) -> None:
    async def exhausted(scope: Any, receive: Any, send: Any) -> None:
        report_outcome(scope, Outcome.FAILURE if status == 200 else Outcome.SUCCESS)
        await answering(status)(scope, receive, send)

    await play(FairAdmission(exhausted, throttle))
    assert (blamed(throttle, CLIENT) > 0) == (status == 200)


async def test_the_wait_is_as_long_as_decay_takes_to_make_chances_even() -> None:
    throttle = throttle_of(decay_per_s=0.1)
    blame(throttle, CLIENT)
    played = await play(FairAdmission(silent, throttle))
    assert played.headers["retry-after"] == "7", "exp(-0.1 * 6.93) is one half"


async def test_after_that_wait_every_second_request_passes() -> None:
    clock = HandClock()
    throttle = throttle_of(clock, decay_per_s=0.1, window_s=3600.0)
    blame(throttle, CLIENT)
    app = FairAdmission(answering(404), throttle)  # not reported, so that nothing but time moves
    clock.ms += 6931
    statuses = [(await play(app)).status for _ in range(400)]
    assert 160 < statuses.count(429) < 240


async def test_refused_requests_are_not_reported(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    await play(FairAdmission(silent, throttle))
    assert throttle.stats().failures == 25
    assert blamed(throttle, CLIENT) == 1.0


async def test_clients_are_distinguished_by_the_extractor(throttle: FairThrottle) -> None:
    app = FairAdmission(answering(200), throttle, client_of=by_header("x-client"))
    blame(throttle, "header:x-client:noisy")
    assert (await play(app, scope_of(headers={"x-client": "noisy"}))).status == 429
    assert (await play(app, scope_of(headers={"x-client": "quiet"}))).status == 200


@pytest.mark.parametrize(("status", "step"), [(503, 0.04), (429, 0.04), (500, 0.0), (404, 0.0)])
async def test_a_shortage_is_reported_and_an_error_is_not(throttle: FairThrottle, status: int, step: float) -> None:
    await play(FairAdmission(answering(status), throttle))
    assert blamed(throttle, CLIENT) == pytest.approx(step)


async def test_success_is_reported(throttle: FairThrottle) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    await play(FairAdmission(answering(200), throttle))
    assert blamed(throttle, CLIENT) == pytest.approx(0.04 - 0.00004)


async def test_an_exception_is_reported_by_its_class_and_rises(throttle: FairThrottle) -> None:
    class PoolEmpty(Exception):
        pass

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise (PoolEmpty if scope["path"] == "/pool" else ValueError)(scope["path"])

    app = FairAdmission(failing, throttle, outcomes=OutcomeRules(failure_exceptions=(PoolEmpty,)))
    with pytest.raises(ValueError, match="/bug"):
        await play(app, scope_of("/bug"))
    assert blamed(throttle, CLIENT) == 0.0
    with pytest.raises(PoolEmpty):
        await play(app, scope_of("/pool"))
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


async def test_cost_weighs_the_decision_and_the_report(throttle: FairThrottle) -> None:
    app = FairAdmission(answering(503), throttle, cost_of=lambda call: float(call.path.removeprefix("/")))
    await play(app, scope_of("/5"))
    assert blamed(throttle, CLIENT) == pytest.approx(0.2)
    await play(app, scope_of("/0"))
    assert blamed(throttle, CLIENT) == pytest.approx(0.2), "a free request is neither checked nor reported"
    statuses = [(await play(app, scope_of("/1000"))).status for _ in range(20)]
    assert set(statuses) == {429}, "0.8 to the power of 1000 is no chance at all"


async def test_exempt_paths_pass_for_every_client(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    app = FairAdmission(answering(503), throttle, exempt=["/health"])
    assert (await play(app, scope_of("/health"))).status == 503
    assert (await play(app, scope_of("/"))).status == 429
    assert throttle.stats().failures == 25


async def test_shadow_mode_admits_and_reports_it() -> None:
    throttle = throttle_of(is_shadow=True)
    blame(throttle, CLIENT)
    played = await play(FairAdmission(answering(200), throttle))
    assert (played.status, played.headers["x-argosy-throttled"]) == (200, "shadow")
    assert throttle.stats().shadowed == 1


async def test_an_answer_in_parts_is_reported_at_its_end(throttle: FairThrottle) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    standing = []

    async def streaming(scope: Any, receive: Any, send: Any) -> None:
        await send(STARTED)
        for more in (True, True, False):
            standing.append(blamed(throttle, CLIENT))
            await send(ENDED | {"more_body": more})
        standing.append(blamed(throttle, CLIENT))  # work in the background, after the answer

    await play(FairAdmission(streaming, throttle))
    assert standing == pytest.approx([0.04, 0.04, 0.04, 0.03996])
    assert blamed(throttle, CLIENT) == pytest.approx(0.03996), "once"


async def test_a_client_that_hangs_up_is_not_reported(throttle: FairThrottle) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        await send(STARTED)
        assert await receive() == GONE
        await send(ENDED)

    await play(FairAdmission(listening, throttle), None, GONE)
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


async def test_a_server_that_cannot_send_is_not_reported(throttle: FairThrottle) -> None:
    class Hung(Played):
        async def send(self, message: Any) -> None:
            raise BrokenPipeError

    throttle.report(CLIENT, Outcome.FAILURE)
    hung = Hung()
    app = FairAdmission(answering(200), throttle, outcomes=OutcomeRules(failure_exceptions=(OSError,)))
    with pytest.raises(BrokenPipeError):
        await app(scope_of(), hung.receive, hung.send)
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


async def test_a_cancelled_request_is_not_reported(throttle: FairThrottle) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    is_reached = asyncio.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        await send(STARTED)
        is_reached.set()
        await receive()

    request = asyncio.create_task(play(FairAdmission(waiting, throttle)))
    await is_reached.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert blamed(throttle, CLIENT) == pytest.approx(0.04)


async def test_lifespan_passes_by(throttle: FairThrottle) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, await receive()))
        await send({"type": "lifespan.startup.complete"})

    played = await play(FairAdmission(app, throttle), {"type": "lifespan"}, {"type": "lifespan.startup"})
    assert seen == [({"type": "lifespan"}, {"type": "lifespan.startup"})]
    assert played.sent == [{"type": "lifespan.startup.complete"}]


async def accepting(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


CONNECT, HUNG_UP = {"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}


async def test_websockets_are_not_throttled_unless_enabled(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    played = await play(FairAdmission(accepting, throttle), scope_of(kind="websocket"), CONNECT, HUNG_UP)
    assert played.sent == [{"type": "websocket.accept"}]


async def test_a_websocket_is_refused_by_closing_it(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    app = FairAdmission(silent, throttle, admits_websockets=True)
    played = await play(app, scope_of(kind="websocket"), CONNECT)
    assert [(message["type"], message["code"]) for message in played.sent] == [("websocket.close", 1013)]
    assert played.incoming == []


async def test_a_websocket_is_refused_with_a_status_where_the_server_can(throttle: FairThrottle) -> None:
    blame(throttle, CLIENT)
    app = FairAdmission(silent, throttle, admits_websockets=True)
    played = await play(app, scope_of(kind="websocket", extensions={"websocket.http.response": {}}), CONNECT)
    assert played.sent[0]["type"] == "websocket.http.response.start"
    assert (played.status, played.headers["retry-after"]) == (429, "60")


async def test_a_websocket_is_reported_when_it_ends(throttle: FairThrottle) -> None:
    throttle.report(CLIENT, Outcome.FAILURE)
    app = FairAdmission(accepting, throttle, admits_websockets=True)
    await play(app, scope_of(kind="websocket"), CONNECT, HUNG_UP)
    assert blamed(throttle, CLIENT) == pytest.approx(0.03996)


async def test_a_log_names_no_client(throttle: FairThrottle, caplog: pytest.LogCaptureFixture) -> None:
    blame(throttle, CLIENT)
    with caplog.at_level(logging.DEBUG, logger="argosy"):
        await play(FairAdmission(silent, throttle))
    assert "request refused" in caplog.text
    assert "192.0.2.1" not in caplog.text


async def test_a_wrong_name_is_refused_at_the_start(throttle: FairThrottle) -> None:
    with pytest.raises(Invalid, match="name of a policy"):
        FairAdmission(silent, throttle, name="a\nb")
