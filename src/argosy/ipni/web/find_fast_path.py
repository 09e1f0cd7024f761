"""The fast path of `GET /multihash/…` and `GET /cid/…`, implemented directly on ASGI, and the metrics of finds.

There is no request object and no routing between server and store, and the response is joined from pre-encoded bytes,
because an indexer answers finds on one core (decision 32). All other paths go to the application behind it.
`find_connection` skips even ASGI and calls `reply` itself, so both give the same bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError
from argosy.base.metrics import Metrics, histogram
from argosy.base.redact import redact
from argosy.ipni.model import ProviderResult
from argosy.ipni.ports import FindApi
from argosy.ipni.web import results
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


# Some content is everywhere: 14,000 records for one CID, 4 MiB of JSON, have been seen in the public network.
RESULTS_MAX = 20_000
TRUNCATED_HEADER = "x-argosy-truncated"  # number of results, when some are omitted

FIND_SECONDS = histogram(
    "argosy_ipni_find_seconds",
    "Duration of finds inside the indexer by surface and by whether anything was found",
    labels=("surface", "found"),
)


class MeasuredFinds:
    """The finds of an indexer, measured."""

    def __init__(self, indexer: FindApi, *, clock: Clock, metrics: Metrics) -> None:
        self._indexer = indexer
        self._clock = clock
        self._metrics = metrics

    async def find(self, multihashes: Sequence[bytes], surface: str) -> list[tuple[ProviderResult, ...]]:
        started = self._clock.now()
        found = await self._indexer.find(multihashes)
        self._measure(started, surface, any(found))
        return found

    async def find_encrypted(self, second_hash: bytes) -> tuple[bytes, ...]:
        started = self._clock.now()
        [keys] = await self._indexer.find_encrypted([second_hash])
        self._measure(started, "encrypted", bool(keys))
        return keys

    def _measure(self, started: float, surface: str, is_found: bool) -> None:
        took_s = self._clock.now() - started
        self._metrics.observe(FIND_SECONDS, took_s, surface=surface, found="yes" if is_found else "no")


# A hit changes rarely. A miss must not outlive the publication of the content by much: the public network's cache keeps
# misses for twenty minutes, so content stays unfindable although it is indexed.
HIT_CACHE = "public, max-age=60, stale-while-revalidate=60, stale-if-error=120"
MISS_CACHE = "public, max-age=15"
PIECE_BYTES = 64 * 1024  # lines of a stream are sent together up to about this

NOTHING = "no results for query"

Headers = tuple[tuple[bytes, bytes], ...]

_CORS = (b"access-control-allow-origin", b"*")
_VARY = (b"vary", b"accept")
_HIT = (b"cache-control", HIT_CACHE.encode())
_JSON: Headers = (_CORS, _VARY, _HIT, (b"content-type", b"application/json; charset=utf-8"))
_LINES: Headers = (
    _CORS,
    _VARY,
    _HIT,
    (b"content-type", b"application/x-ndjson"),
    (b"connection", b"Keep-Alive"),
    (b"x-content-type-options", b"nosniff"),
)
_TEXT: Headers = (_CORS, _VARY, (b"content-type", b"text/plain; charset=utf-8"))
_MISS: Headers = (*_TEXT, (b"cache-control", MISS_CACHE.encode()))
_REFUSED: Headers = (*_TEXT, (b"cache-control", b"no-store"))
_ALLOW = (b"allow", b"GET, OPTIONS")

# By path prefix: how the rest names the content, and whether only second hashes are accepted.
_NAMES: tuple[tuple[str, Callable[[str], bytes], bool], ...] = (
    ("/multihash/", multihash_of_text, False),
    ("/cid/", multihash_of_cid, False),
    ("/encrypted/multihash/", multihash_of_text, True),
    ("/encrypted/cid/", multihash_of_cid, True),
)
PATHS = tuple(start for start, _, _ in _NAMES)


class FindReply(NamedTuple):
    """A response to a find; a streamed one has lines instead of a body."""

    status: int
    headers: Headers
    body: bytes
    lines: Iterable[bytes] | None = None


class FindFastPath:
    """Answers finds itself and passes everything else to `rest`."""

    def __init__(self, finder: MeasuredFinds, rest: "ASGIApp") -> None:
        self._finder = finder
        self._rest = rest

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path.startswith(PATHS):
                if (method := scope["method"]) == "GET":
                    reply = await self.reply(path, _accept(scope["headers"]))
                else:
                    status, body = (200, b"") if method == "OPTIONS" else (405, b"method not allowed\n")
                    reply = FindReply(status, (*_TEXT, _ALLOW), body)
                await _send(send, reply)
                return
        await self._rest(scope, receive, send)

    async def reply(self, path: str, accept: bytes) -> FindReply:
        """The response to GET of one of `PATHS` followed by a name."""
        start, parse, is_encrypted = next(each for each in _NAMES if path.startswith(each[0]))
        try:
            form = form_of(accept)
            multihash = parse(path[len(start) :])
            if is_encrypted:
                multihash = second_hash(multihash)
            if is_second_hash(multihash):
                keys = await self._finder.find_encrypted(multihash)
                # On the plain paths a second hash may also be an ordinary multihash that a publisher advertised.
                if keys or is_encrypted:
                    return _encrypted_reply(form, multihash, keys)
            [found] = await self._finder.find((multihash,), "find")
        except ArgosyError as error:
            return FindReply(error.status, _REFUSED, redact(str(error)).encode() + b"\n")
        return _find_reply(form, multihash, found)


def _find_reply(form: ResponseFormat, multihash: bytes, found: Sequence[ProviderResult]) -> FindReply:
    if not found:
        return _NOTHING
    shown = found[:RESULTS_MAX]
    if form is ResponseFormat.JSON:
        return FindReply(200, _cut(_JSON, found), results.encode_json([(multihash, shown)]))
    return FindReply(200, _cut(_LINES, found), b"", (results.encode_line(result) for result in shown))


def _encrypted_reply(form: ResponseFormat, multihash: bytes, keys: Sequence[bytes]) -> FindReply:
    if not keys:
        return _NOTHING
    shown = keys[:RESULTS_MAX]
    if form is ResponseFormat.JSON:
        return FindReply(200, _cut(_JSON, keys), results.encode_encrypted_json([(multihash, shown)]))
    return FindReply(200, _cut(_LINES, keys), b"", (results.encode_encrypted_line(key) for key in shown))


def _cut(headers: Headers, found: Sequence[object]) -> Headers:
    """Adds the truncation header to an incomplete answer (GW-1)."""
    if len(found) <= RESULTS_MAX:
        return headers
    return (*headers, (TRUNCATED_HEADER.encode(), b"%d" % len(found)))


async def _stream(send: "Send", headers: Headers, lines: Iterable[bytes]) -> None:
    """Streams at the client's pace: no piece is encoded before the previous one was sent."""
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
    for piece in pieces(lines):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Joins lines to pieces of about `PIECE_BYTES`."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


async def _send(send: "Send", reply: FindReply) -> None:
    if reply.lines is not None:
        await _stream(send, reply.headers, reply.lines)
        return
    length = (b"content-length", b"%d" % len(reply.body))
    await send({"type": "http.response.start", "status": reply.status, "headers": [*reply.headers, length]})
    await send({"type": "http.response.body", "body": reply.body})


_NOTHING = FindReply(404, _MISS, NOTHING.encode())


def _accept(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    accepted = [value for name, value in headers if name == b"accept"]
    return accepted[0] if len(accepted) == 1 else b",".join(accepted)
