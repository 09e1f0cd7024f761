"""Announces new heads: at the start, whenever the chain grows, and periodically.

An announcement is only a hint, so none is queued: each URL always receives the newest head, and a slow or unreachable
one delays no other. The repetition covers lost announcements and indexers that have lost their state.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from yarl import URL

from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError, Forbidden, Invalid, Unavailable
from argosy.base.redact import redact
from argosy.base.retry import Backoff, retry
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement, encode_announcement, encode_announcement_json
from argosy.ipni.model import Peer
from argosy.ipni.publish.ports import PublisherChain

PATH = "/announce"
ANNOUNCE_S_MAX = 10.0  # one attempt
ANSWER_BYTES_MAX = 4096  # of an error message
# Within a minute: the next repetition announces again anyway.
RETRIES = Backoff(first_s=0.5, ceiling_s=10.0, attempts_max=4)
_HEADERS = {False: {"content-type": "application/octet-stream"}, True: {"content-type": "application/json"}}


@dataclass(frozen=True)
class AnnounceResult:
    """Result of one announcement; without an error it was accepted."""

    url: str
    error: ArgosyError | None = None


def announce_url(url: str) -> str:
    """The announce endpoint of an indexer's URL; one that names it already is left as it is."""
    try:
        parsed = URL(url)
        is_good = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (ValueError, TypeError):
        is_good = False
    if not is_good:
        raise Invalid(f"{redact(url)[:200]!r} is not the URL of an indexer; use http://host:port or https://host")
    return url if parsed.path.endswith(PATH) else str(parsed.with_path(parsed.path.rstrip("/") + PATH))


class AnnounceClient:
    """Announces to a fixed set of URLs. Belongs to the event loop of its first use."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        clock: Clock,
        random: Random,
        is_json: bool = False,
        backoff: Backoff = RETRIES,
    ) -> None:
        self.urls = tuple(dict.fromkeys(announce_url(url) for url in urls))
        self._clock = clock
        self._random = random
        self._is_json = is_json
        self._backoff = backoff
        self._session: aiohttp.ClientSession | None = None

    async def announce(self, url: str, announce: Announcement) -> AnnounceResult:
        """Announces to one URL, with retries; failures are in the result, never raised."""
        body = encode_announcement_json(announce) if self._is_json else encode_announcement(announce)
        try:
            await retry(lambda: self._put(url, body), self._backoff, clock=self._clock, random=self._random)
        except ArgosyError as error:
            return AnnounceResult(url, error)
        return AnnounceResult(url)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _put(self, url: str, body: bytes) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANNOUNCE_S_MAX))
        try:
            async with self._session.put(
                url, data=body, headers=_HEADERS[self._is_json], allow_redirects=False
            ) as answer:
                text = (await answer.content.read(ANSWER_BYTES_MAX)).decode("utf-8", "replace").strip()
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{redact(url)} is unreachable ({type(error).__name__})") from None
        if 200 <= status < 300:
            return
        refusal = f"{redact(url)} rejected the announcement with status {status}: {text[:200]}"
        if status in (401, 403):
            raise Forbidden(refusal)
        # Only these are retried: a request that is wrong stays wrong.
        raise Unavailable(refusal) if status >= 500 or status in (408, 429) else Invalid(refusal)


REPEAT_S = 3600.0  # an announcement of a known head costs the indexer nothing


class HeadAnnouncer:
    """Announces a publisher's heads until it is cancelled. `addresses` are where its chain can be read."""

    def __init__(
        self,
        publisher: PublisherChain,
        announcer: AnnounceClient,
        addresses: Sequence[str],
        *,
        clock: Clock,
        repeat_s: float = REPEAT_S,
        on_result: Callable[[AnnounceResult], None] = lambda _: None,
    ) -> None:
        if not addresses:
            raise Invalid("an announcement needs an address where the chain can be read")
        self._publisher = publisher
        self._announcer = announcer
        self._peer = Peer(publisher.id, tuple(addresses))
        self._clock = clock
        self._repeat_s = repeat_s
        self._on_result = on_result
        self._accepted: dict[str, Cid] = {}  # by URL: the last head that it accepted

    async def announce(self) -> list[AnnounceResult]:
        """Announces the head to all URLs once; an empty chain has none."""
        head = self._publisher.head
        if head is None:
            return []
        result = await asyncio.gather(*(self._announce_to(url, head) for url in self._announcer.urls))
        return list(result)

    async def run(self) -> None:
        """Announces changes and repeats. Heads that `announce` has delivered are not announced again at once."""
        # One task per URL: each waits for its own retries.
        async with asyncio.TaskGroup() as group:
            for url in self._announcer.urls:
                group.create_task(self._announce_changes(url))

    async def _announce_changes(self, url: str) -> None:
        seen = self._accepted.get(url)
        while True:
            seen = await self._next_head(seen)
            await self._announce_to(url, seen)

    async def _next_head(self, seen: Cid | None) -> Cid:
        """The next head after `seen`, or `seen` itself when it is time to repeat it."""
        grown = asyncio.ensure_future(self._publisher.wait_new_head(seen))
        # Nothing to repeat yet.
        if seen is None:
            return await grown
        pause = asyncio.ensure_future(self._clock.sleep(self._repeat_s))
        try:
            await asyncio.wait([grown, pause], return_when=asyncio.FIRST_COMPLETED)
            return grown.result() if grown.done() else seen
        finally:
            for each in (grown, pause):
                each.cancel()
                with suppress(asyncio.CancelledError):
                    await each

    async def _announce_to(self, url: str, head: Cid) -> AnnounceResult:
        result = await self._announcer.announce(url, Announcement(head, self._peer))
        if result.error is None:
            self._accepted[url] = head
        self._on_result(result)
        return result
