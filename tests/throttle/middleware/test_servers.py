"""The middleware on real servers: a noisy client is throttled and the others are served, end to end."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from argosy.throttle import FairThrottle, Outcome
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.middleware import FairAdmission, LimitAdmission, Quota, by_header
from argosy.throttle.middleware.asgi import App
from argosy.throttle.middleware.extractors import AsgiRequest
from argosy.throttle.middleware.wsgi import WsgiFairAdmission
from tests.throttle.limits.stage import HandClock
from tests.throttle.middleware.stage import (
    HOST,
    NOISY,
    PATIENCE_S,
    QUIET,
    Browser,
    Resource,
    asgi_server,
    blame,
    blamed,
    run_noisy_clients,
    served_part,
    throttle_of,
    wsgi_server,
)

BY_NAME = by_header("x-client")
Served = AbstractContextManager[Browser]
NOISY_SAW = [100, 28, 352]  # served, short, rejected: the same on every server


def starlette_app(resource: Resource, throttle: FairThrottle | None) -> Served:
    async def work(request: Request) -> Response:
        if not resource.take(request.headers.get("x-second")):
            raise HTTPException(503, "short")
        return PlainTextResponse("done")

    app = Starlette(routes=[Route("/", work)])
    if throttle is not None:
        app.add_middleware(FairAdmission, throttle=throttle, client_of=BY_NAME)
    return asgi_server(app)


def plain_asgi_app(resource: Resource, throttle: FairThrottle | None) -> Served:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"  # uvicorn treats a failing lifespan as an unsupported one
        status = 200 if resource.take(AsgiRequest(scope).header("x-second")) else 503
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    return asgi_server(app if throttle is None else FairAdmission(app, throttle, client_of=BY_NAME))


def wsgi_app(resource: Resource, throttle: FairThrottle | None) -> Served:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        has_room = resource.take(environ.get("HTTP_X_SECOND"))
        start_response("200 OK" if has_room else "503 Short", [("content-length", "0")])
        return [b""]

    return wsgi_server(app if throttle is None else WsgiFairAdmission(app, throttle, client_of=BY_NAME))


@pytest.mark.parametrize("serve", [starlette_app, plain_asgi_app, wsgi_app])
def test_a_noisy_client_is_throttled_and_the_others_are_served(
    serve: Callable[[Resource, FairThrottle | None], Served],
) -> None:
    with serve(Resource(HandClock(), per_s=8), None) as browser:
        unfair = run_noisy_clients(browser, 20)
    clock = HandClock()
    throttle = throttle_of(clock)
    with serve(Resource(clock, per_s=8), throttle) as browser:
        fair = run_noisy_clients(browser, 40)
    assert served_part(unfair, QUIET, last_s=20) < 0.55, "without a throttle all clients fail alike"
    assert served_part(fair, QUIET, last_s=30) > 0.75
    assert served_part(fair, [NOISY], last_s=30, per_s=12) < 0.3
    assert fair[NOISY].count(429) > 8 * sum(fair[client].count(429) for client in QUIET)
    assert throttle.noisiest(1)[0][0] == f"header:x-client:{NOISY}"
    assert [fair[NOISY].count(status) for status in (200, 503, 429)] == NOISY_SAW, "every run is the same"


def test_both_doors_together_with_three_lines_each() -> None:
    clock, seen = HandClock(), []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        seen.append("start")
        yield
        seen.append("end")

    async def work(_: Request) -> Response:
        return PlainTextResponse("done")

    throttle = throttle_of(clock)
    app = Starlette(routes=[Route("/", work)], lifespan=lifespan)
    app.add_middleware(FairAdmission, throttle=throttle)
    app.add_middleware(LimitAdmission, limiter=MemoryLimiter(clock=clock), quota=Quota(2, 60.0), clock=clock)
    with asgi_server(app) as browser:
        replies = [browser.get() for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert replies[0].headers["ratelimit"] == '"requests";r=1;t=60'
    assert seen == ["start", "end"]
    assert throttle.stats().failures == 0, "an exhausted quota is no overload"


def test_a_rejection_over_http_has_retry_after() -> None:
    throttle = throttle_of()
    blame(throttle, "header:x-client:noisy")
    for served in (plain_asgi_app(Resource(HandClock(), 0), throttle), wsgi_app(Resource(HandClock(), 0), throttle)):
        with served as browser:
            reply = browser.get(x_client="noisy")
            head = browser.get(method="HEAD", x_client="noisy")
        assert (reply.status, reply.headers["retry-after"]) == (429, "60")
        assert reply.headers["ratelimit"] == '"fair";r=0;t=60'
        assert reply.headers["content-type"] == "application/json"
        assert b'"Throttled"' in reply.body
        assert (head.status, head.body, head.headers["retry-after"]) == (429, b"", "60")


def streaming_asgi(gone: threading.Event) -> App:
    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0)  # or uvicorn would not notice that the client has gone
        finally:
            gone.set()

    async def work(_: Request) -> Response:
        return StreamingResponse(parts())

    return Starlette(routes=[Route("/", work)])


def streaming_wsgi(gone: threading.Event) -> Any:
    def parts() -> Iterable[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            gone.set()

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        return parts()

    return app


@pytest.mark.parametrize(
    ("serve", "middleware", "streaming"),
    [(asgi_server, FairAdmission, streaming_asgi), (wsgi_server, WsgiFairAdmission, streaming_wsgi)],
    ids=["asgi", "wsgi"],
)
def test_a_request_whose_client_disconnects_is_not_reported(serve: Any, middleware: Any, streaming: Any) -> None:
    client, gone = "address:127.0.0.1", threading.Event()
    throttle = throttle_of()
    throttle.report(client, Outcome.FAILURE)
    with serve(middleware(streaming(gone), throttle)) as browser:
        with socket.create_connection((HOST, browser.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(1)
        assert gone.wait(PATIENCE_S)
    assert blamed(throttle, client) == pytest.approx(0.04)
