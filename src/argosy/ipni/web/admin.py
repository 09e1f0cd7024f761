"""Routes of the admin API, for operators and the assigner.

Requests carry the admin token. In a private network `is_private_network` admits storetheindex's clients, which send
none.
"""

import logging
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec
import re2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from argosy.base.errors import ArgosyError, Invalid, NotFound
from argosy.base.http import check_admin, json_response, read_body
from argosy.base.metrics import CONTENT_TYPE, Metrics
from argosy.base.redact import redact
from argosy.ipni.formats import cid
from argosy.ipni.formats.peer import parse_peer
from argosy.ipni.ports import AdminApi
from argosy.ipni.web.http import Handler, Verbs, flag_in, peer_in


def _parse_address(body: bytes) -> str | None:
    """The body of a sync: a multiaddr as a JSON text, or empty."""
    if not body.strip():
        return None
    value = _decode_json(body)
    if not isinstance(value, str):
        raise Invalid("the body of a sync is a multiaddr as a JSON text, or empty")
    return value or None


def _parse_handoff(body: bytes) -> tuple[str, str]:
    """The id and the find URL of the indexer that froze."""
    values = _object(body)
    return _text(values, "FrozenID"), _url(_text(values, "FrozenURL"))


def _parse_import_url(body: bytes) -> str:
    """The URL of the indexer to import providers from, in base64: a []byte of the original."""
    text = _text(_object(body), "indexer")
    try:
        return _url(b64decode(text, validate=True).decode())
    except ValueError:
        raise Invalid(f"the field indexer is a URL in base64, not {text[:80]!r}") from None


def _object(body: bytes) -> dict[str, Any]:
    value = _decode_json(body)
    if not isinstance(value, dict):
        raise Invalid("the body is a JSON object")
    return {str(key).lower(): each for key, each in value.items()}


def _decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise Invalid(f"the body is not JSON: {why}") from None


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name.lower())
    if not isinstance(value, str) or not value:
        raise Invalid(f"the body has no text field {name}")
    return value


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise Invalid(f"{text[:80]!r} is not a URL: it begins with http:// or https://")
    return text


Counts = tuple[int, float, int]  # multihashes, seconds, samples


