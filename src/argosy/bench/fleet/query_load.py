"""Queries over HTTP to a gateway or a node: sequential, at a steady rate, or as fast as possible.

A steady rate does not wait for responses: each query has its scheduled instant, and its latency is counted from there,
whether or not this process or the fleet was late. A client that sends the next query only after the last response would
slow down together with the fleet, and would miss the latencies that its users see (coordinated omission).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice

import msgspec

from argosy.bench.fleet.http_load import Address, LoadConnections, encode_post
from argosy.search.fleet.model import SearchRequest
from argosy.search.fleet.protocol import CONTENT_TYPE, SEARCH_PATH, pack, unpack
from argosy.search.model import Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.codec import encode_query

RESPONSE_S_MAX = 30.0
CALLERS = 8  # concurrent callers when throughput is measured


@dataclass(frozen=True)
class LoadQuery:
    """A request, encoded once, so that sending it costs little."""

    url: str
    body: bytes
    content_type: str

    @cached_property
    def request(self) -> tuple[Address, bytes]:
        return encode_post(self.url, self.body, self.content_type)


@dataclass(frozen=True)
class QueryResult:
    """How one query ended; status 0 if no response came. Times are of the monotonic clock."""

    started_at: float
    took_s: float
    status: int
    missing: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        return self.status == 200 and not self.missing


class _MissingRepository(msgspec.Struct):
    repository: str


class _SearchResponse(msgspec.Struct):
    """The only field of a response that is decoded: decoding the matches would cost more than the gateway does."""

    missing: list[_MissingRepository] = []


_decoder = msgspec.json.Decoder(_SearchResponse)


def gateway_query(address: str, query: str, repositories: Sequence[str] | None = None) -> LoadQuery:
    fields = {"q": query} if repositories is None else {"q": query, "repositories": list(repositories)}
    return LoadQuery(f"http://{address}/v1/search", msgspec.json.encode(fields), "application/json")


def node_query(address: str, query: str, repositories: Iterable[str]) -> LoadQuery:
    """The same query as the gateway sends it to a node."""
    request = SearchRequest(encode_query(parse(query).query), tuple(repositories), Options())
    return LoadQuery(f"http://{address}{SEARCH_PATH}", pack(request), CONTENT_TYPE)


@asynccontextmanager
async def open_connections() -> AsyncIterator[LoadConnections]:
    connections = LoadConnections(response_s_max=RESPONSE_S_MAX)
    try:
        yield connections
    finally:
        connections.close()


async def run_query(connections: LoadConnections, query: LoadQuery, at: float | None = None) -> QueryResult:
    """`at`: the instant from which the latency is counted, if not now."""
    started_at = time.monotonic() if at is None else at
    try:
        status, body = await connections.post(*query.request)
        took_s = time.monotonic() - started_at
        missing = _missing(body, query.content_type) if status == 200 else frozenset[str]()
        return QueryResult(started_at, took_s, status, missing)
    except (TimeoutError, OSError, msgspec.DecodeError):
        return QueryResult(started_at, time.monotonic() - started_at, 0)


def _missing(body: bytes, content_type: str) -> frozenset[str]:
    is_from_node = content_type == CONTENT_TYPE
    missing = unpack(body, SearchResult).missing if is_from_node else _decoder.decode(body).missing
    return frozenset([each.repository for each in missing])


async def run_at_rate(
    connections: LoadConnections, queries: Sequence[LoadQuery], per_s: float, seconds: float
) -> list[QueryResult]:
    """This many queries a second, evenly spaced."""
    tasks: list[asyncio.Task[QueryResult]] = []
    begin = time.monotonic()
    for number, query in enumerate(islice(cycle(queries), int(per_s * seconds))):
        at = begin + number / per_s
        if (wait_s := at - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        tasks.append(asyncio.ensure_future(run_query(connections, query, at)))
    return list(await asyncio.gather(*tasks))


async def run_until(
    connections: LoadConnections, queries: Sequence[LoadQuery], per_s: float, is_over: asyncio.Event
) -> list[QueryResult]:
    """The same, until the event is set."""
    tasks: list[asyncio.Task[QueryResult]] = []
    begin = time.monotonic()
    for number, query in enumerate(cycle(queries)):
        at = begin + number / per_s
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        if is_over.is_set():
            break
        tasks.append(asyncio.ensure_future(run_query(connections, query, at)))
    return list(await asyncio.gather(*tasks))


async def run_at_full_speed(
    connections: LoadConnections, queries: Sequence[LoadQuery], seconds: float, callers: int = CALLERS
) -> tuple[float, list[QueryResult]]:
    """Responses a second to callers that each send one query after the other, and the results."""
    remaining, results = cycle(queries), []
    begin = time.monotonic()

    async def call() -> None:
        while time.monotonic() - begin < seconds:
            results.append(await run_query(connections, next(remaining)))

    await asyncio.gather(*(call() for _ in range(callers)))
    return len(results) / (time.monotonic() - begin), results
