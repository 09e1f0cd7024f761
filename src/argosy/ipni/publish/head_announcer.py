"""Keeps indexers informed: at the start, whenever the chain grows, and now and then besides.

An announcement is only a hint, so none is kept for later: each URL is always told the newest head, and one that is slow
or away holds up no other. The repetition mends what was lost, and brings back an indexer that has forgotten us.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from argosy.base.clock import Clock
from argosy.base.errors import Invalid
from argosy.ipni.formats.announce import Announcement
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Peer
from argosy.ipni.publish.announce_client import AnnounceClient, AnnounceResult
from argosy.ipni.publish.ports import PublisherChain

REPEAT_S = 3600.0


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
        told: Callable[[AnnounceResult], None] = lambda _: None,
    ) -> None:
        if not addresses:
            raise Invalid("an announcement says where the chain can be read: give an address")
        self._publisher = publisher
        self._announcer = announcer
        self._peer = Peer(publisher.id, tuple(addresses))
        self._clock = clock
        self._repeat_s = repeat_s
        self._told = told
        self._taken: dict[str, Cid] = {}  # by URL: the head it was told last, and took

    async def announce(self) -> list[AnnounceResult]:
        """Tells all of them the head once; nobody is told of an empty chain."""
        head = self._publisher.head
        if head is None:
            return []
        told = await asyncio.gather(*(self._tell(url, head) for url in self._announcer.urls))
        return list(told)

    async def run(self) -> None:
        """Goes on from what `announce` has told: an indexer that takes no publisher here would refuse twice."""
        async with asyncio.TaskGroup() as group:
            for url in self._announcer.urls:
                group.create_task(self._keep(url))

    async def _keep(self, url: str) -> None:
        seen = self._taken.get(url)
        while True:
            seen = await self._news(seen)
            await self._tell(url, seen)

    async def _news(self, seen: Cid | None) -> Cid:
        """Another head than was seen, or the same one when it is time to repeat it."""
        grown = asyncio.ensure_future(self._publisher.grown(seen))
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

    async def _tell(self, url: str, head: Cid) -> AnnounceResult:
        told = await self._announcer.tell(url, Announcement(head, self._peer))
        if told.error is None:
            self._taken[url] = head
        self._told(told)
        return told
