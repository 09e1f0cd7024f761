"""Shared by the three APIs: one path with its methods, errors as plain text, limits on bodies."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from argosy import __version__
from argosy.base.errors import ArgosyError, Invalid, Throttled, Unauthorized, Unavailable
from argosy.base.http import PATH_CHARS_MAX, retry_after, wants_page
from argosy.base.redact import redact
from argosy.ipni.formats.peer import parse_peer
from argosy.ipni.web import page

NO_CACHE = {"cache-control": "no-cache"}

Handler = Callable[[Request], Awaitable[Response]]
Guard = Callable[[Request], None]


class Verbs:
    """The methods of one path. Clients of IPNI read errors as plain text, so errors are plain text."""

    def __init__(
        self, handlers: Mapping[str, Handler], *, headers: Mapping[str, str] | None = None, guard: Guard | None = None
    ) -> None:
        self._handlers = handlers
        self._headers = dict(headers or {})
        self._guard = guard
        self._allow = {"allow": ", ".join([*handlers, "OPTIONS"])}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ArgosyError as error:
            response = text_error(error)
        for name, value in self._headers.items():
            # Also on errors: a browser hides the text of an error without the CORS header from its page.
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        # Before the guard: a browser's preflight request carries no token.
        if request.method == "OPTIONS":
            return Response(headers=self._allow)
        if self._guard is not None:
            self._guard(request)
        handler = self._handlers.get(request.method)
        if handler is None:
            return PlainTextResponse("method not allowed\n", 405, self._allow)
        return await handler(request)


def route(path: str, *, headers: Mapping[str, str] | None = None, **handlers: Handler) -> Route:
    """`route("/stats", GET=stats)`."""
    return Route(path, Verbs(handlers, headers=headers))


def text_error(error: ArgosyError) -> Response:
    headers = {"retry-after": retry_after(error)} if isinstance(error, Throttled | Unavailable) else {}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return PlainTextResponse(redact(str(error)) + "\n", error.status, headers)


async def handle_no_route(request: Request, error: Exception) -> Response:
    """A path that no route has: a page for a browser, text for a program."""
    assert isinstance(error, HTTPException)
    if wants_page(request):
        message = f"{request.url.path[:PATH_CHARS_MAX]} not found; check the path"
        html = page.render_error(error.status_code, message)
        return HTMLResponse(html, error.status_code, {**NO_CACHE, **page.SECURITY_HEADERS, "vary": "accept"})
    return PlainTextResponse(error.detail, error.status_code, {**(error.headers or {}), "vary": "accept"})


EXCEPTION_HANDLERS = {HTTPException: handle_no_route}


async def health(_: Request) -> Response:
    return PlainTextResponse(f"ready {__version__}", headers=NO_CACHE)


def peer_in(request: Request, name: str = "peer") -> str:
    return parse_peer(request.path_params[name])


def flag_in(request: Request, name: str) -> bool:
    """A query parameter that is true or false in one of the spellings Go reads; absent is false."""
    text = request.query_params.get(name, "")
    if text.lower() in ("1", "t", "true"):
        return True
    if text.lower() in ("", "0", "f", "false"):
        return False
    raise Invalid(f"{name} is true or false, not {text[:80]!r}")
