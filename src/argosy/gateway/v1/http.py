"""Routes of the v1 API: decode the request, call the gateway or the catalog, encode the response.

Reading is open to everyone who can reach this port; changing requires the admin token. Every error is one JSON object
with a kind, a status and a message that says what to do; a query syntax error adds its position.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

import msgspec
import xxhash
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from argosy import __version__
from argosy.base.errors import ArgosyError, Forbidden, Invalid, NotFound, Unauthorized
from argosy.base.http import check_admin, error_response, json_response, read_body
from argosy.base.redact import redact
from argosy.gateway.admission import admission, record_error, record_result
from argosy.gateway.ports import RepoState, SearchGateway
from argosy.gateway.settings import ApiSettings
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1 import responses
from argosy.gateway.v1.catalog_service import CatalogService, is_signed
from argosy.gateway.v1.operations import EVENTS, NDJSON, OPERATIONS, document
from argosy.gateway.v1.requests import (
    AddRepositoryRequest,
    FileParams,
    FolderParams,
    RepositoriesParams,
    SearchParams,
    from_body,
    from_parameters,
    options_of,
)
from argosy.gateway.v1.stream import stream_events
from argosy.search.fleet.model import FileRequest, FolderRequest
from argosy.search.query import QuerySyntaxError, format_query, parse
from argosy.throttle.fair_throttle import FairThrottle

BODY_BYTES_MAX = 1 << 20
EVENT_BYTES_MAX = 25 << 20  # GitHub's limit for the payload of a webhook
CORS_AGE_S = 600  # Chromium caps this at two hours; a change of the setting takes effect after ten minutes

Endpoint = Callable[[Request], Awaitable[Response]]


def v1_routes(
    gateway: SearchGateway,
    catalog: CatalogService,
    *,
    admin_token: str | None,
    settings: ApiSettings | None = None,
    throttle: FairThrottle | None = None,
) -> list[Route]:
    """Routes of all operations; without a throttle searches are unlimited."""
    settings = settings or ApiSettings()
    reading = _ReadApi(gateway)
    changing = _AdminApi(catalog, admin_token, settings.webhook_secret)
    return [
        Route(
            operation.route,
            _Operation(getattr(changing if operation.needs_admin else reading, operation.id)),
            methods=[operation.method, "OPTIONS"] if settings.cors_origins else [operation.method],
            # CORS outside, so that a preflight request is not admitted and a browser can read a 429.
            middleware=[*_cors(settings), *(admission(throttle) if operation.is_search else ())],
            name=f"v1-{operation.id}",
        )
        for operation in OPERATIONS
    ]


def _cors(settings: ApiSettings) -> list[Middleware]:
    if not settings.cors_origins:
        return []
    headers = ["authorization", "content-type", "if-none-match"]
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=headers,
            expose_headers=["etag", "retry-after"],
            max_age=CORS_AGE_S,
        )
    ]


class _ReadApi:
    """Read operations; each method has the id of its operation."""

    def __init__(self, gateway: SearchGateway) -> None:
        self._gateway = gateway

    async def search(self, request: Request) -> Response:
        params = from_parameters(request.query_params.multi_items(), SearchParams)
        media = _stream_media_type(request)
        return await (self._stream_search(request, params, media) if media else self._search_once(request, params))

    async def search_by_body(self, request: Request) -> Response:
        params = from_body(await read_body(request, bytes_max=BODY_BYTES_MAX), SearchParams)
        return await self._search_once(request, params)

    async def stream(self, request: Request) -> Response:
        params = from_body(await read_body(request, bytes_max=BODY_BYTES_MAX), SearchParams)
        return await self._stream_search(request, params, _stream_media_type(request) or NDJSON)

    async def _search_once(self, request: Request, params: SearchParams) -> Response:
        parsed = parse(params.q, pattern_type=params.patterns)
        shown_query = format_query(parsed.query)
        answer = await self._gateway.search(parsed.query, options_of(params, parsed), only=params.repositories)
        record_result(request.scope, answer)
        return json_response(responses.search_response(answer, shown_query))

    async def _stream_search(self, request: Request, params: SearchParams, media: str) -> Response:
        stream = self._events(request, params)
        first = await anext(stream)  # an error before the first result still becomes an HTTP status
        # without this header nginx buffers the response and delivers the stream in one piece
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(_lines(first, stream, media), 200, headers, media)

    async def _events(self, request: Request, params: SearchParams) -> AsyncGenerator[v1.StreamEvent, None]:
        parsed = parse(params.q, pattern_type=params.patterns)
        parts = self._gateway.stream(parsed.query, options_of(params, parsed), only=params.repositories)
        on_result = partial(record_result, request.scope)
        async with aclosing(stream_events(parts, format_query(parsed.query), on_result)) as stream:
            async for event in stream:
                yield event

    async def repositories(self, request: Request) -> Response:
        params = from_parameters(request.query_params.multi_items(), RepositoriesParams)
        states = [state.value for state in RepoState]
        if params.state and params.state not in states:
            raise Invalid(f"invalid state {params.state!r}; use one of {', '.join(states)}")
        status = await self._gateway.status()
        # Pages continue after a name and not at an offset, so that repositories added meanwhile shift nothing.
        found = [
            view
            for view in sorted(status.repositories, key=lambda view: view.name)
            if params.name in view.name and view.name > params.after and params.state in ("", view.state.value)
        ]
        listed = found[: params.limit]
        following = listed[-1].name if len(found) > len(listed) else ""
        return json_response(v1.RepositoriesResponse([responses.repository_view(each) for each in listed], following))

    async def repository(self, request: Request) -> Response:
        name = request.path_params["name"]
        status = await self._gateway.status()
        for view in status.repositories:
            if view.name == name:
                return json_response(responses.repository_view(view))
        raise NotFound(f'repository "{name}" not found in the catalog')

    async def file(self, request: Request) -> Response:
        params = from_parameters(request.query_params.multi_items(), FileParams)
        found = await self._gateway.file(FileRequest(request.path_params["name"], params.path, params.branch))
        # The representation is part of the tag: raw bytes and JSON of one file are different responses.
        tag = xxhash.xxh3_64_hexdigest(found.content + f"{found.version} {found.skipped} {params.raw}".encode())
        headers = {"etag": f'"{tag}"', "cache-control": "no-cache"}
        # The header may list several tags.
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if not params.raw:
            return json_response(responses.file_response(found), headers=headers)
        if found.skipped:
            raise NotFound(f"content of {params.path!r} not indexed: {found.skipped}")
        # Served as plain text from a sandbox: file contents must not run as a page of this origin.
        headers |= {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}
        return Response(found.content, 200, headers, "text/plain; charset=utf-8")

    async def folder(self, request: Request) -> Response:
        params = from_parameters(request.query_params.multi_items(), FolderParams)
        found = await self._gateway.folder(FolderRequest(request.path_params["name"], params.path, params.branch))
        return json_response(responses.folder_response(found))

    async def fleet(self, _: Request) -> Response:
        return json_response(responses.redact_status(await self._gateway.status()))

    async def openapi(self, _: Request) -> Response:
        return json_response(document(__version__))


class _AdminApi:
    """Operations that require the admin token; each method has the id of its operation."""

    def __init__(self, catalog: CatalogService, admin_token: str | None, webhook_secret: str | None) -> None:
        self._catalog = catalog
        self._admin_token = admin_token
        self._webhook_secret = webhook_secret

    async def add(self, request: Request) -> Response:
        check_admin(request, self._admin_token)
        body = from_body(await read_body(request, bytes_max=BODY_BYTES_MAX), AddRepositoryRequest)
        return json_response(await self._catalog.add(body), 201)

    async def remove(self, request: Request) -> Response:
        check_admin(request, self._admin_token)
        await self._catalog.remove(request.path_params["name"])
        return Response(status_code=204)

    async def pin(self, request: Request) -> Response:
        check_admin(request, self._admin_token)
        return json_response(await self._catalog.pin(request.path_params["name"], is_pinned=True))

    async def unpin(self, request: Request) -> Response:
        check_admin(request, self._admin_token)
        return json_response(await self._catalog.pin(request.path_params["name"], is_pinned=False))

    async def reindex(self, request: Request) -> Response:
        check_admin(request, self._admin_token)
        return json_response(await self._catalog.reindex(request.path_params["name"]), 202)

    async def webhook(self, request: Request) -> Response:
        """Code hosts cannot send the admin token, so their events are verified by signature."""
        # Before the body is read where possible: otherwise anyone could have 25 MiB read. A signature needs the body.
        if not self._webhook_secret:
            check_admin(request, self._admin_token)
        body = await read_body(request, bytes_max=EVENT_BYTES_MAX)
        if self._webhook_secret and not is_signed(request.headers, body, self._webhook_secret):
            self._check_unsigned(request)
        return json_response(await self._catalog.notify_push(body), 202)

    def _check_unsigned(self, request: Request) -> None:
        try:
            check_admin(request, self._admin_token)
        except (Forbidden, Unauthorized):
            raise Unauthorized(
                "event not signed with api.webhook_secret; check the webhook secret of the code host"
            ) from None


class _Operation:
    """Wrap an endpoint: errors become JSON problems; a query syntax error also has a position.

    It is an ASGI application and not a function: Starlette wraps a function once more, with its own exception handling,
    and that costs as much CPU as parsing a query.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._endpoint(Request(scope, receive, send))
        except QuerySyntaxError as error:
            problem = v1.Problem("Invalid", error.status, redact(str(error)), error.position)
            response = json_response(v1.ErrorResponse(problem), error.status)
        except ArgosyError as error:
            record_error(scope, error)
            response = error_response(error)
        await response(scope, receive, send)


def _stream_media_type(request: Request) -> str:
    """The streaming media type that the client accepts; empty if none."""
    accepted = request.headers.get("accept", "")
    return NDJSON if NDJSON in accepted else EVENTS if EVENTS in accepted else ""


async def _lines(first: v1.StreamEvent, rest: AsyncGenerator[v1.StreamEvent, None], media: str) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield _line(first, media)
        async for event in rest:
            yield _line(event, media)


def _line(event: v1.StreamEvent, media: str) -> bytes:
    encoded = msgspec.json.encode(event)
    if media == NDJSON:
        return encoded + b"\n"
    return b"event: %s\ndata: %s\n\n" % (v1.event_name(event).encode(), encoded)
