"""Errors over HTTP, the same for every room: the remedy becomes the status, and the message says what to do.

Mount `EXCEPTION_HANDLERS` in a Starlette application; routes then simply raise.
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from argosy.base.errors import ArgosyError, NotOwner, Throttled, Unavailable
from argosy.base.redact import redact

RETRY_AFTER_S = 2       # advice of an Unavailable that knows nothing better


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encodes dataclasses and plain values."""
    return Response(msgspec.json.encode(body), status, dict(headers or {}), "application/json")


def error_response(error: ArgosyError) -> Response:
    """The error's status, one JSON object, and the headers that tell a client where or when to go on."""
    headers: dict[str, str] = {}
    match error:
        case NotOwner(hint=str(hint)):
            headers["x-argosy-owner"] = hint
        case Throttled(retry_after_s=seconds):
            headers["retry-after"] = str(ceil(seconds))
        case Unavailable():
            headers["retry-after"] = str(RETRY_AFTER_S)
    told = {"kind": type(error).__name__, "status": error.status, "message": redact(str(error))}
    return json_response({"error": told}, error.status, headers)


async def _handle(_: Request, error: Exception) -> Response:
    assert isinstance(error, ArgosyError)
    return error_response(error)


EXCEPTION_HANDLERS: Mapping[Any, Callable[[Request, Exception], Any]] = {ArgosyError: _handle}
