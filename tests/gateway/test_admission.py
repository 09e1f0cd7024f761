"""Admission: every client is admitted while capacity suffices; then those that exhaust it are throttled."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.clock import seeded_random
from argosy.base.errors import ArgosyError, NotFound
from argosy.gateway.admission import CLIENT_OF, admission, record_error, record_result
from argosy.gateway.ports import Overloaded, Unserved
from argosy.search.model import LimitHit, Missing, MissingReason, SearchResult
from argosy.throttle import FairThrottle, Outcome
from argosy.throttle.middleware.extractors import AsgiRequest
from argosy.throttle.model import preset
from tests.gateway.throttle_fixture import RecordingThrottle

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE


def served_by(throttle: FairThrottle | None, answer: SearchResult | ArgosyError) -> httpx.AsyncClient:
    """A client of a route that returns this result or error, as the APIs do."""

    async def search(request: Request) -> Response:
        if isinstance(answer, ArgosyError):
            record_error(request.scope, answer)
            return PlainTextResponse(str(answer), answer.status)
        record_result(request.scope, answer)
        return PlainTextResponse("found")

    app = Starlette(routes=[Route("/", search, middleware=admission(throttle))])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")


async def test_a_client_whose_requests_exhaust_the_fleet_is_throttled_and_others_are_not() -> None:
    throttle = FairThrottle(preset("strict"), random=seeded_random(5))
    noisy, quiet = {"authorization": "Bearer noisy"}, {"authorization": "Bearer quiet"}
    cut = SearchResult(limits_hit=(LimitHit.WALL_TIME,))
    async with served_by(throttle, cut) as exhausting, served_by(throttle, SearchResult()) as modest:
        for _ in range(2000):
            answer = await exhausting.get("/", headers=noisy)
            assert (await modest.get("/", headers=quiet)).status_code == 200
            if answer.status_code == 429:
                break
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        for _ in range(50):
            assert (await modest.get("/", headers=quiet)).status_code == 200


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (SearchResult(), SUCCESS),
        (SearchResult(limits_hit=(LimitHit.FILES_SHOWN,)), SUCCESS),
        (SearchResult(missing=(Missing("a", MissingReason.WARMING),)), SUCCESS),
        (SearchResult(missing=(Missing("a", MissingReason.TIMED_OUT),)), FAILURE),
        (SearchResult(limits_hit=(LimitHit.WALL_TIME,)), FAILURE),
    ],
)
async def test_a_result_cut_by_its_deadline_is_a_failure(answer: SearchResult, outcome: Outcome) -> None:
    throttle = RecordingThrottle()
    async with served_by(throttle, answer) as client:
        assert (await client.get("/")).status_code == 200
    assert throttle.outcomes == [outcome]


@pytest.mark.parametrize(
    ("error", "outcomes"),
    [
        (Overloaded("full", retry_after_s=1.0), [FAILURE]),
        (Unserved([Missing("a", MissingReason.TIMED_OUT)]), [FAILURE]),
        (Unserved([Missing("a", MissingReason.UNOWNED)]), []),
        (NotFound("no"), []),
    ],
)
async def test_only_errors_for_lack_of_capacity_are_failures(error: ArgosyError, outcomes: list[Outcome]) -> None:
    throttle = RecordingThrottle()
    async with served_by(throttle, error) as client:
        assert (await client.get("/")).status_code == error.status
    assert throttle.outcomes == outcomes


async def test_without_a_throttle_all_requests_are_admitted() -> None:
    async with served_by(None, SearchResult(limits_hit=(LimitHit.WALL_TIME,))) as client:
        assert [(await client.get("/")).status_code for _ in range(50)] == [200] * 50


def scope(headers: dict[bytes, bytes], client: tuple[str, int] | None = ("192.0.2.7", 80)) -> dict[str, Any]:
    return {"type": "http", "path": "/", "headers": list(headers.items()), "client": client}


def test_a_client_is_known_by_its_key_or_else_by_its_address() -> None:
    def client_of(scope: dict[str, Any]) -> Any:
        return CLIENT_OF(AsgiRequest(scope))

    by_key = client_of(scope({b"authorization": b"Bearer secret"}))
    assert by_key == client_of(scope({b"authorization": b"Bearer secret"}, ("192.0.2.8", 80)))
    assert "secret" not in by_key
    assert client_of(scope({})) != client_of(scope({}, ("192.0.2.8", 80)))
    assert client_of(scope({}, None)) is None, "the middleware treats all of these as one client"
