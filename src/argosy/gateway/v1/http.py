"""Routes of the v1 API: decode the request, call the gateway or the catalog, encode the response.

Reading is open to whoever may reach this port; changing needs the admin token. Every error is one JSON object with a
kind, a status and a message that says what to do; a query that cannot be read also says where.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing

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
from argosy.gateway.admission import AlwaysAdmit, admit_request, client_of
from argosy.gateway.model import RepoState
from argosy.gateway.ports import Admission, SearchGateway
from argosy.gateway.repo_filter import format_query_cached
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1 import responses
from argosy.gateway.v1.catalog_service import CatalogService
from argosy.gateway.v1.openapi import document
from argosy.gateway.v1.operations import EVENTS, NDJSON, OPERATIONS
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
from argosy.gateway.v1.settings import ApiSettings
from argosy.gateway.v1.stream import events
from argosy.gateway.v1.webhook import is_signed
from argosy.search.fleet.model import FileRequest, FolderRequest
from argosy.search.query import Parsed, QuerySyntaxError, format_query, parse

BODY_BYTES_MAX = 1 << 20
EVENT_BYTES_MAX = 25 << 20  # the largest push event that code hosts send
CORS_AGE_S = 600

Endpoint = Callable[[Request], Awaitable[Response]]


def v1_routes(
    gateway: SearchGateway,
    catalog: CatalogService,
    *,
    admin_token: str | None,
    settings: ApiSettings | None = None,
    admission: Admission | None = None,
) -> list[Route]:
    """Routes of all operations; without an `admission` searches are unlimited."""
    settings = settings or ApiSettings()
    reading = _ReadApi(gateway, admission or AlwaysAdmit())
    changing = _AdminApi(catalog, admin_token, settings.webhook_secret)
    return [
        Route(
            operation.route,
            _Operation(getattr(changing if operation.needs_admin else reading, operation.id)),
            methods=[operation.method, "OPTIONS"] if settings.cors_origins else [operation.method],
            middleware=_cors(settings),
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

    def __init__(self, gateway: SearchGateway, admission: Admission) -> None:
        self._gateway = gateway
        self._admission = admission

    async def search(self, request: Request) -> Response:
        asked = from_parameters(request.query_params.multi_items(), SearchParams)
        media = _wanted_stream(request)
        return await (self._streamed(request, asked, media) if media else self._searched(request, asked))

    async def search_by_body(self, request: Request) -> Response:
        asked = from_body(await read_body(request, bytes_max=BODY_BYTES_MAX), SearchParams)
        return await self._searched(request, asked)

    async def stream(self, request: Request) -> Response:
        asked = from_body(await read_body(request, bytes_max=BODY_BYTES_MAX), SearchParams)
        return await self._streamed(request, asked, _wanted_stream(request) or NDJSON)

    async def _searched(self, request: Request, asked: SearchParams) -> Response:
        parsed, only = _question(asked)
        understood = format_query_cached(parsed.query)
        with admit_request(self._admission, client_of(request.scope)) as visit:
            answer = await self._gateway.search(parsed.query, options_of(asked, parsed), only=only)
            visit.on_result(answer)
        return json_response(responses.search_reply(answer, understood))

    async def _streamed(self, request: Request, asked: SearchParams, media: str) -> Response:
        stream = self._events(request, asked)
        first = await anext(stream)  # an error before the first result still becomes an HTTP status
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(_lines(first, stream, media), 200, headers, media)

    async def _events(self, request: Request, asked: SearchParams) -> AsyncGenerator[v1.StreamEvent, None]:
        parsed, only = _question(asked)
        with admit_request(self._admission, client_of(request.scope)) as visit:
            parts = self._gateway.stream(parsed.query, options_of(asked, parsed), only=only)
            async with aclosing(events(parts, format_query(parsed.query), visit.on_result)) as stream:
                async for event in stream:
                    yield event

    async def repositories(self, request: Request) -> Response:
        asked = from_parameters(request.query_params.multi_items(), RepositoriesParams)
        states = [state.value for state in RepoState]
        if asked.state and asked.state not in states:
            raise Invalid(f"invalid state {asked.state!r}; use one of {', '.join(states)}")
        status = await self._gateway.status()
        found = [
            view
            for view in sorted(status.repositories, key=lambda view: view.name)
            if asked.name in view.name and view.name > asked.after and asked.state in ("", view.state.value)
        ]
        listed = found[: asked.limit]
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
        asked = from_parameters(request.query_params.multi_items(), FileParams)
        found = await self._gateway.file(FileRequest(request.path_params["name"], asked.path, asked.branch))
        tag = xxhash.xxh3_64_hexdigest(found.content + f"{found.version} {found.skipped} {asked.raw}".encode())
        headers = {"etag": f'"{tag}"', "cache-control": "no-cache"}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if not asked.raw:
            return json_response(responses.file_reply(found), headers=headers)
        if found.skipped:
            raise NotFound(f"content of {asked.path!r} not indexed: {found.skipped}")
        # Served as plain text from a sandbox: file contents must not run as a page of this origin.
        headers |= {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}
        return Response(found.content, 200, headers, "text/plain; charset=utf-8")

    async def folder(self, request: Request) -> Response:
        asked = from_parameters(request.query_params.multi_items(), FolderParams)
        found = await self._gateway.folder(FolderRequest(request.path_params["name"], asked.path, asked.branch))
        return json_response(responses.folder_reply(found))

    async def fleet(self, _: Request) -> Response:
        return json_response(responses.redacted(await self._gateway.status()))

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
        wish = from_body(await read_body(request, bytes_max=BODY_BYTES_MAX), AddRepositoryRequest)
        return json_response(await self._catalog.add(wish), 201)

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
        if not self._webhook_secret:
            check_admin(request, self._admin_token)
        body = await read_body(request, bytes_max=EVENT_BYTES_MAX)
        if self._webhook_secret and not is_signed(request.headers, body, self._webhook_secret):
            self._check_unsigned(request)
        return json_response(await self._catalog.pushed(body), 202)

    def _check_unsigned(self, request: Request) -> None:
        try:
            check_admin(request, self._admin_token)
        except (Forbidden, Unauthorized):
            raise Unauthorized(
                "event not signed with api.webhook_secret; check the webhook secret of the code host"
            ) from None


class _Operation:
    """Wrap an endpoint: errors become JSON problems; a query syntax error also has a position.

    An ASGI application, because a function would be wrapped once more, which costs as much as reading a query.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._endpoint(Request(scope, receive, send))
        except QuerySyntaxError as error:
            problem = v1.Problem("Invalid", error.status, redact(str(error)), error.position)
            response = json_response(v1.Failure(problem), error.status)
        except ArgosyError as error:
            response = error_response(error)
        await response(scope, receive, send)


def _question(asked: SearchParams) -> tuple[Parsed, Collection[str] | None]:
    only = None if asked.repositories is None else frozenset(asked.repositories)
    return parse(asked.q, pattern_type=asked.patterns), only


def _wanted_stream(request: Request) -> str:
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
