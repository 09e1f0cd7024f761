"""Questions over HTTP to a front door or a node: one after the other, at a steady rate, or as fast as they go.

A steady rate does not wait for answers: each question has its instant, and what it took is counted from there, whether
or not this process or the fleet was late.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice

import msgspec

from argosy.bench.fleet.http_load import Address, Connections, request
from argosy.search.fleet.model import SearchRequest
from argosy.search.fleet.protocol import CONTENT_TYPE, SEARCH_PATH, pack, unpack
from argosy.search.model import Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.codec import encode_query

ANSWER_S_MAX = 30.0
CALLERS = 8  # at once, when it is about how many answers there can be


@dataclass(frozen=True)
class Question:
    """A request, made beforehand so that asking costs little."""

    url: str
    body: bytes
    kind: str

    @cached_property
    def sent(self) -> tuple[Address, bytes]:
        return request(self.url, self.body, self.kind)


@dataclass(frozen=True)
class Seen:
    """How one question ended; status 0 if nothing came back. Times are of the monotonic clock."""

    asked_at: float
    took_s: float
    status: int
    missing: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        return self.status == 200 and not self.missing


class _Missing(msgspec.Struct):
    repository: str


class _Reply(msgspec.Struct):
    """What is read of an answer."""

    missing: list[_Missing] = []


_replies = msgspec.json.Decoder(_Reply)


def to_door(address: str, query: str, repositories: Sequence[str] | None = None) -> Question:
    asked = {"q": query} if repositories is None else {"q": query, "repositories": list(repositories)}
    return Question(f"http://{address}/v1/search", msgspec.json.encode(asked), "application/json")


def to_node(address: str, query: str, repositories: Iterable[str]) -> Question:
    """The same question as the front door puts it."""
    request = SearchRequest(encode_query(parse(query).query), tuple(repositories), Options())
    return Question(f"http://{address}{SEARCH_PATH}", pack(request), CONTENT_TYPE)


@asynccontextmanager
async def session() -> AsyncIterator[Connections]:
    opened = Connections(answer_s_max=ANSWER_S_MAX)
    try:
        yield opened
    finally:
        opened.close()


async def ask(opened: Connections, question: Question, at: float | None = None) -> Seen:
    """`at`: the instant from which its time is counted, if not now."""
    began = time.monotonic() if at is None else at
    try:
        status, body = await opened.post(*question.sent)
        took_s = time.monotonic() - began
        missing = _missing(body, question.kind) if status == 200 else frozenset[str]()
        return Seen(began, took_s, status, missing)
    except (TimeoutError, OSError, msgspec.DecodeError):
        return Seen(began, time.monotonic() - began, 0)


def _missing(body: bytes, kind: str) -> frozenset[str]:
    missing = unpack(body, SearchResult).missing if kind == CONTENT_TYPE else _replies.decode(body).missing
    return frozenset([each.repository for each in missing])


async def at_rate(opened: Connections, questions: Sequence[Question], per_s: float, seconds: float) -> list[Seen]:
    """So many a second, evenly."""
    asking: list[asyncio.Task[Seen]] = []
    begin = time.monotonic()
    for number, question in enumerate(islice(cycle(questions), int(per_s * seconds))):
        at = begin + number / per_s
        if (wait_s := at - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        asking.append(asyncio.ensure_future(ask(opened, question, at)))
    return list(await asyncio.gather(*asking))


async def until_told(
    opened: Connections, questions: Sequence[Question], per_s: float, is_over: asyncio.Event
) -> list[Seen]:
    """The same, until somebody says that it is over."""
    asking: list[asyncio.Task[Seen]] = []
    begin = time.monotonic()
    for number, question in enumerate(cycle(questions)):
        at = begin + number / per_s
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        if is_over.is_set():
            break
        asking.append(asyncio.ensure_future(ask(opened, question, at)))
    return list(await asyncio.gather(*asking))


async def as_fast_as_they_go(
    opened: Connections, questions: Sequence[Question], seconds: float, callers: int = CALLERS
) -> tuple[float, list[Seen]]:
    """Answers a second to so many callers who ask one question after the other, and what they saw."""
    waiting, seen = cycle(questions), []
    begin = time.monotonic()

    async def call() -> None:
        while time.monotonic() - begin < seconds:
            seen.append(await ask(opened, next(waiting)))

    await asyncio.gather(*(call() for _ in range(callers)))
    return len(seen) / (time.monotonic() - begin), seen


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that is not below so large a part of them."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
