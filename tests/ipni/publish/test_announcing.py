"""Announcements: at the start, when the chain grows, again after a while, and again after an outage of an indexer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Forbidden, Invalid, Unavailable
from argosy.base.retry import Backoff
from argosy.ipni.formats.head import Announcement, decode_announcement
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.head_announcer import AnnounceClient, HeadAnnouncer, announce_url
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.publish.chains import BITSWAP, KEY, hashes
from tests.ipni.publish.serving import serving

ADDRESS = "/ip4/127.0.0.1/tcp/3104/http"
SOON = Backoff(first_s=0.001, ceiling_s=0.002, attempts_max=3)
PATIENCE_S = 20.0


@dataclass
class IngestDouble:
    """An indexer's ingest endpoint, which records announcements."""

    received: list[Announcement] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def announce(self, request: Request) -> Response:
        kind = request.headers["content-type"]
        self.kinds.append(kind)
        self.received.append(decode_announcement(await request.body(), kind == "application/json"))
        self.news.set()
        status = self.statuses.pop(0) if self.statuses else 204
        return Response(status_code=204) if status == 204 else PlainTextResponse("not now", status)

    async def wait_for(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def served_ingest(ingest: IngestDouble) -> AsyncIterator[str]:
    async with serving(Starlette(routes=[Route("/announce", ingest.announce, methods=["PUT"])])) as url:
        yield url


@asynccontextmanager
async def announcing(*urls: str, is_json: bool = False) -> AsyncIterator[AnnounceClient]:
    announcer = AnnounceClient(urls, clock=SystemClock(), random=seeded_random(1), is_json=is_json, backoff=SOON)
    try:
        yield announcer
    finally:
        await announcer.close()


@pytest.fixture
async def publisher() -> Publisher:
    made = await Publisher.open(KEY, MemoryChain())
    await made.publish(b"a", BITSWAP, hashes("x"))
    return made


@pytest.mark.parametrize(("is_json", "kind"), [(False, "application/octet-stream"), (True, "application/json")])
async def test_an_announcement_contains_the_head_and_its_addresses(
    publisher: Publisher, is_json: bool, kind: str
) -> None:
    ingest = IngestDouble()
    async with served_ingest(ingest) as url, announcing(url, is_json=is_json) as announcer:
        (result,) = await HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock()).announce()
    assert (result.error, ingest.kinds) == (None, [kind])
    (received,) = ingest.received
    assert (received.head, received.publisher.id, received.publisher.addresses) == (
        publisher.head,
        KEY.peer_id,
        (ADDRESS,),
    )


async def test_an_announcement_to_a_failing_indexer_is_retried_a_few_times(publisher: Publisher) -> None:
    ingest = IngestDouble(statuses=[503, 500])
    async with served_ingest(ingest) as url, announcing(url) as announcer:
        announcer_of_head = HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock())
        assert [result.error for result in await announcer_of_head.announce()] == [None]
        ingest.statuses = [503] * 10
        (result,) = await announcer_of_head.announce()
    assert isinstance(result.error, Unavailable)
    assert len(ingest.received) == 3 + SOON.attempts_max


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (400, Invalid), (302, Invalid)])
async def test_a_refusal_is_an_answer(publisher: Publisher, status: int, kind: type[Exception]) -> None:
    ingest = IngestDouble(statuses=[status] * 9)
    async with served_ingest(ingest) as url, announcing(url) as announcer:
        (result,) = await HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock()).announce()
    assert isinstance(result.error, kind)
    assert "not now" in str(result.error)
    assert len(ingest.received) == 1


async def test_an_unreachable_indexer_does_not_delay_the_others(publisher: Publisher) -> None:
    ingest = IngestDouble()
    async with served_ingest(ingest) as url, announcing("http://127.0.0.1:1", url) as announcer:
        unavailable, result = await HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock()).announce()
    assert isinstance(unavailable.error, Unavailable)
    assert (result.error, len(ingest.received)) == (None, 1)


