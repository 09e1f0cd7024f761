"""Errors as HTTP responses, the same for every package: the error's class sets the status.

Mount `EXCEPTION_HANDLERS` in a Starlette application; its routes then raise errors of `base.errors`. An application
with web pages mounts `exception_handlers(error_page)`: a browser then receives a page and every other client JSON.
"""

import hmac
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import ceil
from typing import Any, TypeAlias

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from argosy.base.errors import (
    ArgosyError,
    Forbidden,
    Invalid,
    NotFound,
    NotOwner,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.base.redact import redact

Handler: TypeAlias = Callable[[Request, Exception], Any]
ErrorPage: TypeAlias = Callable[[int, str, Mapping[str, str]], Response]  # of a status, a message and headers

PATH_CHARS_MAX = 200  # of a path, in an error message
RETRY_AFTER_S = 2  # for an Unavailable without a `retry_after_s` of its own


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encodes dataclasses and plain values."""
    return Response(msgspec.json.encode(body), status, dict(headers or {}), "application/json")


def error_response(error: ArgosyError) -> Response:
    """The error as JSON, with headers for where (x-argosy-owner) or when (retry-after) to retry."""
    headers: dict[str, str] = {}
    if isinstance(error, NotOwner) and error.hint is not None:
        headers["x-argosy-owner"] = error.hint
    if isinstance(error, Throttled | Unavailable):
        headers["retry-after"] = retry_after(error)
    body = {"kind": type(error).__name__, "status": error.status, "message": redact(str(error))}
    return json_response({"error": body}, error.status, headers)


def retry_after(error: Throttled | Unavailable) -> str:
    """The value of the Retry-After header; an Unavailable may carry a `retry_after_s` too."""
    return str(max(1, ceil(getattr(error, "retry_after_s", RETRY_AFTER_S))))


def check_admin(request: Request, admin_token: str | None) -> None:
    """Requires the admin token; without a configured token every request is rejected."""
    if not admin_token:
        raise Forbidden("admin routes are disabled; set node.admin_token to enable them")
    presented = request.headers.get("authorization", "")
    # A comparison that ends at the first difference would reveal the token byte by byte through its timing.
    if not hmac.compare_digest(presented.encode(), f"Bearer {admin_token}".encode()):
        raise Unauthorized("missing or wrong admin token; send the header 'authorization: Bearer <admin token>'")


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    """The whole body; raises Invalid at the first byte past `bytes_max`, without reading the rest."""
    parts: list[bytes] = []
    size = 0
    # Counted while reading: a declared content length may be missing or wrong.
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            raise Invalid(f"request body too large: the limit is {bytes_max} bytes")
        parts.append(part)
    return b"".join(parts)


async def _handle(_: Request, error: Exception) -> Response:
    assert isinstance(error, ArgosyError)
    return error_response(error)


def wants_page(request: Request) -> bool:
    """Whether the client is a browser that wants a page; programs accept anything, or JSON."""
    accept = request.headers.get("accept", "")
    return request.method in ("GET", "HEAD") and "text/html" in accept and "application/json" not in accept


def exception_handlers(error_page: ErrorPage | None = None) -> Mapping[Any, Handler]:
    """Handlers for exceptions that routes raise, and for unknown paths and methods."""

    def respond(request: Request, kind: str, status: int, message: str, headers: Mapping[str, str]) -> Response:
        if error_page is None:
            return json_response({"error": {"kind": kind, "status": status, "message": message}}, status, headers)
        # The same address answers with a page or with JSON, which a cache in between has to distinguish.
        headers = {**headers, "vary": "accept"}
        if wants_page(request):
            return error_page(status, message, headers)
        return json_response({"error": {"kind": kind, "status": status, "message": message}}, status, headers)

    async def handle_no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, methods = request.url.path[:PATH_CHARS_MAX], _methods_here(request)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and methods:
            allowed = ", ".join(methods)
            message = f"{request.method} is not allowed for {path}; use {allowed}"
            return respond(request, "MethodNotAllowed", 405, message, {"allow": allowed})
        if error.status_code == HTTPStatus.NOT_FOUND:
            return respond(request, NotFound.__name__, 404, f"{path} not found; check the path", {})
        return respond(request, "HttpError", error.status_code, error.detail, error.headers or {})

    async def handle_defect(request: Request, _: Exception) -> Response:
        """Starlette raises the exception again afterwards, so the server logs it."""
        return respond(request, "InternalError", 500, "internal error; see the log of the server", {})

    return {ArgosyError: _handle, HTTPException: handle_no_route, Exception: handle_defect}


def _methods_here(request: Request) -> list[str]:
    """The methods of all routes of this path; Starlette's error lists only those of the first route."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


EXCEPTION_HANDLERS = exception_handlers()
