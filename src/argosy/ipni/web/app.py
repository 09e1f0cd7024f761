"""The APIs of an indexer as ASGI applications, and the routes of the ingest API.

storetheindex listens on three ports, one per API: `find_app`, `ingest_app` and `admin_app`. `indexer_app` serves all
three on one port; their paths are disjoint, and the admin routes still need the token.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from argosy.base.clock import Clock
from argosy.base.http import json_response, read_body
from argosy.base.metrics import Metrics
from argosy.ipni.formats import cid
from argosy.ipni.formats.envelope import decode_record
from argosy.ipni.formats.head import decode_announcement
from argosy.ipni.ports import IndexerApi, IngestApi
from argosy.ipni.web.admin import admin_app, admin_routes
from argosy.ipni.web.find import find_app, find_routes
from argosy.ipni.web.find_fast_path import FindFastPath, MeasuredFinds
from argosy.ipni.web.http import EXCEPTION_HANDLERS, health, peer_in, route

ANNOUNCE_BYTES_MAX = 1024 * 1024
RECORD_BYTES_MAX = 64 * 1024  # a signed peer record: a key, a signature and some addresses
# A cache in front of the indexer would show an old state to a publisher that waits for its advertisement.
_FRESH = {"cache-control": "no-store"}


def ingest_app(indexer: IngestApi) -> ASGIApp:
    """The ingest API alone, for a port of its own."""
    app = Starlette(routes=[*ingest_routes(indexer), route("/health", GET=health)])
    app.router.redirect_slashes = False
    return app


def ingest_routes(indexer: IngestApi) -> list[BaseRoute]:
    ingest = _Ingest(indexer)
    return [
        route("/announce", PUT=ingest.announce),
        # The former path, which older publishers use.
        route("/ingest/announce", PUT=ingest.announce),
        route("/register", POST=ingest.register),
        route("/sync/status", GET=ingest.statuses),
        route("/sync/status/ad/{cid}", GET=ingest.advert),
        route("/sync/status/{peer}", GET=ingest.status),
    ]


class _Ingest:
    def __init__(self, indexer: IngestApi) -> None:
        self._indexer = indexer

    async def announce(self, request: Request) -> Response:
        body = await read_body(request, bytes_max=ANNOUNCE_BYTES_MAX)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # 204 when the announcement is queued, not when it is applied, as publishers expect.
        await self._indexer.announce(decode_announcement(body, is_json=kind == "application/json"))
        return Response(status_code=204)

    async def register(self, request: Request) -> Response:
        record = decode_record(await read_body(request, bytes_max=RECORD_BYTES_MAX))
        await self._indexer.register(record.peer, record.sequence)
        return Response()

    async def statuses(self, _: Request) -> Response:
        return _json_or_no_content(self._indexer.sync_status())

    async def status(self, request: Request) -> Response:
        peer = peer_in(request)
        return _json_or_no_content(self._indexer.sync_status(peer).get(peer))

    async def advert(self, request: Request) -> Response:
        ad = cid.parse(request.path_params["cid"])
        return json_response({"Ad": str(ad), "Indexed": await self._indexer.is_indexed(ad)}, headers=_FRESH)


def _json_or_no_content(status: object) -> Response:
    return json_response(status, headers=_FRESH) if status else Response(status_code=204, headers=_FRESH)


__all__ = ["admin_app", "find_app", "indexer_app", "ingest_app"]


def indexer_app(
    indexer: IndexerApi,
    *,
    clock: Clock,
    metrics: Metrics,
    admin_token: str | None = None,
    is_private_network: bool = False,
) -> FindFastPath:
    """Find, ingest and admin on one listener."""
    finder = MeasuredFinds(indexer, clock=clock, metrics=metrics)
    rest = Starlette(
        routes=[
            *find_routes(indexer, finder, clock=clock),
            *ingest_routes(indexer),
            *admin_routes(indexer, metrics=metrics, admin_token=admin_token, is_private_network=is_private_network),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    rest.router.redirect_slashes = False
    return FindFastPath(finder, rest)
