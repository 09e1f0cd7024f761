"""Client of query nodes over HTTP.

A node's error is raised as the same error here; a request that was not delivered or not answered raises Unavailable.
Every call has a deadline and a size limit. All calls are idempotent, so unlike `indexer_client` there is no distinction
between a request that was not sent and one with unknown outcome.
"""

import asyncio
import io
from collections.abc import Mapping, Sequence
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotOwner,
    Unauthorized,
    Unavailable,
)
from argosy.ipni.keyspace import wire
from argosy.ipni.keyspace.ports import QueryNodeStatus, SlotExport
from argosy.ipni.model import IndexValue, StoreStats

# A host that is down often answers nothing at all: reads then go to another owner.
CONNECT_S = 3.0
KEEP_ALIVE_S = 4.0  # less than the 5 s after which uvicorn closes what is idle
CONNECTIONS_PER_NODE_MAX = 32
WHOLE_BYTES_MAX = 1 << 20  # larger bodies are sent in pieces, so that other tasks run in between

A = TypeVar("A")
Q = TypeVar("Q")

_KINDS: Mapping[int, type[ArgosyError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    421: NotOwner,
}


class NodeConnections:
    """The connections to all nodes. Belongs to the event loop of its first use; `close` it."""

    def __init__(self, *, token: str | None, call_s: float) -> None:
        self._token = token
        self._call_s = call_s
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    def node(self, url: str) -> "NodeClient":
        return NodeClient(self, url)

    async def close(self) -> None:
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, url: URL, body: bytes) -> bytes:
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/msgpack"}
        try:
            async with (
                asyncio.timeout(self._call_s),
                self._open_session().post(
                    url, data=_to_payload(body), headers=headers, allow_redirects=False
                ) as answer,
            ):
                data = await _read_bounded(answer)
        except TimeoutError:
            raise Unavailable(f"{url} timed out after {self._call_s} s") from None
        except (aiohttp.ClientError, OSError) as why:
            raise Unavailable(f"{url} is unreachable ({type(why).__name__}: {why}); check the query node") from None
        if answer.status != 200:
            raise _error(url, answer.status, data)
        return data

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise Unavailable("this client is closed")
        if self._session is None:
            connector = aiohttp.TCPConnector(
                # Bounded per node only: a slow node must not use up the connections to the others.
                limit=0,
                limit_per_host=CONNECTIONS_PER_NODE_MAX,
                keepalive_timeout=KEEP_ALIVE_S,
            )
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session


class NodeClient:
    """One node; see `ports.QueryNode`."""

    def __init__(self, connections: NodeConnections, url: str) -> None:
        self._connections = connections
        self._base = url + wire.PREFIX

    async def put(self, version: int, value: IndexValue, multihashes: Sequence[bytes], *, is_durable: bool) -> None:
        await self._call(wire.PUT, (version, wire.row(value), list(multihashes), is_durable))

    async def remove(self, version: int, provider: str, context: bytes | None, *, is_durable: bool) -> None:
        await self._call(wire.REMOVE, (version, provider, context, is_durable))

    async def find(self, version: int, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        found = wire.expand_values(await self._call(wire.FIND, (version, list(multihashes))))
        return _check_count(found, multihashes)

    async def find_second(self, version: int, digests: Sequence[bytes]) -> list[bytes | None]:
        return _check_count(await self._call(wire.SECOND, (version, list(digests))), digests)

    async def find_value(self, version: int, value_key_hash: bytes) -> IndexValue | None:
        row = await self._call(wire.VALUE, (version, value_key_hash))
        return None if row is None else IndexValue(*row)

    async def multihashes(
        self, version: int, provider: str, context: bytes, *, start: bytes, limit: int
    ) -> list[bytes]:
        return await self._call(wire.LIST, (version, provider, context, start, limit))

    async def context_size(self, version: int, provider: str, context: bytes) -> int:
        return await self._call(wire.SIZE, (version, provider, context))

    async def export(self, version: int, slots: Sequence[int], cursor: bytes, *, limit: int) -> SlotExport:
        rows, entries, finished, rest = await self._call(wire.EXPORT, (version, list(slots), cursor, limit))
        # Checked here, because the indexes are used without a check when the page is stored.
        if not 0 <= finished <= len(slots) or any(not 0 <= at < len(rows) for _, at in entries):
            raise Invalid(f"{self._base} sent an inconsistent page; it may run another version")
        return SlotExport([IndexValue(*row) for row in rows], entries, finished, rest)

    async def status(self, version: int) -> QueryNodeStatus:
        name, own, held, left, is_cleared, stats = await self._call(wire.STATUS, (version,))
        return QueryNodeStatus(name, own, held, left, is_cleared, StoreStats(*stats))

    async def _call(self, call: wire.WireCall[Q, A], request: Q) -> A:
        return call.answer(await self._connections.post(URL(self._base + call.name), wire.pack(request)))


def _to_payload(body: bytes) -> bytes | io.BytesIO:
    # aiohttp writes bytes at once and a file in pieces.
    return body if len(body) < WHOLE_BYTES_MAX else io.BytesIO(body)


async def _read_bounded(answer: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > wire.ANSWER_BYTES_MAX:
            # The connection is dropped: reading the rest to reuse it would be the cost that the limit avoids.
            answer.close()
            raise Invalid(f"{answer.url} answered more than {wire.ANSWER_BYTES_MAX} bytes; request less at once")
        parts.append(part)
    return b"".join(parts)


def _check_count(answers: list[A], requested: Sequence[bytes]) -> list[A]:
    if len(answers) != len(requested):
        raise Invalid(f"a query node gave {len(answers)} answers to {len(requested)} lookups")
    return answers


def _error(url: URL, status: int, data: bytes) -> ArgosyError:
    try:
        message = str(msgspec.json.decode(data)["error"]["message"])
    except (msgspec.DecodeError, LookupError, TypeError):
        message = "no message"
    return _KINDS.get(status, Unavailable)(f"{url} answered {status}: {message}")
