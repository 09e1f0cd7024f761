"""Nodes at a distance: the Node port in frames, or over HTTP.

An address that is host and port is asked in frames; one that is a URL is asked over HTTP, for what stands in between
and understands nothing else. A finished index comes over HTTP in any case.

All questions only read, so one whose connection was closed under it is asked once more. What a node refuses comes back
as the error it was; what never reached it, or came back broken, is Unavailable. Cancelling a call tells the node to
stop.

Searches are asked thousands of times a second: one that finds its connection open is a future and no coroutine.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from yarl import URL

from argosy.base.errors import ArgosyError, Conflict, Gone, Invalid, NotFound, NotOwner, Throttled, Unavailable
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.search.fleet import codec
from argosy.search.fleet.codec import pack, unpack, wall_time_s
from argosy.search.fleet.frames import wire
from argosy.search.fleet.frames.client import Address, Closed, FrameConnections, NotWelcome, Reply
from argosy.search.fleet.frames.wire import Frame, Refusal, decode_refusal, encode_trace
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    SearchRequest,
)
from argosy.search.fleet.ports import Node
from argosy.search.model import SearchResult
from argosy.search.query.codec import UnsupportedQueryVersion

CONNECTIONS_PER_NODE_MAX = 128  # over HTTP, where each question has one to itself
KEEP_ALIVE_S = 4.0  # less than the 5 s after which uvicorn closes what is idle
CONNECT_S = 2.0
MARGIN_S = 1.0  # what the way there and back may take besides the search's own time
CALL_S = 10.0  # for questions that name no time of their own
STALL_S = 30.0  # a stream that brings nothing for so long is given up
READ_BYTES = 1 << 20  # of a stream, waiting to be taken
ERROR_BYTES_MAX = 64 << 10
ADDRESSES_KEPT_MAX = 4096
SEARCH_LANE = "search"  # no search waits behind a long file

_T = TypeVar("_T")

_CALL = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S)
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
_PATHS = {
    wire.SEARCH: codec.SEARCH_PATH,
    wire.LIST: codec.LIST_PATH,
    wire.FILE: codec.FILE_PATH,
    wire.FOLDER: codec.FOLDER_PATH,
    wire.STATUS: codec.STATUS_PATH,
}


class RemoteNodes:
    """Nodes by address. Belongs to the event loop it is first used in."""

    def __init__(self, *, fleet_token: str | None = None, tracer: Tracer = NO_TRACER) -> None:
        self.tracer = tracer
        token = {} if not fleet_token else {"authorization": f"Bearer {fleet_token}"}
        if fleet_token and not fleet_token.isprintable():
            raise Invalid("node.fleet_token must be one line of text, as it is sent in a header")
        self._headers = {"content-type": codec.CONTENT_TYPE, **token}
        self.lines = FrameConnections(token, answer_bytes_max=codec.ANSWER_BYTES_MAX, connect_s=CONNECT_S)
        self._session: aiohttp.ClientSession | None = None
        self._nodes: dict[str, Node] = {}
        self._is_closed = False

    def at(self, address: str) -> Node:
        """`address` is host:port, or a whole URL. Fleets have few of them, so they are kept."""
        node = self._nodes.get(address)
        if node is None:
            if len(self._nodes) >= ADDRESSES_KEPT_MAX:
                self._nodes.clear()
            node = self._nodes[address] = _FarNode(self, address)
        return node

    async def close(self) -> None:
        self._is_closed = True
        await self.lines.close()
        if self._session is not None:
            await self._session.close()

    def check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("this process is closing and asks no nodes any more")

    def session(self) -> aiohttp.ClientSession:
        """For streams, and for addresses that are URLs."""
        self.check_open()
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


class _FarNode:
    """One node."""

    def __init__(self, nodes: RemoteNodes, address: str) -> None:
        self._nodes = nodes
        self._address = address
        self._base = address if "://" in address else f"http://{address}"
        self._in_frames = _host_and_port(address)

    def search(self, asked: SearchRequest) -> Awaitable[SearchResult]:
        within_s = wall_time_s(asked.options) + MARGIN_S
        line = None if self._in_frames is None else self._nodes.lines.idle(self._in_frames, SEARCH_LANE)
        if line is None:
            return self._ask(wire.SEARCH, asked, SearchResult, within_s)
        body, trace = pack(asked), encode_trace(self._nodes.tracer.inject())
        found = _Found(self, body, trace, within_s)
        line.begin(found, wire.SEARCH, body, trace, within_s)
        return found

    async def list(self, asked: SearchRequest) -> ListResult:
        return await self._ask(wire.LIST, asked, ListResult, wall_time_s(asked.options) + MARGIN_S)

    async def file(self, asked: FileRequest) -> FileText:
        return await self._ask(wire.FILE, asked, FileText, CALL_S)

    async def folder(self, asked: FolderRequest) -> FolderListing:
        return await self._ask(wire.FOLDER, asked, FolderListing, CALL_S)

    async def status(self) -> NodeStatus:
        return await self._ask(wire.STATUS, None, NodeStatus, CALL_S)

    async def index(self, repository: str) -> AsyncGenerator[bytes]:
        path = codec.INDEX_PATH + quote(repository, safe="", errors="surrogateescape")
        async with (
            self._told_errors(),
            self._nodes.session().get(
                self._url(path), headers=self._nodes.tracer.inject(), timeout=_STREAM
            ) as response,
        ):
            await self._check(response)
            async for chunk in response.content.iter_any():
                yield chunk

    async def _ask(self, kind: int, question: object, answer: type[_T], within_s: float) -> _T:
        body = b"" if question is None else pack(question)
        try:
            told = await self._told(kind, body, within_s)
        except _BROKEN as error:
            raise self.broken(error, within_s) from error
        return self._understood(told, answer)

    def broken(self, error: Exception, within_s: float) -> Unavailable:
        if isinstance(error, TimeoutError):
            return Unavailable(f"the node at {self._address} did not answer within {within_s:g} s")
        return self._unreachable(error)

    def read(self, frame: Frame, answer: type[_T]) -> _T:
        return self._understood(self._body(frame), answer)

    def _understood(self, told: bytes, answer: type[_T]) -> _T:
        try:
            return unpack(told, answer)
        except Invalid as error:
            raise Unavailable(f"the node at {self._address} is not understood, is its version ours? {error}") from None

    async def _told(self, kind: int, body: bytes, within_s: float) -> bytes:
        if self._in_frames is None:
            async with asyncio.timeout(within_s):
                return await self._told_over_http(_PATHS[kind], body)
        trace = encode_trace(self._nodes.tracer.inject())
        try:
            return self._body(await self._framed(self._in_frames, kind, body, trace, within_s))
        except Closed:
            return self._body(await self._framed(self._in_frames, kind, body, trace, within_s))

    async def searched_again(self, body: bytes, trace: bytes, within_s: float) -> SearchResult:
        """After the connection was closed, on another one."""
        assert self._in_frames is not None
        try:
            frame = await self._framed(self._in_frames, wire.SEARCH, body, trace, within_s)
        except _BROKEN as error:
            raise self.broken(error, within_s) from error
        return self.read(frame, SearchResult)

    async def _framed(self, address: Address, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        self._nodes.check_open()
        lane = SEARCH_LANE if kind == wire.SEARCH else "rest"
        try:
            return await self._nodes.lines.ask(address, lane, kind, body, trace, within_s)
        except NotWelcome as error:
            if error.status == 401:
                raise _error(Refusal(401, ""), self._address) from None
            told = f"it is no node of ours, or one behind something that needs its address as a URL ({error})"
            raise Unavailable(f"the node at {self._address} cannot be asked: {told}") from None

    def _body(self, frame: Frame) -> bytes:
        if frame.kind != wire.RESULT:
            raise _error(decode_refusal(frame.body), self._address)
        return frame.body

    async def _told_over_http(self, path: str, body: bytes) -> bytes:
        try:
            return await self._requested(path, body)
        except aiohttp.ClientConnectorError:
            raise  # nobody is there: whoever asks chooses what to do
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._requested(path, body)

    async def _requested(self, path: str, body: bytes) -> bytes:
        async with self._nodes.session().request(
            "POST" if body else "GET",
            self._url(path),
            data=body or None,
            headers=self._nodes.tracer.inject(),
            allow_redirects=False,
        ) as response:
            await self._check(response)
            return await self._read(response, codec.ANSWER_BYTES_MAX)

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
            raise _error(_refusal(response.status, body, response.headers), self._address)

    @asynccontextmanager
    async def _told_errors(self) -> AsyncIterator[None]:
        """Of a stream."""
        try:
            yield
        except TimeoutError:
            raise Unavailable(f"the node at {self._address} sent nothing for {STALL_S:g} s") from None
        except _BROKEN as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unavailable:
        why = str(error) or type(error).__name__
        return Unavailable(f"the node at {self._address} cannot be asked: {why}")


class _Found(Reply[SearchResult]):
    """What a search finds."""

    __slots__ = ("_again", "_node", "_question")

    def __init__(self, node: _FarNode, body: bytes, trace: bytes, within_s: float) -> None:
        super().__init__()
        self._node = node
        self._question = body, trace, within_s
        self._again: asyncio.Task[SearchResult] | None = None

    def take(self, frame: Frame) -> None:
        try:
            self.set_result(self._node.read(frame, SearchResult))
        except ArgosyError as error:
            self.set_exception(error)

    def fail(self, error: Exception) -> None:
        if isinstance(error, Closed):
            self._again = self.get_loop().create_task(self._node.searched_again(*self._question))
            self._again.add_done_callback(self._ended)
        else:
            self.set_exception(self._node.broken(error, self._question[2]))

    def _ended(self, again: asyncio.Task[SearchResult]) -> None:
        error = None if again.cancelled() else again.exception()
        if self.done():
            return  # nobody waits for it any more
        if again.cancelled():
            self.cancel()
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(again.result())

    def cancel(self, msg: object = None) -> bool:
        if not super().cancel(msg):
            return False
        if self._again is not None:
            self._again.cancel()
        return True


def _host_and_port(address: str) -> Address | None:
    """None if the address is a URL."""
    if "://" in address:
        return None
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 80


class _Told(msgspec.Struct):
    message: str


class _HttpRefusal(msgspec.Struct):
    error: _Told


def _message(body: bytes) -> str:
    """What an error of ours says; of somebody else's, its beginning."""
    try:
        return msgspec.json.decode(body, type=_HttpRefusal).error.message
    except msgspec.MsgspecError:
        return repr(body[:100])


def _refusal(status: int, body: bytes, headers: Mapping[str, str]) -> Refusal:
    retry_after = _seconds(headers.get("retry-after", ""))
    return Refusal(status, _message(body), headers.get("x-argosy-owner"), retry_after)


_BY_STATUS: Mapping[int, type[ArgosyError]] = {400: Invalid, 404: NotFound, 409: Conflict, 410: Gone}


def _error(refusal: Refusal, address: str) -> ArgosyError:
    """The error a node answered with. Unauthorized is between processes: the person who asked cannot mend it."""
    match refusal.status:
        case 401:
            return Unavailable(f"the node at {address} knows another fleet token: set the same node.fleet_token")
        case 421:
            return NotOwner(refusal.message, hint=refusal.hint)
        case UnsupportedQueryVersion.status:
            # Not Invalid: the query is good, and other nodes may be of our version.
            return Unavailable(f"node {address} is of another version: {refusal.message}")
        case 429:
            return Throttled(refusal.message, retry_after_s=refusal.retry_after_s)
        case 503:
            return Unavailable(refusal.message)
        case status if status in _BY_STATUS:
            return _BY_STATUS[status](refusal.message)
        case status:
            return Unavailable(f"the node at {address} answered {status}: {refusal.message}")


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 1.0
