"""Serves `GET /multihash/…` and `GET /cid/…` directly on ASGI, without the CPU cost of routing and middleware.

404 means that every indexer responded and none has it. If some could not be queried and the others have nothing, the
result is unknown and the status is 504, in either format (decision 0028).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.redact import redact
from argosy.gateway.content.backend_protocol import INCOMPLETE_HEADER
from argosy.gateway.content.model import InconclusiveFind, MergedAnswer, MissingBackend, format_missing
from argosy.ipni.model import ProviderResult
from argosy.ipni.web import results
from argosy.ipni.web.find_fast_path import HIT_CACHE, MISS_CACHE, NOTHING, TRUNCATED_HEADER, pieces
from argosy.ipni.web.lookup_params import (
    ResponseFormat,
    form_of,
    is_second_hash,
    multihash_of_cid,
    multihash_of_text,
    second_hash,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from argosy.gateway.content.service import ContentGateway

MISSING_HEADER = "x-argosy-missing"
EXPOSED = f"{INCOMPLETE_HEADER}, {MISSING_HEADER}, {TRUNCATED_HEADER}"


def headers_of(missing: Sequence[MissingBackend], total: int | None = None, *, is_found: bool = True) -> dict[str, str]:
    """Headers of an answer: what is missing from it (GW-1), and how long it may be cached."""
    headers: dict[str, str] = {}
    if missing:
        headers |= {INCOMPLETE_HEADER: str(len(missing)), MISSING_HEADER: format_missing(missing)}
    if total is not None:
        headers[TRUNCATED_HEADER] = str(total)
    if headers:
        # Without this header browsers hide the others from scripts of other origins.
        headers["access-control-expose-headers"] = EXPOSED
    # Caches in front of the gateway must not keep an incomplete answer: the next one may be complete.
    headers["cache-control"] = "no-store" if missing else (HIT_CACHE if is_found else MISS_CACHE)
    return headers


Headers = Mapping[str, str]
Encode = Callable[[Sequence[ProviderResult]], bytes]  # encodes results as lines

RETRY_AFTER_S = 2.0  # default of an Unavailable without an estimate

_ALLOWED = "GET, OPTIONS"
_CORS = {"access-control-allow-origin": "*", "access-control-allow-methods": _ALLOWED}
_TEXT = {**_CORS, "vary": "accept", "content-type": "text/plain; charset=utf-8"}
_JSON = {**_CORS, "vary": "accept", "content-type": "application/json; charset=utf-8"}
LINES = {
    **_CORS,
    "vary": "accept",
    "content-type": ResponseFormat.LINES.value,
    "connection": "Keep-Alive",
    "x-content-type-options": "nosniff",
}

# By path prefix: how to parse the rest, and whether only second hashes are looked up.
_NAMES: tuple[tuple[str, Callable[[str], bytes], bool], ...] = (
    ("/multihash/", multihash_of_text, False),
    ("/cid/", multihash_of_cid, False),
    ("/encrypted/multihash/", multihash_of_text, True),
    ("/encrypted/cid/", multihash_of_cid, True),
)
PATHS = tuple(start for start, _, _ in _NAMES)


class RoutedFindFastPath:
    """Serves finds and passes other requests to `rest`."""

    def __init__(self, gateway: "ContentGateway", rest: "ASGIApp") -> None:
        self._gateway = gateway
        self._rest = rest

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            for start, parse, is_encrypted in _NAMES:
                if path.startswith(start):
                    await self._respond(scope, send, path[len(start) :], parse, is_encrypted)
                    return
        await self._rest(scope, receive, send)

    async def _respond(
        self, scope: "Scope", send: "Send", name: str, parse: Callable[[str], bytes], is_encrypted: bool
    ) -> None:
        method = scope["method"]
        if method != "GET":
            status, body = (204, b"") if method == "OPTIONS" else (405, b"method not allowed\n")
            await reply(send, status, {**_TEXT, "allow": _ALLOWED}, body)
            return
        try:
            # Several accept headers mean the same as one list (RFC 9110).
            accepted = [value for header, value in scope["headers"] if header == b"accept"]
            form = form_of(accepted[0] if len(accepted) == 1 else b",".join(accepted))
            multihash = parse(name)
            if is_encrypted:
                multihash = second_hash(multihash)
            if is_second_hash(multihash):
                # Like dhstore, which tries encrypted results first on its plain paths if the multihash is a second hash
                # (dbl-sha2-256). Without any, it may still be an ordinary multihash of some publisher.
                keys = await self._gateway.find_encrypted(multihash)
                if keys.found or is_encrypted:
                    await _send_encrypted(send, form, multihash, keys)
                    return
            if form is ResponseFormat.LINES:
                await send_stream(send, self._gateway, multihash, _encode_lines, LINES, surface="find")
                return
            answer = await self._gateway.find((multihash,))
            if answer.found[0][1]:
                headers = {**_JSON, **headers_of(answer.missing, answer.total)}
                await reply(send, 200, headers, results.encode_json(answer.found))
            else:
                await _send_nothing(send, answer.missing)
        except ArgosyError as error:
            await send_error(send, error)


async def send_stream(
    send: "Send",
    gateway: "ContentGateway",
    multihash: bytes,
    encode: Encode,
    headers: Headers,
    *,
    surface: str,
    nothing: bytes = NOTHING.encode(),
) -> None:
    """Stream results as lines. A stream that cannot be completed is cut off, so that the client sees the error."""
    is_started = False
    try:
        async with gateway.stream(multihash, surface) as stream:
            if not await stream.begin():
                await _send_nothing(send, stream.missing, {**_TEXT, **headers}, nothing)
                return
            head = {**headers, **headers_of(stream.missing, stream.total)}
            await send({"type": "http.response.start", "status": 200, "headers": _raw(head)})
            is_started = True
            async for part in stream.parts():
                if body := encode(part):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
    except ArgosyError as error:
        if not is_started:
            await send_error(send, error)
        # The status has been sent, so only the missing terminator can show that the answer is not whole.
        else:
            gateway.telemetry.record_cut_off(error)
        return
    await send({"type": "http.response.body", "body": b""})


async def _send_encrypted(
    send: "Send", form: ResponseFormat, multihash: bytes, keys: MergedAnswer[list[bytes]]
) -> None:
    if not keys.found:
        await _send_nothing(send, keys.missing)
        return
    head = headers_of(keys.missing, keys.total)
    if form is ResponseFormat.JSON:
        await reply(send, 200, {**_JSON, **head}, results.encode_encrypted_json([(multihash, keys.found)]))
    else:
        lines = b"".join(pieces(results.encode_encrypted_line(key) for key in keys.found))
        await reply(send, 200, {**LINES, **head}, lines)


async def _send_nothing(
    send: "Send", missing: Sequence[MissingBackend], headers: Headers = _TEXT, body: bytes = NOTHING.encode()
) -> None:
    if missing:
        await send_error(send, InconclusiveFind(missing))
    else:
        await reply(send, 404, {**headers, **headers_of((), is_found=False)}, body)


async def send_error(send: "Send", error: ArgosyError) -> None:
    headers = {**_TEXT, "cache-control": "no-store"}
    if isinstance(error, InconclusiveFind):
        headers |= headers_of(error.missing)
    if isinstance(error, Unavailable):
        # The header has whole seconds, and 0 would invite an immediate retry.
        headers["retry-after"] = f"{max(1.0, getattr(error, 'retry_after_s', RETRY_AFTER_S)):.0f}"
    await reply(send, error.status, headers, redact(str(error)).encode() + b"\n")


async def reply(send: "Send", status: int, headers: Headers, body: bytes) -> None:
    # A 204 must not have a content-length (RFC 9110).
    head = dict(headers) if status == 204 else {**headers, "content-length": str(len(body))}
    await send({"type": "http.response.start", "status": status, "headers": _raw(head)})
    await send({"type": "http.response.body", "body": body})


def _encode_lines(found: Sequence[ProviderResult]) -> bytes:
    return b"".join([results.encode_line(result) for result in found])


def _raw(headers: Headers) -> list[tuple[bytes, bytes]]:
    # Names of indexers come from configured URLs and may contain characters that no header can carry.
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
