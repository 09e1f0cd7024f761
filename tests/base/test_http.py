"""A remedy becomes a status, and the headers that go with it."""

import json
from collections.abc import Mapping

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.base.errors import (
    ArgosyError,
    Fenced,
    Forbidden,
    Invalid,
    NotOwner,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.base.http import (
    EXCEPTION_HANDLERS,
    check_admin,
    error_response,
    exception_handlers,
    json_response,
    read_body,
)


class Informed(Unavailable):
    """An error with a retry time."""

    retry_after_s = 4.1


def request(*parts: bytes, authorization: str = "") -> Request:
    """A request whose body comes in parts."""
    waiting = list(parts)

    async def receive() -> dict[str, object]:
        body = waiting.pop(0) if waiting else b""
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    headers = [(b"authorization", authorization.encode())]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (Invalid("x"), 400, None),
        (NotOwner("x", hint="10.0.0.1:7000"), 421, ("x-argosy-owner", "10.0.0.1:7000")),
        (NotOwner("x"), 421, None),
        (Throttled("x", retry_after_s=1.2), 429, ("retry-after", "2")),
        (Unavailable("x"), 503, ("retry-after", "2")),
        (Fenced("x"), 503, ("retry-after", "2")),
        (Informed("x"), 503, ("retry-after", "5")),
    ],
)
def test_an_error_contains_its_remedy(error: ArgosyError, status: int, header: tuple[str, str] | None) -> None:
    response = error_response(error)
    body = json.loads(bytes(response.body))["error"]
    assert (response.status_code, body["status"], body["kind"]) == (status, status, type(error).__name__)
    extra = [(n, v) for n, v in response.headers.items() if n in ("x-argosy-owner", "retry-after")]
    assert extra == ([] if header is None else [header])


def test_secrets_in_a_message_are_masked() -> None:
    response = error_response(Unavailable("cannot reach redis://user:hush@10.0.0.1:6379"))
    assert b"hush" not in response.body
    assert b"10.0.0.1:6379" in response.body


def test_json_carries_status_and_headers() -> None:
    response = json_response({"a": 1}, 202, {"x-b": "c"})
    assert (response.status_code, bytes(response.body), response.headers["x-b"]) == (202, b'{"a":1}', "c")


def test_only_the_admin_token_opens_admin_routes() -> None:
    check_admin(request(authorization="Bearer right"), "right")
    for wrong in ("", "right", "Bearer wrong", "Bearer é"):
        with pytest.raises(Unauthorized):
            check_admin(request(authorization=wrong), "right")
    with pytest.raises(Forbidden, match="admin_token"):
        check_admin(request(authorization="Bearer "), None)


async def test_a_body_is_read_up_to_its_bound() -> None:
    assert await read_body(request(b"ab", b"c"), bytes_max=3) == b"abc"
    assert await read_body(request(), bytes_max=0) == b""
    with pytest.raises(Invalid, match="2 bytes"):
        await read_body(request(b"ab", b"c", b"d"), bytes_max=2)


async def stray(method: str, path: str) -> tuple[int, str | None, dict[str, object]]:
    """The answer of an application with two routes at one path to a request for neither."""

    async def answer(_: Request) -> Response:
        return Response()

    routes = [Route("/a/{name}", answer, methods=["GET"]), Route("/a/{name}", answer, methods=["POST"])]
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        reply = await client.request(method, path)
    return reply.status_code, reply.headers.get("allow"), reply.json()["error"]


async def test_an_unknown_path_is_an_error_like_others() -> None:
    status, _, error = await stray("GET", "/b")
    assert status == error["status"] == 404
    assert error["message"] == "/b not found; check the path"


async def test_a_wrong_method_gets_all_allowed_methods() -> None:
    status, allow, error = await stray("PUT", "/a/x")
    assert (status, allow) == (405, "GET, HEAD, POST")
    message = "PUT is not allowed for /a/x; use GET, HEAD, POST"
    assert error == {"kind": "MethodNotAllowed", "status": 405, "message": message}


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def with_pages(method: str, path: str, accept: str) -> httpx.Response:
    """The answer of an application with pages and one failing route."""

    async def fail(_: Request) -> Response:
        raise RuntimeError("a defect")

    def page(status: int, message: str, headers: Mapping[str, str]) -> Response:
        return Response(f"<p>{message}", status, headers, "text/html")

    app = Starlette(routes=[Route("/fail", fail)], exception_handlers=exception_handlers(page))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.request(method, path, headers={"accept": accept})


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/fail", 500)])
async def test_a_browser_gets_a_page(path: str, status: int) -> None:
    reply = await with_pages("GET", path, BROWSER)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert reply.headers["vary"] == "accept"
    assert "a defect" not in reply.text


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/html;q=0.5"])
@pytest.mark.parametrize(("request_line", "status"), [("GET /x", 404), ("GET /fail", 500), ("PUT /fail", 405)])
async def test_a_program_gets_json(request_line: str, status: int, accept: str) -> None:
    reply = await with_pages(*request_line.split(), accept)
    assert (reply.status_code, reply.json()["error"]["status"]) == (status, status)
    assert reply.headers["vary"] == "accept"


async def test_a_form_sent_to_an_unknown_path_gets_json() -> None:
    reply = await with_pages("POST", "/nowhere", BROWSER)
    assert reply.json()["error"]["kind"] == "NotFound"