async def test_every_new_head_is_announced_and_the_first_at_the_start(publisher: Publisher) -> None:
    ingest = IngestDouble()
    async with (
        served_ingest(ingest) as url,
        announcing(url) as announcer,
        running(publisher, announcer, repeat_s=3600.0),
    ):
        await ingest.wait_for(lambda: len(ingest.received) == 1)
        await publisher.publish(b"b", BITSWAP, hashes("y"))
        await ingest.wait_for(lambda: ingest.received[-1].head == publisher.head)
    assert [received.publisher.addresses for received in ingest.received] == [(ADDRESS,), (ADDRESS,)]


async def test_a_head_is_announced_again_after_a_while(publisher: Publisher) -> None:
    ingest = IngestDouble()
    async with served_ingest(ingest) as url, announcing(url) as announcer, running(publisher, announcer, repeat_s=0.01):
        await ingest.wait_for(lambda: len(ingest.received) >= 3)
    assert {received.head for received in ingest.received} == {publisher.head}


async def test_an_empty_chain_is_not_announced_until_it_grows() -> None:
    ingest = IngestDouble()
    publisher = await Publisher.open(KEY, MemoryChain())
    async with served_ingest(ingest) as url, announcing(url) as announcer:
        assert await HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock()).announce() == []
        async with running(publisher, announcer, repeat_s=0.01):
            await publisher.publish(b"a", BITSWAP, hashes("x"))
            await ingest.wait_for(lambda: len(ingest.received) >= 1)
    assert {received.head for received in ingest.received} == {publisher.head}


@asynccontextmanager
async def running(publisher: Publisher, announcer: AnnounceClient, *, repeat_s: float) -> AsyncIterator[None]:
    announcer_of_head = HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock(), repeat_s=repeat_s)
    task = asyncio.create_task(announcer_of_head.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://a:3001", "http://a:3001/announce"),
        ("https://a/", "https://a/announce"),
        ("https://a/ingest", "https://a/ingest/announce"),
        ("https://a/ingest/announce", "https://a/ingest/announce"),
    ],
)
def test_the_url_of_an_indexer_is_enough(given: str, meant: str) -> None:
    assert announce_url(given) == meant


@pytest.mark.parametrize("given", ["a:3001", "ftp://a", "http://", ""])
def test_an_invalid_url_is_rejected_at_once(given: str) -> None:
    with pytest.raises(Invalid, match="is not the URL of an indexer"):
        AnnounceClient([given], clock=SystemClock(), random=seeded_random(1))


async def test_an_announcement_without_an_address_is_refused(publisher: Publisher) -> None:
    async with announcing("http://a") as announcer:
        with pytest.raises(Invalid, match="needs an address"):
            HeadAnnouncer(publisher, announcer, [], clock=SystemClock())


async def test_a_head_is_not_announced_twice_in_a_row(publisher: Publisher) -> None:
    """An indexer that may not read the publisher would reject it, and log that, twice."""
    ingest = IngestDouble()
    first = publisher.head
    async with served_ingest(ingest) as url, announcing(url) as announcer:
        announcer_of_head = HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock())
        await announcer_of_head.announce()
        task = asyncio.create_task(announcer_of_head.run())
        second = await publisher.publish(b"b", BITSWAP, hashes("y"))
        await ingest.wait_for(lambda: any(each.head == second for each in ingest.received))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert [each.head for each in ingest.received] == [first, second]


async def test_a_head_an_indexer_rejected_is_announced_again(publisher: Publisher) -> None:
    ingest = IngestDouble(statuses=[403])
    async with served_ingest(ingest) as url, announcing(url) as announcer:
        announcer_of_head = HeadAnnouncer(publisher, announcer, [ADDRESS], clock=SystemClock())
        (result,) = await announcer_of_head.announce()
        assert result.error is not None
        task = asyncio.create_task(announcer_of_head.run())
        await ingest.wait_for(lambda: len(ingest.received) == 2)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert {each.head for each in ingest.received} == {publisher.head}
