"""Routes of the content gateway: the find API of an indexer, over all indexers.

`content_app` is for a listener of its own; `content_routes` go among other routes.
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.base.errors import ArgosyError, Invalid
from argosy.base.http import json_response, read_body
from argosy.gateway.content.find_fast_path import LINES, PATHS, RoutedFindFastPath, headers_of, send_error, send_stream
from argosy.gateway.content.model import InconclusiveFind, MergedAnswer, MissingBackend
from argosy.gateway.content.service import ContentGateway
from argosy.ipni.formats import multihash
from argosy.ipni.formats.bases import from_base58
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json, results, routing
from argosy.ipni.web.find import BATCH_BYTES_MAX, BATCH_MULTIHASHES_MAX
from argosy.ipni.web.find_fast_path import NOTHING
from argosy.ipni.web.http import NO_CACHE, Handler, Verbs, peer_in
from argosy.ipni.web.lookup_params import NotAcceptable, ResponseFormat, form_of, multihash_of_cid, second_hash

METADATA_KEY_BYTES = 32

_CORS = {"access-control-allow-origin": "*", "access-control-allow-methods": "GET, OPTIONS"}
# Browsers send a preflight request before a cross-origin JSON body.
_BATCH = {**_CORS, "access-control-allow-methods": "POST, OPTIONS", "access-control-allow-headers": "content-type"}
_ROUTING = {**_CORS, "x-content-type-options": "nosniff", "vary": "Accept"}


def content_app(gateway: ContentGateway) -> ASGIApp:
    rest = Starlette(routes=_other_routes(gateway))
    rest.router.redirect_slashes = False
    return RoutedFindFastPath(gateway, rest)


def content_routes(gateway: ContentGateway) -> list[BaseRoute]:
    rest = _other_routes(gateway)
    fast_path = RoutedFindFastPath(gateway, PlainTextResponse("Not Found", 404))
    return [*(Route(start + "{name:path}", fast_path) for start in PATHS), *rest]


def _other_routes(gateway: ContentGateway) -> list[BaseRoute]:
    api = _ContentApi(gateway)
    return [
        _route("/health", _CORS, GET=api.health),
        _route("/multihash", _BATCH, POST=api.batch),
        _route("/providers", _CORS, GET=api.providers),
        _route("/providers/{peer}", _CORS, GET=api.provider),
        _route("/metadata/{key}", _CORS, GET=api.metadata),
        _route("/routing/v1/providers", _ROUTING, PUT=api.provide),
        _route("/routing/v1/providers/{cid}", _ROUTING, GET=api.routing),
        _route("/routing/v1/encrypted/providers/{cid}", _ROUTING, GET=api.routing_encrypted),
    ]


def _route(path: str, headers: dict[str, str], **handlers: Handler) -> Route:
    return Route(path, Verbs(handlers, headers=headers))


class _ContentApi:
    def __init__(self, gateway: ContentGateway) -> None:
        self._gateway = gateway
        self._encoded_list: tuple[list[Provider], bytes] | None = None  # the encoded list of the last response

    async def health(self, _: Request) -> Response:
        return json_response({"status": "ready"}, headers=NO_CACHE)

    async def batch(self, request: Request) -> Response:
        accept = _accept(request)
        if form_of(accept) is ResponseFormat.LINES and not any(
            kind in accept for kind in (b"application/json", b"*/*")
        ):
            # Lines have no field for the multihash, so the results of a batch could not be distinguished.
            raise NotAcceptable("lines do not name their multihash; accept application/json for a batch")
        requested = results.decode_batch(await read_body(request, bytes_max=BATCH_BYTES_MAX))
        if len(requested) > BATCH_MULTIHASHES_MAX:
            raise Invalid(f"too many multihashes: {len(requested)} (at most {BATCH_MULTIHASHES_MAX}); split the batch")
        for each in requested:
            multihash.split(each)
        answer = await self._gateway.find(requested, "batch")
        if not any(its for _, its in answer.found):
            return _nothing(answer.missing)
        headers = headers_of(answer.missing, answer.total)
        return Response(results.encode_json(answer.found), 200, headers, "application/json; charset=utf-8")

    async def providers(self, _: Request) -> Response:
        """Never 404: the list exists even if it is empty; 504 if no indexer answered."""
        answer = await self._gateway.providers()
        if not answer.found and len(answer.missing) == len(self._gateway.plain):
            return _nothing(answer.missing)
        # The cache returns the same list object until it expires, so identity is enough to reuse the encoded list.
        if self._encoded_list is None or self._encoded_list[0] is not answer.found:
            # In a thread: there may be thousands, and finds must not wait.
            body = await asyncio.to_thread(providers_json.encode_providers, answer.found)
            self._encoded_list = answer.found, body
        body = self._encoded_list[1]
        return Response(body, 200, {**headers_of(answer.missing), **NO_CACHE}, "application/json")

    async def provider(self, request: Request) -> Response:
        answer = await self._gateway.provider(peer_in(request))
        if answer.found is None:
            return _nothing(answer.missing, "provider not found")
        body = providers_json.encode_provider(answer.found)
        return Response(body, 200, {**headers_of(answer.missing), **NO_CACHE}, "application/json")

    async def metadata(self, request: Request) -> Response:
        key = from_base58(request.path_params["key"])
        if len(key) != METADATA_KEY_BYTES:
            raise Invalid(f"invalid key: {len(key)} bytes; metadata keys are SHA-256 hashes of value keys (32 bytes)")
        answer = await self._gateway.metadata(key)
        if not answer.found:
            return _nothing(answer.missing)
        document = {"EncryptedMetadata": b64encode(answer.found).decode()}
        return json_response(document, headers=headers_of(answer.missing))

    async def provide(self, _: Request) -> Response:
        return PlainTextResponse("provider records are not accepted; publish an advertisement and announce it\n", 501)

    async def routing(self, request: Request) -> Response:
        filters = routing.Filters.parse(_once(request, "filter-addrs"), _once(request, "filter-protocols"))
        form = form_of(_accept(request))
        requested = multihash_of_cid(request.path_params["cid"])
        if form is ResponseFormat.LINES:
            return _RoutedLines(self._gateway, requested, filters)
        answer = await self._gateway.find((requested,), "routing")
        found = answer.found[0][1]
        if not found and answer.missing:
            return _nothing(answer.missing)
        records = zip(routing.records(found, filters), range(routing.RECORDS_JSON_MAX), strict=False)
        headers = headers_of(answer.missing, answer.total, is_found=bool(found))
        body = routing.encode_records(record for record, _ in records)
        return Response(body, 200 if found else 404, headers, ResponseFormat.JSON.value)

    async def routing_encrypted(self, request: Request) -> Response:
        form = form_of(_accept(request))
        requested = second_hash(multihash_of_cid(request.path_params["cid"]))
        answer: MergedAnswer[list[bytes]] = await self._gateway.find_encrypted(requested, "routing")
        if not answer.found:
            return _nothing(answer.missing)
        headers = headers_of(answer.missing, answer.total)
        if form is ResponseFormat.LINES:
            lines = b"".join([results.encode_encrypted_line(key) for key in answer.found])
            return Response(lines, 200, headers, ResponseFormat.LINES.value)
        return Response(
            results.encode_encrypted_json([(requested, answer.found)]), 200, headers, ResponseFormat.JSON.value
        )


class _RoutedLines(Response):
    """Delegated-routing records, one per line, as they arrive; each provider and metadata once."""

    def __init__(self, gateway: ContentGateway, requested: bytes, filters: routing.Filters) -> None:
        super().__init__()
        self._gateway = gateway
        self._multihash = requested
        self._filters = filters
        self._seen: set[tuple[str, bytes]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {**LINES, **_ROUTING}
        await send_stream(send, self._gateway, self._multihash, self._encode, headers, surface="routing", nothing=b"")

    def _encode(self, found: Sequence[ProviderResult]) -> bytes:
        fresh = [each for each in found if (each.provider.id, each.metadata) not in self._seen]
        self._seen.update((each.provider.id, each.metadata) for each in fresh)
        return b"".join([routing.encode_record(each) + b"\n" for each in routing.records(fresh, self._filters)])


class _ErrorResponse(Response):
    """An error with the same headers as on the fast path."""

    def __init__(self, error: ArgosyError) -> None:
        super().__init__()
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_error(send, self._error)


def _nothing(missing: Sequence[MissingBackend], text: str = NOTHING) -> Response:
    if missing:
        return _ErrorResponse(InconclusiveFind(missing))
    return PlainTextResponse(text, 404, headers_of((), is_found=False))


def _accept(request: Request) -> bytes:
    return ",".join(request.headers.getlist("accept")).encode("latin-1")


def _once(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise Invalid(f"duplicate parameter {name}; pass one comma-separated list")
    return values[0] if values else ""
