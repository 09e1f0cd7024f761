"""Questions a command puts to a running process over HTTP."""

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from argosy.base.errors import Forbidden, Invalid, Unauthorized, Unavailable

TIMEOUT_S = 30.0
BODY_BYTES_MAX = 64 << 20

_ERRORS = {400: Invalid, 401: Unauthorized, 403: Forbidden}


def post(url: str, body: object = None, *, token: str | None = None) -> Any:
    """Sends JSON and returns the JSON that is answered; an error that is told there is raised here."""
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(BODY_BYTES_MAX) or b"null")
    except HTTPError as error:
        raise _ERRORS.get(error.code, Unavailable)(_told(error)) from None
    except (URLError, OSError, ValueError) as error:
        raise Unavailable(f"{url} does not answer ({error}): is it running?") from None


def _told(error: HTTPError) -> str:
    """The message inside the answer, or its status if there is none."""
    try:
        message: str = json.loads(error.read(BODY_BYTES_MAX))["error"]["message"]
        return message
    except (ValueError, KeyError, TypeError):
        return f"{error.url} answered {error.code} {error.reason}"
