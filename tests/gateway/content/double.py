"""A test indexer with configurable faults, and a content gateway over several of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from starlette.types import Receive, Scope, Send

from argosy.base.clock import Clock, SystemClock, seeded_random
from argosy.base.metrics import Metrics
from argosy.gateway.content.http import content_app
from argosy.gateway.content.model import Backend
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings
from argosy.ipni.formats.bases import base58
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json, results
from tests.ipni.publish.serving import serving

JSON = "application/json; charset=utf-8"
LINES = "application/x-ndjson"
WITHIN_S = 30
# A busy machine must not decide a test: no indexer is late and nothing times out by default.
LONG_TIMEOUTS = {"cache_entries": 0, "find_s": 60.0, "stream_s": 60.0, "patience_min_s": 60.0, "patience_max_s": 60.0}


@dataclass
class IndexerDouble:
    """Tests set and read the public fields."""

    found: dict[bytes, list[ProviderResult]] = field(default_factory=dict)
    keys: dict[bytes, list[bytes]] = field(default_factory=dict)
    metadata: dict[str, bytes] = field(default_factory=dict)
    known: list[Provider] = field(default_factory=list)
    status: int = 200  # any other is all it answers
    kind: str | None = None  # the content type it answers finds in, whatever was requests for
    raw: bytes | None = None  # instead of an answer
    headers: dict[str, str] = field(default_factory=dict)
    hold: asyncio.Event | None = None  # waits for it before it answers
    hold_lines: asyncio.Event | None = None  # waits for it after the first line
    hold_end: asyncio.Event | None = None  # waits for it after the last line
    breaks_off: bool = False  # after the first line
    requests: list[str] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests.append(scope["path"])
        self.was_asked.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.status != 200:
            await _reply(send, self.status, "text/plain", b"no")
            return
        body = await _body(receive)
        accept = dict(scope["headers"]).get(b"accept", b"").decode()
        await self._answer(send, scope["path"], body, accept)

    async def _answer(self, send: Send, path: str, body: bytes, accept: str) -> None:
        _, name, *rest = path.split("/")
        if path.startswith("/multihash/"):
            requests = [each for each in self.found if base58(each) == rest[0]]
            await self._send_results(send, requests, self.kind or (LINES if LINES in accept else JSON))
        elif path == "/multihash":
            requested = results.decode_batch(body)
            await self._send_results(send, [each for each in requested if each in self.found], self.kind or JSON)
        elif name == "encrypted":
            entries = [(key, its) for key, its in self.keys.items() if base58(key) == rest[-1]]
            await _reply(send, 200 if entries else 404, JSON, results.encode_encrypted_json(entries), self.headers)
        elif name == "metadata":
            found = self.metadata.get(rest[0])
            await _reply(send, 200 if found else 404, JSON, msgspec.json.encode({"EncryptedMetadata": found}))
        elif path == "/providers":
            await _reply(send, 200, JSON, providers_json.encode_providers(self.known))
        else:
            one = [each for each in self.known if each.id == rest[0]]
            await _reply(send, 200 if one else 404, JSON, providers_json.encode_provider(one[0]) if one else b"")

    async def _send_results(self, send: Send, requests: list[bytes], kind: str) -> None:
        if self.raw is not None:
            await _reply(send, 200, kind, self.raw, self.headers)
        elif not requests:
            await _reply(send, 404, "text/plain", b"no results for query")
        elif kind == LINES:
            await self._stream(send, [results.encode_line(each) for each in self.found[requests[0]]])
        else:
            body = results.encode_json([(each, self.found[each]) for each in requests])
            await _reply(send, 200, kind, body, self.headers)

    async def _stream(self, send: Send, lines: list[bytes]) -> None:
        await _start(send, 200, LINES, self.headers)
        for at, line in enumerate(lines):
            await send({"type": "http.response.body", "body": line, "more_body": True})
            if at == 0 and self.breaks_off:
                return
            if at == 0 and self.hold_lines is not None:
                await self.hold_lines.wait()
        if self.hold_end is not None:
            await self.hold_end.wait()
        await send({"type": "http.response.body", "body": b""})


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _start(send: Send, status: int, kind: str, headers: Mapping[str, str] | None = None) -> None:
    entries = [(b"content-type", kind.encode()), *((k.encode(), v.encode()) for k, v in (headers or {}).items())]
    await send({"type": "http.response.start", "status": status, "headers": entries})


async def _reply(send: Send, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    await _start(send, status, kind, headers)
    await send({"type": "http.response.body", "body": body})


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@dataclass
class ResponseReceived:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def missing(self) -> int:
        return int(self.headers.get("x-argosy-incomplete", "0"))


@dataclass
class ContentFixture:
    """A content gateway, its URL, and an HTTP client of it."""

    gateway: ContentGateway
    metrics: Metrics
    urls: list[str]
    url: str
    web: aiohttp.ClientSession

    @property
    def names(self) -> list[str]:
        return [Backend.at(url).name for url in self.urls]

    async def get(self, path: str, accept: str = "application/json", **params: str) -> ResponseReceived:
        async with self.web.get(self.url + path, headers={"accept": accept}, params=params) as answer:
            return ResponseReceived(answer.status, lower_names(answer.headers), await answer.read())

    async def find(self, multihash: bytes, accept: str = "application/json") -> ResponseReceived:
        return await self.get(f"/multihash/{base58(multihash)}", accept)


@asynccontextmanager
async def gateway_over(
    *indexers: IndexerDouble | str, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[ContentFixture]:
    """A URL instead of an indexer is used as it is. Nothing is cached unless the settings enable it."""
    async with AsyncExitStack() as stack:
        urls = [each if isinstance(each, str) else await stack.enter_async_context(serving(each)) for each in indexers]
        metrics = Metrics()
        chosen = ContentSettings(**{**LONG_TIMEOUTS, **settings})
        gateway = ContentGateway(
            [Backend.at(url) for url in urls], chosen, clock=clock, random=seeded_random(1), metrics=metrics
        )
        stack.push_async_callback(gateway.close)
        url = await stack.enter_async_context(serving(content_app(gateway)))
        web = await stack.enter_async_context(aiohttp.ClientSession())
        yield ContentFixture(gateway, metrics, urls, url, web)


class SetClock(SystemClock):
    """The machine's clock, which a test may put forward."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


async def until(is_so: Callable[[], bool]) -> None:
    """Takes turns with the rest of the loop."""
    async with asyncio.timeout(WITHIN_S):
        while not is_so():  # noqa: ASYNC110 - a metric has no event to wait for
            await asyncio.sleep(0)


async def nowhere() -> str:
    """A URL without a server."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"http://127.0.0.1:{port}"
