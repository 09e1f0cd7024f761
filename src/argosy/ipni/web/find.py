"""Routes of the find API, except those of `find_fast_path`."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute

from argosy.base.clock import Clock
from argosy.base.errors import Invalid, NotFound
from argosy.base.http import json_response, read_body
from argosy.base.metrics import Metrics
from argosy.ipni.formats import multihash
from argosy.ipni.formats.bases import base58, from_base58
from argosy.ipni.model import CONTEXT_BYTES_MAX, Provider, ProviderResult, StoreStats
from argosy.ipni.ports import FindApi
from argosy.ipni.web import page, providers_json, results, routing
from argosy.ipni.web.find_fast_path import (
    HIT_CACHE,
    MISS_CACHE,
    NOTHING,
    RESULTS_MAX,
    TRUNCATED_HEADER,
    FindFastPath,
    MeasuredFinds,
    pieces,
)
from argosy.ipni.web.http import EXCEPTION_HANDLERS, NO_CACHE, health, peer_in, route
from argosy.ipni.web.lookup_params import (
    NotAcceptable,
    ResponseFormat,
    form_of,
    multihash_of_cid,
    multihash_of_text,
    second_hash,
)

# A few milliseconds of lookups. In base64 they take about 50 KiB, so BATCH_BYTES_MAX leaves room for longer hashes.
BATCH_MULTIHASHES_MAX = 1000
BATCH_BYTES_MAX = 256 * 1024
PROVIDERS_PER_TURN = 50  # about a millisecond of encoding before other tasks run
SAMPLES_MAX = 10
BEACON_BYTES_MAX = 32
SHOWN_MAX = 100  # results on the page for people
# Statistics read properties of the engine and list a directory: too much for every call of a public page.
STATS_TTL_S = 60.0
ESTIMATE_BYTES_PER_ENTRY = 40  # as storetheindex computes the estimate

CORS = {"access-control-allow-origin": "*"}
# A browser sends a preflight request before a JSON body to another site.
_BATCH = {**CORS, "access-control-allow-methods": "POST, OPTIONS", "access-control-allow-headers": "content-type"}
_ROUTING = {
    **CORS,
    "access-control-allow-methods": "GET, OPTIONS",
    "x-content-type-options": "nosniff",
    "vary": "Accept",
}


def find_app(indexer: FindApi, *, clock: Clock, metrics: Metrics) -> FindFastPath:
    """The find API alone, for a port of its own."""
    finder = MeasuredFinds(indexer, clock=clock, metrics=metrics)
    rest = Starlette(routes=find_routes(indexer, finder, clock=clock), exception_handlers=EXCEPTION_HANDLERS)
    rest.router.redirect_slashes = False
    return FindFastPath(finder, rest)


def find_routes(indexer: FindApi, finder: MeasuredFinds, *, clock: Clock) -> list[BaseRoute]:
    find = _Find(indexer, finder, clock)
    return [
        route("/", headers=CORS, GET=find.page),
        route("/index.html", headers=CORS, GET=find.page),
        route("/health", headers=CORS, GET=health),
        route("/multihash", headers=_BATCH, POST=find.batch),
        route("/providers", headers=CORS, GET=find.providers),
        route("/providers/{peer}", headers=CORS, GET=find.provider),
        route("/stats", headers=CORS, GET=find.stats),
        route("/metadata/{key}", headers=CORS, GET=find.metadata),
        route("/ipni/v0/sample/{peer}/{context:path}", headers=CORS, GET=find.sample),
        route("/routing/v1/providers", headers=_ROUTING, PUT=find.provide),
        route("/routing/v1/providers/{cid}", headers=_ROUTING, GET=find.routing),
        route("/routing/v1/encrypted/providers/{cid}", headers=_ROUTING, GET=find.routing_encrypted),
    ]


class _Find:
    def __init__(self, indexer: FindApi, finder: MeasuredFinds, clock: Clock) -> None:
        self._indexer = indexer
        self._finder = finder
        self._clock = clock
        self._stats: tuple[float, StoreStats] | None = None

    async def page(self, request: Request) -> Response:
        """The page: what this node is, and a search form."""
        text = request.query_params.get("q", "").strip()
        form: page.FindForm | None = None
        status = 200
        if text:
            try:
                [found] = await self._finder.find([_content_named(text)], "page")
                form = page.FindForm(text, found[:SHOWN_MAX], len(found))
            except Invalid as why:
                form, status = page.FindForm(text, problem=str(why)), 400
        stats = await self._read_stats()
        html = page.render(self._indexer.status(), stats, len(self._indexer.providers()), form)
        return HTMLResponse(html, status, {**NO_CACHE, **page.SECURITY_HEADERS})

    async def batch(self, request: Request) -> Response:
        accept = _accept(request)
        if form_of(accept) is ResponseFormat.LINES and not any(
            kind in accept for kind in (b"application/json", b"*/*")
        ):
            raise NotAcceptable("lines do not name their multihash; accept application/json for a batch")
        hashes = results.decode_batch(await read_body(request, bytes_max=BATCH_BYTES_MAX))
        if len(hashes) > BATCH_MULTIHASHES_MAX:
            raise Invalid(
                f"a batch has up to {BATCH_MULTIHASHES_MAX} multihashes, not {len(hashes)}; send more batches"
            )
        hashes = list(dict.fromkeys(hashes))
        # All are checked before the first lookup: a batch with one invalid multihash is answered with 400.
        for each in hashes:
            multihash.split(each)
        found = await self._finder.find(hashes, "batch")
        if not any(found):
            return _nothing()
        return _batch_answer(hashes, found)

    async def providers(self, _: Request) -> Response:
        return StreamingResponse(_stream_providers(self._indexer.providers()), 200, NO_CACHE, "application/json")

    async def provider(self, request: Request) -> Response:
        provider_json = providers_json.encode_provider(self._indexer.provider(peer_in(request)))
        return Response(provider_json, headers=NO_CACHE, media_type="application/json")

    async def stats(self, _: Request) -> Response:
        stats = await self._read_stats()
        if not stats.entries and not stats.disk_bytes:
            # As storetheindex answers while it has no statistics yet.
            return PlainTextResponse("processing", 418, NO_CACHE)
        estimate = stats.disk_bytes // ESTIMATE_BYTES_PER_ENTRY
        return json_response({"EntriesEstimate": estimate, "EntriesCount": stats.entries}, headers=NO_CACHE)

    async def metadata(self, request: Request) -> Response:
        key = from_base58(request.path_params["key"])
        if len(key) != 32:
            raise Invalid(f"metadata is looked up by the sha2-256 of a value key, of 32 bytes, not {len(key)}")
        found = await self._indexer.encrypted_metadata(key)
        if found is None:
            return _nothing()
        return json_response({"EncryptedMetadata": found}, headers={"cache-control": HIT_CACHE})

    async def sample(self, request: Request) -> Response:
        """Some multihashes of a context, the same for the same beacon, with which others check availability."""
        if request.query_params.get("federation_epoch", "0") != "0":
            raise Invalid("the only federation epoch is 0")
        context = _context(request.path_params["context"])
        beacon = _beacon(request.query_params.get("beacon", ""))
        count = request.query_params.get("max", "1")
        if not count.isascii() or not count.isdecimal() or len(count) > 2 or not 1 <= int(count) <= SAMPLES_MAX:
            raise Invalid(f"max is 1 to {SAMPLES_MAX}, not {count[:80]!r}")
        peer = peer_in(request)
        found = await self._indexer.sample(peer, context, beacon=beacon, multihashes_max=int(count))
        if not found:
            raise NotFound(f"context of {peer} not found")
        return json_response([base58(each) for each in found])

    async def provide(self, _: Request) -> Response:
        return PlainTextResponse("records are not accepted; publish an advertisement and announce it\n", 501)

    async def routing(self, request: Request) -> Response:
        filters = routing.Filters.parse(_once(request, "filter-addrs"), _once(request, "filter-protocols"))
        form = form_of(_accept(request))
        [found] = await self._finder.find([multihash_of_cid(request.path_params["cid"])], "routing")
        headers = {"cache-control": HIT_CACHE if found else MISS_CACHE, **_cut(found)}
        records = routing.records(found[:RESULTS_MAX], filters)
        if form is ResponseFormat.LINES:
            lines = (routing.encode_record(record) + b"\n" for record in records)
            return StreamingResponse(
                _as_async(pieces(lines)), 200 if found else 404, headers, ResponseFormat.LINES.value
            )
        first = [record for record, _ in zip(records, range(routing.RECORDS_JSON_MAX), strict=False)]
        return Response(routing.encode_records(first), 200 if found else 404, headers, ResponseFormat.JSON.value)

    async def routing_encrypted(self, request: Request) -> Response:
        form = form_of(_accept(request))
        requested = second_hash(multihash_of_cid(request.path_params["cid"]))
        keys = (await self._finder.find_encrypted(requested))[:RESULTS_MAX]
        if not keys:
            return _nothing()
        headers = {"cache-control": HIT_CACHE}
        if form is ResponseFormat.LINES:
            lines = (results.encode_encrypted_line(key) for key in keys)
            return StreamingResponse(_as_async(pieces(lines)), 200, headers, ResponseFormat.LINES.value)
        return Response(results.encode_encrypted_json([(requested, keys)]), 200, headers, ResponseFormat.JSON.value)

    async def _read_stats(self) -> StoreStats:
        now = self._clock.now()
        if self._stats is None or now - self._stats[0] > STATS_TTL_S:
            self._stats = (now, await self._indexer.stats())
        return self._stats[1]


def _batch_answer(hashes: Sequence[bytes], found: Sequence[Sequence[ProviderResult]]) -> Response:
    """At most RESULTS_MAX results over all multihashes, the first ones first."""
    left = RESULTS_MAX
    document: list[results.Found] = []
    for each, its in zip(hashes, found, strict=True):
        document.append((each, its[:left]))
        left -= len(document[-1][1])
    headers = _cut([result for its in found for result in its])
    return Response(results.encode_json(document), headers=headers, media_type="application/json; charset=utf-8")


async def _stream_providers(providers: Sequence[Provider]) -> AsyncIterator[bytes]:
    """A JSON list encoded piece by piece, so that finds run in between."""
    yield b"["
    for at in range(0, len(providers), PROVIDERS_PER_TURN):
        piece = [providers_json.encode_provider(provider) for provider in providers[at : at + PROVIDERS_PER_TURN]]
        yield (b"," if at else b"") + b",".join(piece)
        await asyncio.sleep(0)
    yield b"]"


async def _as_async(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """No part is encoded before the previous one was sent."""
    for part in parts:
        yield part


def _content_named(text: str) -> bytes:
    """Accepts a CID or a multihash."""
    with suppress(Invalid):
        return multihash_of_cid(text)
    return multihash_of_text(text)


def _nothing() -> Response:
    return PlainTextResponse(NOTHING, 404, {"cache-control": MISS_CACHE})


def _cut(found: Sequence[object]) -> dict[str, str]:
    """Adds the truncation header to an incomplete answer (GW-1)."""
    return {TRUNCATED_HEADER: str(len(found))} if len(found) > RESULTS_MAX else {}


def _accept(request: Request) -> bytes:
    return ",".join(request.headers.getlist("accept")).encode("latin-1")


def _once(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise Invalid(f"{name} is given {len(values)} times; give it once, with names separated by commas")
    return values[0] if values else ""


def _context(text: str) -> bytes:
    """Decodes base64 in either alphabet, with or without padding."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        context = b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not a context in base64") from None
    if len(context) > CONTEXT_BYTES_MAX:
        raise Invalid(f"a context has at most {CONTEXT_BYTES_MAX} bytes, not {len(context)}")
    return context


def _beacon(text: str) -> bytes:
    try:
        beacon = bytes.fromhex(text)
    except ValueError:
        raise Invalid(f"the beacon {text[:80]!r} is not hexadecimal text") from None
    if len(beacon) > BEACON_BYTES_MAX:
        raise Invalid(f"a beacon has at most {BEACON_BYTES_MAX} bytes, not {len(beacon)}")
    return beacon