class TelemetryBuffer:
    """Buffer of ingest rates: reading one provider's rates leaves the others' unread."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}

    def add(self, counted: Mapping[str, Counts]) -> None:
        for provider, (multihashes, seconds, samples) in counted.items():
            before = self._counts.get(provider, (0, 0.0, 0))
            self._counts[provider] = (before[0] + multihashes, before[1] + seconds, before[2] + samples)

    def drain(self) -> dict[str, Counts]:
        taken, self._counts = self._counts, {}
        return taken

    def pop(self, provider: str) -> Counts | None:
        return self._counts.pop(provider, None)


BODY_BYTES_MAX = 64 * 1024
# More advertisements than any chain has.
DEPTH_MAX = 2**31
LOGGERS = "argosy"
# With the names of Go's logging library, which storetheindex's clients send.
_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING,
    "error": logging.ERROR, "dpanic": logging.CRITICAL, "panic": logging.CRITICAL, "fatal": logging.CRITICAL,
}  # fmt: skip


def admin_app(
    indexer: AdminApi, *, metrics: Metrics, admin_token: str | None = None, is_private_network: bool = False
) -> ASGIApp:
    """The admin API alone, for a port of its own."""
    routes = admin_routes(indexer, metrics=metrics, admin_token=admin_token, is_private_network=is_private_network)
    app = Starlette(routes=routes)
    # Off: paths with and without a slash at the end are routes of their own.
    app.router.redirect_slashes = False
    return app


def admin_routes(
    indexer: AdminApi, *, metrics: Metrics, admin_token: str | None = None, is_private_network: bool = False
) -> list[BaseRoute]:
    def guard(request: Request) -> None:
        if not is_private_network:
            check_admin(request, admin_token)

    def guarded_route(path: str, **handlers: Handler) -> BaseRoute:
        return Route(path, Verbs(handlers, guard=guard))

    admin = _Admin(indexer, metrics)
    return [
        guarded_route("/freeze", PUT=admin.freeze),
        guarded_route("/status", GET=admin.status),
        guarded_route("/healthcheck", GET=admin.check_health),
        guarded_route("/removeprovider/{peer}", DELETE=admin.remove_provider),
        guarded_route("/importproviders", POST=admin.import_providers),
        guarded_route("/reloadconfig", POST=admin.reload),
        guarded_route("/markadprocessed/{peer}", PUT=admin.mark_processed),
        guarded_route("/ingest/allow/{peer}", PUT=admin.allow),
        guarded_route("/ingest/block/{peer}", PUT=admin.block),
        # Both forms, because redirects are off.
        guarded_route("/ingest/sync", GET=admin.syncs),
        guarded_route("/ingest/sync/", GET=admin.syncs),
        guarded_route("/ingest/sync/{peer}", POST=admin.sync),
        guarded_route("/ingest/assigned", GET=admin.assignments),
        guarded_route("/ingest/preferred", GET=admin.preferred_publishers),
        guarded_route("/ingest/assign/{peer}", POST=admin.assign),
        guarded_route("/ingest/unassign/{peer}", PUT=admin.unassign),
        guarded_route("/ingest/handoff/{peer}", POST=admin.handoff),
        guarded_route("/telemetry/providers", GET=admin.telemetry),
        guarded_route("/telemetry/providers/{peer}", GET=admin.telemetry_of),
        guarded_route("/config/log/level", POST=admin.log_level),
        guarded_route("/config/log/subsystems", GET=admin.log_subsystems),
        guarded_route("/metrics/", GET=admin.exposition),
    ]


class _Admin:
    def __init__(self, indexer: AdminApi, metrics: Metrics) -> None:
        self._indexer = indexer
        self._metrics = metrics
        self._unread = TelemetryBuffer()

    async def freeze(self, _: Request) -> Response:
        await self._indexer.freeze()
        return Response()

    async def status(self, _: Request) -> Response:
        status = self._indexer.status()
        return json_response({"Frozen": status.is_frozen, "ID": status.id, "Usage": status.usage_percent})

    async def check_health(self, _: Request) -> Response:
        await self._indexer.check_health()
        return json_response("OK")

    async def remove_provider(self, request: Request) -> Response:
        await self._indexer.remove_provider(peer_in(request), is_blocked=flag_in(request, "block"))
        return Response()

    async def import_providers(self, request: Request) -> Response:
        url = _parse_import_url(await _body(request))
        try:
            await self._indexer.import_providers(url)
        except ArgosyError as why:
            # 502 and this text are storetheindex's, whatever the reason: its clients show the text.
            return PlainTextResponse(f"Cannot get providers from other indexer: {redact(str(why))}\n", 502)
        return Response()

    async def reload(self, _: Request) -> Response:
        await self._indexer.reload()
        return Response()

    async def mark_processed(self, request: Request) -> Response:
        ad = cid.parse(request.query_params.get("cid", ""))
        await self._indexer.mark_processed(peer_in(request), ad)
        return Response()

    async def allow(self, request: Request) -> Response:
        self._indexer.allow(peer_in(request))
        return Response()

    async def block(self, request: Request) -> Response:
        self._indexer.block(peer_in(request))
        return Response()

    async def sync(self, request: Request) -> Response:
        address = _parse_address(await _body(request))
        await self._indexer.sync(peer_in(request), address, depth=_depth(request), is_resync=flag_in(request, "resync"))
        return Response(status_code=202)

    async def syncs(self, _: Request) -> Response:
        return json_response(list(self._indexer.syncs()))

    async def assignments(self, _: Request) -> Response:
        rows = [
            {"Publisher": each.publisher, **({"Continued": each.continued} if each.continued else {})}
            for each in self._indexer.assignments()
        ]
        return _json_or_no_content(rows)

    async def preferred_publishers(self, _: Request) -> Response:
        return _json_or_no_content(list(self._indexer.preferred_publishers()))

    async def assign(self, request: Request) -> Response:
        await self._indexer.assign(peer_in(request))
        return Response()

    async def unassign(self, request: Request) -> Response:
        await self._indexer.unassign(peer_in(request))
        return Response()

    async def handoff(self, request: Request) -> Response:
        publisher = peer_in(request)
        frozen_id, frozen_url = _parse_handoff(await _body(request))
        await self._indexer.handoff(publisher, frozen_id=parse_peer(frozen_id), frozen_url=frozen_url)
        return Response()

    async def telemetry(self, _: Request) -> Response:
        self._unread.add(self._indexer.telemetry())
        return _json_or_no_content(
            {provider: _counts_json(counts) for provider, counts in self._unread.drain().items()}
        )

    async def telemetry_of(self, request: Request) -> Response:
        self._unread.add(self._indexer.telemetry())
        counts = self._unread.pop(peer_in(request))
        return _json_or_no_content(counts and _counts_json(counts))

    async def log_level(self, request: Request) -> Response:
        """Handles `?<pattern>=<level>`, repeatable; nothing changes if one of them is invalid."""
        # All are parsed before one is applied.
        changes = [(_pattern(pattern), _level(level)) for pattern, level in request.query_params.multi_items()]
        if not changes:
            raise Invalid("name logs and a level, as in ?ipni.*=debug")
        for pattern, level in changes:
            named = [name for name in _subsystems() if pattern.search(name)]
            if not named:
                raise NotFound(f"no log matches {pattern.pattern!r}")
            for name in named:
                logging.getLogger(f"{LOGGERS}.{name}").setLevel(level)
        return Response()

    async def log_subsystems(self, _: Request) -> Response:
        return PlainTextResponse("".join(f"{name}\n" for name in _subsystems()))

    async def exposition(self, _: Request) -> Response:
        return Response(self._metrics.exposition(), media_type=CONTENT_TYPE)


async def _body(request: Request) -> bytes:
    return await read_body(request, bytes_max=BODY_BYTES_MAX)


def _json_or_no_content(value: object) -> Response:
    return json_response(value) if value else Response(status_code=204)


def _counts_json(counts: Counts) -> dict[str, int]:
    multihashes, seconds, samples = counts
    # Nanoseconds, as Go encodes a duration.
    return {"Count": multihashes, "Elapsed": round(seconds * 1e9), "Samples": samples}


def _depth(request: Request) -> int:
    """The depth of a sync: 0 as configured, -1 unlimited."""
    text = request.query_params.get("depth") or "0"
    try:
        depth = int(text)
    except ValueError:
        depth = -2
    if not -1 <= depth <= DEPTH_MAX:
        raise Invalid(f"depth is a number of advertisements, 0 or -1, not {text[:80]!r}")
    return depth


def _pattern(text: str) -> Any:
    try:
        # RE2, because the pattern comes from the network: its running time is linear.
        return re2.compile(text)
    except re2.error:
        raise Invalid(f"{text[:80]!r} is not a regular expression") from None


def _level(text: str) -> int:
    level = _LEVELS.get(text.lower())
    if level is None:
        raise Invalid(f"a log level is one of {', '.join(_LEVELS)}, not {text[:80]!r}")
    return level


def _subsystems() -> list[str]:
    start = f"{LOGGERS}."
    return sorted(name.removeprefix(start) for name in list(logging.root.manager.loggerDict) if name.startswith(start))
