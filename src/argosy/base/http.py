"""Errors over HTTP, the same for every room: the remedy becomes the status, and the message says what to do.

Mount `EXCEPTION_HANDLERS` in a Starlette application; routes then simply raise.
"""

import hmac
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

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

SHOWN_CHARS_MAX = 200   # of a path, in an error
RETRY_AFTER_S = 2       # advice of an Unavailable that knows nothing better


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encodes dataclasses and plain values."""
    return Response(msgspec.json.encode(body), status, dict(headers or {}), "application/json")


def error_response(error: ArgosyError) -> Response:
    """The error's status, one JSON object, and the headers that tell a client where or when to go on."""
    headers: dict[str, str] = {}
    if isinstance(error, NotOwner) and error.hint is not None:
        headers["x-argosy-owner"] = error.hint
    if isinstance(error, Throttled | Unavailable):
        headers["retry-after"] = retry_after(error)
    told = {"kind": type(error).__name__, "status": error.status, "message": redact(str(error))}
    return json_response({"error": told}, error.status, headers)


def retry_after(error: Throttled | Unavailable) -> str:
    """The header's value: an Unavailable may have a `retry_after_s`, too, if it knows better than most."""
    return str(max(1, ceil(getattr(error, "retry_after_s", RETRY_AFTER_S))))


def check_admin(request: Request, admin_token: str | None) -> None:
    """Lets pass whoever shows the admin token; without a configured token nobody passes."""
    if not admin_token:
        raise Forbidden("admin routes are closed: set node.admin_token to open them")
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {admin_token}".encode()):
        raise Unauthorized("this route needs the header 'authorization: Bearer <admin token>'")


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    """The whole body; Invalid as soon as it is known to be larger than `bytes_max`, however much is still to come."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            raise Invalid(f"the body of this request may have {bytes_max} bytes: send less")
        parts.append(part)
    return b"".join(parts)


async def _handle(_: Request, error: Exception) -> Response:
    assert isinstance(error, ArgosyError)
    return error_response(error)


async def _handle_stray(request: Request, error: Exception) -> Response:
    """A path or a method that no route has."""
    assert isinstance(error, HTTPException)
    path, methods = request.url.path[:SHOWN_CHARS_MAX], _methods_here(request)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and methods:
        allowed = ", ".join(methods)
        told = {"kind": "MethodNotAllowed", "status": 405, "message": f"{path} is asked with {allowed}"}
        return json_response({"error": told}, status=405, headers={"allow": allowed})
    if error.status_code == HTTPStatus.NOT_FOUND:
        return error_response(NotFound(f"there is nothing at {path}: check the path"))
    return json_response(
        {"error": {"kind": "HttpError", "status": error.status_code, "message": error.detail}},
        status=error.status_code,
        headers=dict(error.headers or {}),
    )


def _methods_here(request: Request) -> list[str]:
    """All that the routes of this path take; the error itself knows only those of the first."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


EXCEPTION_HANDLERS: Mapping[Any, Callable[[Request, Exception], Any]] = {
    ArgosyError: _handle,
    HTTPException: _handle_stray,
}
