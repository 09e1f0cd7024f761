"""Nodes at a distance: the Node port over HTTP.

All questions only read, so one whose connection was closed under it (a server ends idle ones when it likes) is asked
once more. What a node refuses comes back as the error it was; what never reached it, or came back broken, is
Unavailable. Cancelling a call closes its connection, by which the node knows to stop.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from yarl import URL

from argosy.base.errors import ArgosyError, Conflict, Gone, Invalid, NotFound, NotOwner, Throttled, Unavailable
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.search.backends.exchange import Bounds, Closed, Exchange, TooLong
from argosy.search.fleet import packing
from argosy.search.fleet.model import Asked, FileAsked, FileText, Folder, FolderAsked, Listing, NodeStatus
from argosy.search.fleet.packing import pack, unpack, wall_time_s
from argosy.search.fleet.ports import Node
from argosy.search.model import Answer

CONNECTIONS_PER_NODE_MAX = 128
KEEP_ALIVE_S = 4.0                      # less than the 5 s after which uvicorn closes what is idle
CONNECT_S = 2.0
MARGIN_S = 1.0                          # what the way there and back may take besides the search's own time
CALL_S = 10.0                           # for questions that name no time of their own
STALL_S = 30.0                          # a stream that brings nothing for so long is given up
READ_BYTES = 1 << 20                    # of a stream, waiting to be taken
ERROR_BYTES_MAX = 64 << 10
ADDRESSES_KEPT_MAX = 4096

_T = TypeVar("_T")

_CALL = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S)
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)


class HttpNodes:
    """Nodes by address, behind one pool of connections. Belongs to the event loop it is first used in."""

    def __init__(self, *, fleet_token: str | None = None, tracer: Tracer = NO_TRACER) -> None:
        self.tracer = tracer
        self._headers = {"content-type": packing.CONTENT_TYPE}
        if fleet_token:
            self._headers["authorization"] = f"Bearer {fleet_token}"
            if not fleet_token.isprintable():
                raise Invalid("node.fleet_token must be one line of text, as it is sent in a header")
        self.exchange = Exchange(
            connections_max=CONNECTIONS_PER_NODE_MAX, keep_s=KEEP_ALIVE_S, connect_s=CONNECT_S
        )
        self._session: aiohttp.ClientSession | None = None
        self._plain: dict[str, tuple[str, int] | None] = {}
        self._is_closed = False

    def at(self, address: str) -> Node:
        """`address` is host:port, or a whole URL."""
        return _HttpNode(self, address)

    def plain(self, base: str) -> tuple[str, int] | None:
        """Host and port of a URL that says nothing else; None for one that does. Fleets have few addresses."""
        if base not in self._plain:
            if len(self._plain) >= ADDRESSES_KEPT_MAX:
                self._plain.clear()
            parts = urlsplit(base)
            is_plain = parts.scheme == "http" and parts.netloc.rpartition("@")[0] == "" and parts.path in ("", "/")
            self._plain[base] = (parts.hostname or "", parts.port or 80) if is_plain else None
        return self._plain[base]

    async def close(self) -> None:
        self._is_closed = True
        self.exchange.close()
        if self._session is not None:
            await self._session.close()

    def headers(self) -> dict[str, str]:
        """Those of every question; nobody is asked once this is closed."""
        if self._is_closed:
            raise Unavailable("this process is closing and asks no nodes any more")
        return {**self._headers, **self.tracer.carried()}

    def session(self) -> aiohttp.ClientSession:
        """For streams, and for addresses that only a whole client understands."""
        if self._is_closed:
            raise Unavailable("this process is closing and asks no nodes any more")
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, limit_per_host=CONNECTIONS_PER_NODE_MAX, keepalive_timeout=KEEP_ALIVE_S
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                skip_auto_headers=("user-agent", "accept", "accept-encoding"),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_CALL,
                read_bufsize=READ_BYTES,
            )
        return self._session


class _HttpNode:
    """One node."""

    def __init__(self, nodes: HttpNodes, address: str) -> None:
        self._nodes = nodes
        self._address = address
        self._base = address if "://" in address else f"http://{address}"
        self._plain = nodes.plain(self._base)

    async def search(self, asked: Asked) -> Answer:
        return await self._ask(packing.SEARCH_PATH, asked, Answer, wall_time_s(asked.options) + MARGIN_S)

    async def list(self, asked: Asked) -> Listing:
        return await self._ask(packing.LIST_PATH, asked, Listing, wall_time_s(asked.options) + MARGIN_S)

    async def file(self, asked: FileAsked) -> FileText:
        return await self._ask(packing.FILE_PATH, asked, FileText, CALL_S)

    async def folder(self, asked: FolderAsked) -> Folder:
        return await self._ask(packing.FOLDER_PATH, asked, Folder, CALL_S)

    async def status(self) -> NodeStatus:
        return await self._ask(packing.STATUS_PATH, None, NodeStatus, CALL_S)

    async def index(self, repository: str) -> AsyncGenerator[bytes]:
        path = packing.INDEX_PATH + quote(repository, safe="", errors="surrogateescape")
        with_errors = self._told_errors(f"sent nothing for {STALL_S:g} s")
        async with with_errors, self._nodes.session().get(
            self._url(path), headers=self._nodes.tracer.carried(), timeout=_STREAM
        ) as response:
            await self._check(response)
            async for chunk in response.content.iter_any():
                yield chunk

    async def _ask(self, path: str, question: object, kind: type[_T], within_s: float) -> _T:
        body = b"" if question is None else pack(question)
        async with self._told_errors(f"did not answer within {within_s:g} s"), asyncio.timeout(within_s):
            try:
                answer = await self._exchange(path, body)
            except aiohttp.ClientConnectorError:
                raise                               # nobody is there: whoever asks chooses what to do
            except (Closed, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                answer = await self._exchange(path, body)
        try:
            return unpack(answer, kind)
        except Invalid as error:
            raise Unavailable(f"the node at {self._address} is not understood, is its version ours? {error}") from None

    async def _exchange(self, path: str, body: bytes) -> bytes:
        method = "POST" if body else "GET"
        if self._plain is None:
            return await self._exchange_at_length(method, path, body)
        bounds = Bounds(packing.ANSWER_BYTES_MAX, ERROR_BYTES_MAX)
        try:
            reply = await self._nodes.exchange.ask(self._plain, method, path, self._nodes.headers(), body, bounds)
        except TooLong as error:
            raise Unavailable(f"the node at {self._address} answers with {error}: ask for less") from None
        if reply.status != 200:
            raise _error(reply.status, _message(reply.body), reply.headers, self._address)
        return reply.body

    async def _exchange_at_length(self, method: str, path: str, body: bytes) -> bytes:
        """With a whole client, for https and for addresses with a path."""
        async with self._nodes.session().request(
            method, self._url(path), data=body or None, headers=self._nodes.headers(), allow_redirects=False
        ) as response:
            await self._check(response)
            return await self._read(response, packing.ANSWER_BYTES_MAX)

    def _url(self, path: str) -> URL:
        return URL(self._base + path, encoded=True)

    async def _read(self, response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
        parts, size = [], 0
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > bytes_max:
                raise Unavailable(f"the node at {self._address} answers with more than {bytes_max} bytes: ask for less")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            body = await self._read(response, ERROR_BYTES_MAX)
            raise _error(response.status, _message(body), response.headers, self._address)

    @asynccontextmanager
    async def _told_errors(self, late: str) -> AsyncIterator[None]:
        try:
            yield
        except TimeoutError:
            raise Unavailable(f"the node at {self._address} {late}") from None
        except _BROKEN as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"the node at {self._address} cannot be asked: {why}") from error


class _Told(msgspec.Struct):
    message: str


class _Refusal(msgspec.Struct):
    error: _Told


def _message(body: bytes) -> str:
    """What an error of ours says; of somebody else's, its beginning."""
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.MsgspecError:
        return repr(body[:100])


_BY_STATUS: Mapping[int, type[ArgosyError]] = {400: Invalid, 404: NotFound, 409: Conflict, 410: Gone}


def _error(status: int, message: str, headers: Mapping[str, str], address: str) -> ArgosyError:
    """The error a node answered with. Unauthorized is between processes: the person who asked cannot mend it."""
    match status:
        case 401:
            return Unavailable(f"the node at {address} knows another fleet token: set the same node.fleet_token")
        case 421:
            return NotOwner(message, hint=headers.get("x-argosy-owner"))
        case 429:
            return Throttled(message, retry_after_s=_seconds(headers.get("retry-after", "")))
        case 503:
            return Unavailable(message)
        case _ if status in _BY_STATUS:
            return _BY_STATUS[status](message)
        case _:
            return Unavailable(f"the node at {address} answered {status}: {message}")


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 1.0
