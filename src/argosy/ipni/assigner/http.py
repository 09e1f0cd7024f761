"""The assigner over HTTP: announcements in, and what it knows out.

`PUT /announce` (also at its former path) takes CBOR, or JSON if the content type says so, and answers 204 when the
announcement is noted; refusals are plain text, as publishers expect. What changes something needs the admin token.
"""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.errors import ArgosyError, Throttled, Unavailable
from argosy.base.http import EXCEPTION_HANDLERS, check_admin, json_response, read_body, retry_after
from argosy.base.metrics import CONTENT_TYPE
from argosy.base.redact import redact
from argosy.ipni.assigner import views
from argosy.ipni.assigner.advice import advise
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.formats import announce as announces

ANNOUNCE_BYTES_MAX = 1 << 20  # as indexers have it

Reload = Callable[[], Awaitable[None]]


def assigner_routes(service: AssignerService, *, admin_token: str | None, reload: Reload, version: str) -> list[Route]:
    """Routes for an application that has `base.http.EXCEPTION_HANDLERS`; `reload` reads the pool file again."""

    async def announce(request: Request) -> Response:
        try:
            data = await read_body(request, bytes_max=ANNOUNCE_BYTES_MAX)
            service.announce(announces.decode(data, _is_json(request)))
        except ArgosyError as why:
            return _refusal(why)
        return Response(status_code=204)

    async def health(_: Request) -> Response:
        return PlainTextResponse(f"assigner ready {version}\n", headers={"cache-control": "no-cache"})

    async def pool(_: Request) -> Response:
        return json_response({"indexers": views.pool_rows(service.picture), "is_polled": service.is_ready()})

    async def assignments(_: Request) -> Response:
        return json_response({"publishers": views.assignment_rows(service.picture, service.short)})

    async def advice(_: Request) -> Response:
        return json_response({"advice": advise(service.picture)})

    async def metrics(_: Request) -> Response:
        service.teller.show(service.picture, len(service.short))
        return Response(service.teller.metrics.exposition(), media_type=CONTENT_TYPE)

    async def poll(request: Request) -> Response:
        check_admin(request, admin_token)
        await service.poll()
        return json_response({"indexers": views.pool_rows(service.picture)})

    async def read_again(request: Request) -> Response:
        check_admin(request, admin_token)
        await reload()
        return json_response({"indexers": views.pool_rows(service.picture)})

    async def page(_: Request) -> Response:
        return HTMLResponse(views.page(service.picture, service.short))

    return [
        Route("/announce", announce, methods=["PUT"]),
        Route("/ingest/announce", announce, methods=["PUT"]),
        Route("/health", health),
        Route("/pool", pool),
        Route("/assignments", assignments),
        Route("/advice", advice),
        Route("/metrics", metrics),
        Route("/poll", poll, methods=["POST"]),
        Route("/reload", read_again, methods=["POST"]),
        Route("/", page),
    ]


def assigner_app(service: AssignerService, *, admin_token: str | None, reload: Reload, version: str) -> Starlette:
    """The routes as an application of their own."""
    routes = assigner_routes(service, admin_token=admin_token, reload=reload, version=version)
    return Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _refusal(why: ArgosyError) -> Response:
    headers = {"retry-after": retry_after(why)} if isinstance(why, Throttled | Unavailable) else {}
    return PlainTextResponse(redact(str(why)) + "\n", why.status, headers)
