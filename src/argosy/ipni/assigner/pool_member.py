"""Connections to the indexers of the pool and to forward URLs, each with its own queue and request limit.

So a slow one delays no other: its announcements wait in its queue, its requests at its limit. The original
serialises all of them with one lock, so every announcement waits behind the slowest indexer.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError, Throttled, Unavailable
from argosy.base.retry import Backoff, retry
from argosy.base.tasks import KeyedWorkQueue
from argosy.ipni.assigner.configuration import PoolEntry
from argosy.ipni.assigner.pool_state import IndexerReport
from argosy.ipni.assigner.telemetry import AssignerTelemetry
from argosy.ipni.formats.head import Announcement
from argosy.ipni.model import Assignment, IndexerStatus


class Destination(Protocol):
    """Receives announcements."""

    async def announce(self, announce: Announcement) -> None: ...

    async def close(self) -> None: ...


class PoolIndexer(Destination, Protocol):
    """One indexer of the pool."""

    async def status(self) -> IndexerStatus: ...

    async def assignments(self) -> Sequence[Assignment]: ...

    async def preferred_publishers(self) -> Sequence[str]: ...

    async def assign(self, publisher: str) -> None: ...

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        """Returns without error, and assigns nothing, if the frozen indexer no longer has the publisher."""
        ...


OpenIndexer = Callable[[PoolEntry], PoolIndexer]
OpenDestination = Callable[[str], Destination]


ANNOUNCES_WAITING_MAX = 10_000  # per destination, one per publisher
ANNOUNCES_MISSED_MAX = 10_000  # per unreachable indexer; the oldest are dropped first
# An indexer only queues announcements, so a few connections are enough for it.
ANNOUNCES_AT_ONCE_MAX = 4
REQUESTS_AT_ONCE_MAX = 16  # per indexer
# Short: a longer outage is covered by `resend_missed`.
BACKOFF = Backoff(first_s=0.2, ceiling_s=2.0, attempts_max=3)


class Outbox:
    """Announcements to one destination, with retries. Up to `missed_max` undelivered ones, the newest of each
    publisher, are remembered until `resend_missed`."""

    def __init__(
        self,
        url: str,
        destination: Destination,
        telemetry: AssignerTelemetry,
        *,
        clock: Clock,
        random: Random,
        missed_max: int = 0,
    ) -> None:
        self._url = url
        self._destination = destination
        self._telemetry = telemetry
        self._clock = clock
        self._random = random
        self._missed_max = missed_max
        self._missed: OrderedDict[str, Announcement] = OrderedDict()
        self.queue: KeyedWorkQueue[Announcement] = KeyedWorkQueue(
            self._send, width=ANNOUNCES_AT_ONCE_MAX, waiting_max=ANNOUNCES_WAITING_MAX
        )

    def put(self, announce: Announcement) -> None:
        try:
            self.queue.put(announce.publisher.id, announce)
        except Unavailable as why:
            self._telemetry.record_delivery_failure(self._url, announce.publisher.id, why)

    def resend_missed(self) -> None:
        """Resends missed announcements after the destination has answered again: not every publisher repeats them."""
        # Emptied first: those that fail again enter the new one.
        missed, self._missed = self._missed, OrderedDict()
        for publisher, announce in missed.items():
            if publisher not in self.queue:  # a newer one is queued
                self.put(announce)

    async def close(self) -> None:
        await self.queue.close()
        await self._destination.close()

    async def _send(self, publisher: str, announce: Announcement) -> None:
        try:
            await retry(lambda: self._destination.announce(announce), BACKOFF, clock=self._clock, random=self._random)
            self._missed.pop(publisher, None)
            self._telemetry.record_delivery()
        except ArgosyError as why:
            # Only failures that pass: an announcement that was refused would be refused again.
            if isinstance(why, Unavailable | Throttled):
                self._remember_missed(publisher, announce)
            self._telemetry.record_delivery_failure(self._url, publisher, why)

    def _remember_missed(self, publisher: str, announce: Announcement) -> None:
        self._missed[publisher] = announce
        self._missed.move_to_end(publisher)
        if len(self._missed) > self._missed_max:
            self._missed.popitem(last=False)


class PoolMember:
    """One indexer of the pool."""

    def __init__(
        self, url: str, indexer: PoolIndexer, telemetry: AssignerTelemetry, *, clock: Clock, random: Random
    ) -> None:
        self.url = url
        self._indexer = indexer
        self._telemetry = telemetry
        self._request_limit = asyncio.Semaphore(REQUESTS_AT_ONCE_MAX)
        self.outbox = Outbox(url, indexer, telemetry, clock=clock, random=random, missed_max=ANNOUNCES_MISSED_MAX)

    async def report(self) -> IndexerReport:
        """Reads the indexer's report and resends what it has missed; a frozen one has no preferred publishers."""
        status = await self._indexer.status()
        # As soon as it answers, not at the end: reading the assignments may still fail.
        self.outbox.resend_missed()
        assigned = await self._indexer.assignments()
        # It accepts no assignments, so its preferences have no effect.
        preferred = frozenset[str]() if status.is_frozen else await self._preferred_publishers()
        return IndexerReport(
            status.id,
            status.is_frozen,
            status.usage_percent,
            {each.publisher: each.continued for each in assigned},
            preferred,
        )

    async def assign(self, publisher: str) -> None:
        async with self._request_limit:
            await self._indexer.assign(publisher)

    async def hand_off(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        async with self._request_limit:
            await self._indexer.handoff(publisher, frozen_id=frozen_id, frozen_url=frozen_url)

    async def close(self) -> None:
        await self.outbox.close()

    async def _preferred_publishers(self) -> frozenset[str]:
        """Publishers whose data the indexer has already. Only a hint: a failure does not fail the report."""
        try:
            return frozenset(await self._indexer.preferred_publishers())
        except ArgosyError as why:
            self._telemetry.record_preferred_failure(self.url, why)
            return frozenset()
