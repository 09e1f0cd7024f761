"""The Node port over the network: in frames, or over HTTP.

An address of the form `host:port` means frames; a URL means HTTP, for intermediaries that support nothing else. There
is no fallback between the two. A finished index is always transferred over HTTP: a stream of gigabytes gains nothing
from frames (decision 0026).

All requests only read, so a request whose connection was closed is sent once more. An error that a node returns is
raised as the same error here; a request that did not arrive, or whose response is unreadable, is Unavailable.
Cancelling a call cancels it at the node.

Searches are sent thousands of times a second: one that finds an open connection is a future and no coroutine.
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
from argosy.search.fleet import protocol
from argosy.search.fleet.frame_client import (
    Address,
    FrameConnectionClosed,
    FrameConnections,
    PendingCall,
    UpgradeRejected,
)
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
from argosy.search.fleet.protocol import Frame, Refusal, decode_refusal, encode_trace, pack, unpack, wall_time_s
from argosy.search.model import SearchResult
from argosy.search.query.codec import UnsupportedQueryVersion

CONNECTIONS_PER_NODE_MAX = 128  # over HTTP, where each request occupies a connection
KEEP_ALIVE_S = 4.0  # less than uvicorn's 5 s: the client must be the one to close an idle connection
CONNECT_S = 2.0
MARGIN_S = 1.0  # for both directions of the network, beside the search's own time
CALL_S = 10.0  # time limit of requests that have none of their own
STALL_S = 30.0  # a stream without data for so long has failed
READ_BYTES = 1 << 20  # of a stream, buffered
ERROR_BYTES_MAX = 64 << 10
ADDRESSES_CACHED_MAX = 4096
SEARCH_LANE, OTHER_LANE = "search", "other"  # no search waits behind a long file

_T = TypeVar("_T")

_CALL = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S)
_NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
_PATHS = {
    protocol.SEARCH: protocol.SEARCH_PATH,
    protocol.LIST: protocol.LIST_PATH,
    protocol.FILE: protocol.FILE_PATH,
    protocol.FOLDER: protocol.FOLDER_PATH,
    protocol.STATUS: protocol.STATUS_PATH,
}


class RemoteNodes:
    """Nodes by address. Belongs to the event loop it is first used in."""

    def __init__(self, *, fleet_token: str | None = None, tracer: Tracer = NO_TRACER) -> None:
        self.tracer = tracer
        token = {} if not fleet_token else {"authorization": f"Bearer {fleet_token}"}
        # A line break would end the header, and what follows would be another header.
        if fleet_token and not fleet_token.isprintable():
            raise Invalid("invalid node.fleet_token: it contains control characters, and is sent in an HTTP header")
        self._headers = {"content-type": protocol.CONTENT_TYPE, **token}
        self.connections = FrameConnections(token, answer_bytes_max=protocol.ANSWER_BYTES_MAX, connect_s=CONNECT_S)
        self._session: aiohttp.ClientSession | None = None
        self._nodes: dict[str, Node] = {}
        self._is_closed = False

    def at(self, address: str) -> Node:
        """`address` is host:port, or a whole URL. The few addresses of a fleet are cached."""
        node = self._nodes.get(address)
        if node is None:
            # Addresses of containers never come back. Cleared as a whole: a node object is cheap, its connections are
            # elsewhere.
            if len(self._nodes) >= ADDRESSES_CACHED_MAX:
                self._nodes.clear()
            node = self._nodes[address] = _RemoteNode(self, address)
        return node

    async def close(self) -> None:
        self._is_closed = True
        await self.connections.close()
        if self._session is not None:
            await self._session.close()

    def check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("this process is shutting down; retry at another one")

    def session(self) -> aiohttp.ClientSession:
        """For streams, and for addresses that are URLs."""
        self.check_open()
        if self._session is None:
            connector = aiohttp.TCPConnector(
                # Bounded per node alone, because a fleet may have hundreds of nodes.
                limit=0,
                limit_per_host=CONNECTIONS_PER_NODE_MAX,
                keepalive_timeout=KEEP_ALIVE_S,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                # Nodes read none of these.
                skip_auto_headers=("user-agent", "accept", "accept-encoding"),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_CALL,
                read_bufsize=READ_BYTES,
            )
        return self._session


class _RemoteNode:
    """One node."""

    def __init__(self, nodes: RemoteNodes, address: str) -> None:
        self._nodes = nodes
        self._address = address
        self._base = address if "://" in address else f"http://{address}"
        self._frame_address = _host_and_port(address)  # None: over HTTP

    def search(self, request: SearchRequest) -> Awaitable[SearchResult]:
        within_s = wall_time_s(request.options) + MARGIN_S
        idle = None if self._frame_address is None else self._nodes.connections.idle(self._frame_address, SEARCH_LANE)
        # The first request, or one after a closed connection, has to await a connection.
        if idle is None:
            return self._call(protocol.SEARCH, request, SearchResult, within_s)
        body, trace = pack(request), encode_trace(self._nodes.tracer.inject())
        pending = _PendingSearch(self, body, trace, within_s)
        idle.send(pending, protocol.SEARCH, body, trace, within_s)
        return pending

    async def list(self, request: SearchRequest) -> ListResult:
        return await self._call(protocol.LIST, request, ListResult, wall_time_s(request.options) + MARGIN_S)

    async def file(self, request: FileRequest) -> FileText:
        return await self._call(protocol.FILE, request, FileText, CALL_S)

    async def folder(self, request: FolderRequest) -> FolderListing:
        return await self._call(protocol.FOLDER, request, FolderListing, CALL_S)

    async def status(self) -> NodeStatus:
        return await self._call(protocol.STATUS, None, NodeStatus, CALL_S)

    async def index(self, repository: str) -> AsyncGenerator[bytes]:
        path = protocol.INDEX_PATH + quote(repository, safe="", errors="surrogateescape")
        async with (
            self._stream_errors(),
            self._nodes.session().get(
                self._url(path), headers=self._nodes.tracer.inject(), timeout=_STREAM
            ) as response,
        ):
            await self._check_status(response)
            async for chunk in response.content.iter_any():
                yield chunk

    # -- one request ------------------------------------------------------------------------------------------------

    async def _call(self, kind: int, request: object, result: type[_T], within_s: float) -> _T:
        body = b"" if request is None else pack(request)
        try:
            if self._frame_address is None:
                async with asyncio.timeout(within_s):
                    response = await self._post(_PATHS[kind], body)
            else:
                trace = encode_trace(self._nodes.tracer.inject())
                try:
                    frame = await self._exchange(self._frame_address, kind, body, trace, within_s)
                except FrameConnectionClosed:
                    frame = await self._exchange(self._frame_address, kind, body, trace, within_s)
                response = self._body(frame)
        except _NETWORK_ERRORS as error:
            raise self.unavailable(error, within_s) from error
        return self._decode(response, result)

    async def search_again(self, body: bytes, trace: bytes, within_s: float) -> SearchResult:
        """Repeats a search whose connection was closed, on another one."""
        assert self._frame_address is not None
        try:
            frame = await self._exchange(self._frame_address, protocol.SEARCH, body, trace, within_s)
        except _NETWORK_ERRORS as error:
            raise self.unavailable(error, within_s) from error
        return self.read(frame, SearchResult)

    async def _exchange(self, address: Address, kind: int, body: bytes, trace: bytes, within_s: float) -> Frame:
        self._nodes.check_open()
        lane = SEARCH_LANE if kind == protocol.SEARCH else OTHER_LANE
        try:
            return await self._nodes.connections.request(address, lane, kind, body, trace, within_s)
        except UpgradeRejected as error:
            match error.status:
                case 401:
                    raise _error_from(Refusal(401, ""), self._address) from None
                case 426:
                    why = f"it does not support {protocol.LANGUAGE}; run the same version of argosy on all nodes"
                case _:
                    why = f"not a search node, or behind a proxy that needs its address as a URL ({error})"
            raise Unavailable(f"node {self._address} unreachable: {why}") from None

    async def _post(self, path: str, body: bytes) -> bytes:
        try:
            return await self._post_once(path, body)
        except aiohttp.ClientConnectorError:
            raise  # unreachable: the caller chooses another node
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._post_once(path, body)

    async def _post_once(self, path: str, body: bytes) -> bytes:
        async with self._nodes.session().request(
            "POST" if body else "GET",
            self._url(path),
            data=body or None,
            headers=self._nodes.tracer.inject(),
            # Nodes never redirect, and the fleet token must not be sent to another host.
            allow_redirects=False,
        ) as response:
            await self._check_status(response)
            return await self._read_body(response, protocol.ANSWER_BYTES_MAX)

    def _url(self, path: str) -> URL:
        return URL(self._base + path, encoded=True)

    # -- responses --------------------------------------------------------------------------------------------------

    def read(self, frame: Frame, result: type[_T]) -> _T:
        return self._decode(self._body(frame), result)

    def _body(self, frame: Frame) -> bytes:
        if frame.kind != protocol.RESULT:
            raise _error_from(decode_refusal(frame.body), self._address)
        return frame.body

    def _decode(self, body: bytes, result: type[_T]) -> _T:
        try:
            return unpack(body, result)
        except Invalid as error:
            raise Unavailable(
                f"unreadable response of node {self._address}: {error}; run the same version of argosy on all nodes"
            ) from None

    async def _read_body(self, response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
        parts, size = [], 0
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > bytes_max:
                raise Unavailable(f"response of node {self._address} too large: limit {bytes_max} bytes; request less")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _check_status(self, response: aiohttp.ClientResponse) -> None:
        if response.status == 200:
            return
        body, retry_after = await self._read_body(response, ERROR_BYTES_MAX), response.headers.get("retry-after", "")
        try:
            message = msgspec.json.decode(body, type=_ErrorBody).error.message
        except msgspec.MsgspecError:
            message = repr(body[:100])  # not one of ours, for example a proxy's
        retry_after_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 1.0
        refusal = Refusal(response.status, message, response.headers.get("x-argosy-owner"), retry_after_s)
        raise _error_from(refusal, self._address)

    @asynccontextmanager
    async def _stream_errors(self) -> AsyncIterator[None]:
        try:
            yield
        except TimeoutError:
            raise Unavailable(f"node {self._address} timed out: no data for {STALL_S:g} s") from None
        except _NETWORK_ERRORS as error:
            raise self._unreachable(error) from error

    def unavailable(self, error: Exception, within_s: float) -> Unavailable:
        if isinstance(error, TimeoutError):
            return Unavailable(f"node {self._address} timed out after {within_s:g} s")
        return self._unreachable(error)

    def _unreachable(self, error: Exception) -> Unavailable:
        return Unavailable(f"node {self._address} unreachable: {str(error) or type(error).__name__}")


class _PendingSearch(PendingCall[SearchResult]):
    """The future result of a search. If its connection is closed, the search is sent once more on another one."""

    __slots__ = ("_node", "_request", "_retry")

    def __init__(self, node: _RemoteNode, body: bytes, trace: bytes, within_s: float) -> None:
        super().__init__()
        self._node = node
        self._request = body, trace, within_s
        self._retry: asyncio.Task[SearchResult] | None = None

    def on_frame(self, frame: Frame) -> None:
        try:
            self.set_result(self._node.read(frame, SearchResult))
        except ArgosyError as error:
            self.set_exception(error)

    def on_error(self, error: Exception) -> None:
        if isinstance(error, FrameConnectionClosed):
            self._retry = self.get_loop().create_task(self._node.search_again(*self._request))
            self._retry.add_done_callback(self._on_retry_end)
        else:
            self.set_exception(self._node.unavailable(error, self._request[2]))

    def _on_retry_end(self, retry: asyncio.Task[SearchResult]) -> None:
        error = None if retry.cancelled() else retry.exception()
        if self.done():
            return  # cancelled meanwhile
        if retry.cancelled():
            self.cancel()
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(retry.result())

    def cancel(self, msg: object = None) -> bool:
        if not super().cancel(msg):
            return False
        if self._retry is not None:
            self._retry.cancel()
        return True


def _host_and_port(address: str) -> Address | None:
    """None if the address is a URL."""
    if "://" in address:
        return None
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 80


class _ErrorDetail(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    """The JSON body of an error response, as `base.http` writes it."""

    error: _ErrorDetail


_BY_STATUS: Mapping[int, type[ArgosyError]] = {400: Invalid, 404: NotFound, 409: Conflict, 410: Gone}


def _error_from(refusal: Refusal, address: str) -> ArgosyError:
    """The error that a node returned. A rejected fleet token is Unavailable: it concerns two processes of the fleet,
    and the user who sent the request cannot fix it."""
    match refusal.status:
        case 401:
            return Unavailable(f"node {address} rejected the fleet token; set the same node.fleet_token on all nodes")
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
            return Unavailable(f"node {address} returned status {status}: {refusal.message}")
